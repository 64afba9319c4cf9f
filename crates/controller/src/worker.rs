//! The workers: take autoscalers from the work queue and reconcile them.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use hpa_calc::HorizontalPodAutoscaler;
use hpa_metrics::mark_logged_if_due;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{task::JoinSet, time::Instant};
use tracing::{error, warn};

use crate::{
    cache::{Autoscaler, NextDue, SuspensionDetector},
    key::HpaKey,
    metrics::Telemetry,
    queue::{WorkItem, WorkQueue, next_start_time},
    reconcile::{Reconciler, WorkerSlot, WorkerSlots},
    settings::SyncPeriod,
};

/// All workers. A reconcile has a worker while it computes, reads or writes objects, and none while
/// it waits for metrics or for slow requests. So an API that hangs occupies no worker.
pub(crate) struct Workers {
    pub(crate) queue: Arc<WorkQueue<HpaKey>>,
    pub(crate) reconciler: Arc<Reconciler>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) sync_period: Duration,
    pub(crate) slots: WorkerSlots,
    pub(crate) suspension: Arc<SuspensionDetector>,
    pub(crate) next_metric_change: NextMetricChange,
    pub(crate) late_log: LateLog,
    /// The epoch of [`next_start_time`], for autoscalers with their own sync period.
    pub(crate) epoch: Instant,
}

impl Workers {
    /// Reconciles until the queue is shut down and the running reconciles have finished.
    pub(crate) async fn run(self) {
        let workers = Arc::new(self);
        let mut running = JoinSet::new();
        while let Some(item) = workers.queue.get().await {
            let due = Instant::now() - item.lateness();
            let slot = workers.slots.acquire().await;
            while running.try_join_next().is_some() {}
            // Boxed here, because each step of spawning copies the future, which is large.
            running.spawn(workers.clone().process(item, due, slot).boxed());
        }
        while running.join_next().await.is_some() {}
    }

    async fn process(self: Arc<Self>, item: WorkItem<HpaKey>, due: Instant, slot: WorkerSlot) {
        let (key, started) = (item.key().clone(), Instant::now());
        // A panic on one autoscaler must neither stop the others nor remove it from the queue.
        let reconcile = AssertUnwindSafe(self.reconcile(&key, due, &slot)).catch_unwind();
        let next = reconcile.await.unwrap_or_else(|_| {
            let _span = key.span().entered();
            error!("reconcile panicked; retrying at the next sync period");
            Some(due + self.sync_period)
        });
        if let Some(next) = next {
            self.queue.add_after(key, next.saturating_duration_since(Instant::now()));
        } else {
            // The autoscaler was deleted before or during the reconcile, which may have registered
            // its selector again.
            self.reconciler.selectors.remove(&key);
        }
        self.telemetry.record_processed(started.elapsed());
        drop(item);
    }

    /// Reconciles an autoscaler that was due at `due`. Returns the time at which it is due next,
    /// `None` if it was deleted.
    async fn reconcile(&self, key: &HpaKey, due: Instant, slot: &WorkerSlot) -> Option<Instant> {
        let Self { reconciler, telemetry, suspension, .. } = self;
        suspension.check();
        let (started, started_at) = (Instant::now(), reconciler.clock.now());
        let queued = reconciler.autoscalers.get(key);
        let period = self.period(queued.as_deref());
        telemetry.record_dequeued(key, started - due, period);
        self.late_log.observe(started - due, period.length(), started);
        reconciler.reconcile_in(key, slot).await;
        let autoscaler = reconciler.autoscalers.get(key)?;
        let period = self.period(Some(&autoscaler));
        autoscaler.change_reconciles.lock().record_start(started);
        // The controller's period counts from the due time, so that a slow reconcile does not delay
        // the next ones. A period of the autoscaler's own counts from now.
        let from = if period.is_own() { Instant::now() } else { due };
        Some(match autoscaler.next_due(from, period.length()) {
            NextDue::Early(next) => next,
            NextDue::Periodic(next) => {
                let next = if period.is_own() {
                    next_start_time(next, self.epoch, period.length())
                } else {
                    next
                };
                telemetry.record_scheduled(key, next, period);
                self.change_or_periodic(&autoscaler, next, started_at)
            }
        })
    }

    fn period(&self, autoscaler: Option<&Autoscaler>) -> SyncPeriod {
        let settings = &self.reconciler.settings;
        let effective = autoscaler.map(|autoscaler| autoscaler.settings(settings));
        let settings = effective.as_deref().unwrap_or(settings.flags());
        SyncPeriod::new(self.sync_period, settings)
    }

    /// The due time of the reconcile for the next known change of a metric or of scheduled bounds,
    /// if that is before the periodic reconcile. Then also stores the time of the periodic
    /// reconcile, so that it stays due. Otherwise returns `periodic`.
    ///
    /// `since` is the start of the last reconcile: if the bounds changed during that reconcile, it
    /// may have applied the earlier ones.
    fn change_or_periodic(
        &self,
        autoscaler: &Autoscaler,
        periodic: Instant,
        since: Timestamp,
    ) -> Instant {
        let now = self.reconciler.clock.now();
        let (hpa, settings) = autoscaler.object_with_settings(&self.reconciler.settings);
        let bounds = settings.next_bounds_change(&hpa.spec, since);
        let metric_change = (self.next_metric_change)(&hpa, since, now);
        let changes = metric_change.into_iter().chain(bounds.map(|change| change.at));
        let Some(change) = changes.min() else { return periodic };
        let delay = Duration::try_from(change.duration_since(now)).unwrap_or_default();
        let Some(at) = Instant::now().checked_add(delay) else { return periodic };
        let due = autoscaler.change_reconciles.lock().schedule(at);
        if due >= periodic {
            return periodic;
        }
        autoscaler.set_periodic_due(periodic);
        due
    }
}

/// Logs that reconciles are late by more than their sync period, at most once a minute.
#[derive(Debug, Default)]
pub(crate) struct LateLog(Mutex<LateReconciles>);

/// The late reconciles since the last log line.
#[derive(Debug, Default)]
struct LateReconciles {
    count: u64,
    longest: Duration,
    last_logged: Option<Instant>,
}

impl LateLog {
    fn observe(&self, lateness: Duration, period: Duration, now: Instant) {
        if let Some((count, longest)) = self.count_late(lateness, period, now) {
            warn!(
                count,
                ?longest,
                "reconciles start more than a sync period late: the API server, a metrics API or \
                 this machine is too slow"
            );
        }
    }

    /// Counts a reconcile if it is late. If a log line is due, returns the number of late
    /// reconciles and the longest lateness since the last line.
    fn count_late(
        &self,
        lateness: Duration,
        period: Duration,
        now: Instant,
    ) -> Option<(u64, Duration)> {
        if lateness <= period {
            return None;
        }
        let mut late = self.0.lock();
        late.count += 1;
        late.longest = late.longest.max(lateness);
        if !mark_logged_if_due(&mut late.last_logged, now) {
            return None;
        }
        Some((std::mem::take(&mut late.count), std::mem::take(&mut late.longest)))
    }
}

/// Returns the time at which to reconcile an autoscaler for a metric whose values are known in
/// advance, such as that of a scaling schedule. `None` if no change is known.
///
/// The arguments are the autoscaler, the start of its last reconcile (`since`), and now. The time
/// is that of the next change. If the value changed after `since`, that reconcile may have read the
/// earlier value, so the time is shortly after now.
pub type NextMetricChange =
    Arc<dyn Fn(&HorizontalPodAutoscaler, Timestamp, Timestamp) -> Option<Timestamp> + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_reconciles_are_logged_once_a_minute() {
        let (log, start) = (LateLog::default(), Instant::now());
        // Each step: second, lateness, and the count and longest lateness of a log line.
        let steps = [
            (0, 15, None),
            (1, 16, Some((1, 16))),
            (2, 40, None),
            (60, 20, None),
            (61, 30, Some((3, 40))),
            (200, 15, None),
        ];
        for (second, lateness, expected) in steps {
            let seconds = Duration::from_secs;
            let logged = log.count_late(seconds(lateness), seconds(15), start + seconds(second));
            let logged = logged.map(|(count, longest)| (count, longest.as_secs()));
            assert_eq!(logged, expected, "after {second} s");
        }
    }
}
