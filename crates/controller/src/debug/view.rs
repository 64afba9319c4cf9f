//! Makes the documents of the debug API from the state of a running controller.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use hpa_calc::{Settings, report::OverwrittenScalings};
use hpa_lease::Clock;
use jiff::Timestamp;
use tokio::time::Instant;

use super::{
    recorder::DecisionRecorder,
    schema::{
        AutoscalerDetail, AutoscalerItem, AutoscalerList, ControllerStatus, DecisionMemory,
        FailedStatusWrites, QueueState, RefusedRulesFile, RunDocument, is_recent,
    },
};
use crate::{
    cache::{Autoscaler, DecisionRun},
    key::HpaKey,
    metrics::{Telemetry, longest_reconcile_age},
};

/// Makes the documents of the debug API.
pub struct DebugView {
    pub telemetry: Arc<Telemetry>,
    pub recorder: Arc<DecisionRecorder>,
    pub clock: Arc<dyn Clock>,
    pub sync_period: Duration,
    pub decision_settings: Settings,
    pub dry_run: bool,
    /// Whether histories are stored.
    pub keep_history: bool,
    /// Returns the rules file if it is refused.
    pub refused_rules_file: Box<dyn Fn() -> Option<RefusedRulesFile> + Send + Sync>,
}

/// Selects a page of the autoscalers.
#[derive(Clone, Debug, Default)]
pub struct ListFilter {
    /// Only the autoscalers of this namespace.
    pub namespace: Option<String>,
    /// The maximum number of autoscalers in a page.
    pub limit: usize,
    /// [`AutoscalerList::next`] of the previous page.
    pub after: Option<String>,
}

impl DebugView {
    /// The state of this instance.
    pub fn status(&self) -> ControllerStatus {
        let sources = self.telemetry.sources();
        let stats = sources.queue.stats();
        let autoscalers = sources.autoscalers.all();
        let (lease, is_leader) = self.telemetry.leadership();
        let working_since = self.telemetry.working_since();
        let oldest = working_since.map(|since| longest_reconcile_age(&autoscalers, since));
        let used_bytes = |autoscaler: &Autoscaler| {
            autoscaler.decisions.lock().as_ref().map_or(0, |decisions| decisions.bytes())
        };
        ControllerStatus {
            build: self.telemetry.build_info().clone(),
            now: self.clock.now(),
            is_leader,
            lease,
            is_working: working_since.is_some(),
            dry_run: self.dry_run,
            sync_period_seconds: self.sync_period.as_secs_f64(),
            settings: (&self.decision_settings).into(),
            not_ready: self.telemetry.ready().err().map(|error| error.to_string()),
            not_alive: self.telemetry.alive().err().map(|error| error.to_string()),
            queue: QueueState {
                due: stats.depth,
                queued: sources.queue.len(),
                in_progress: sources.queue.in_progress_count(),
                longest_running_seconds: stats.longest_running.as_secs_f64(),
            },
            oldest_reconcile_seconds: oldest.map(|age| age.as_secs_f64()),
            cache_ages_seconds: sources
                .watch_ages
                .by_resource()
                .into_iter()
                .map(|(resource, age)| (resource, age.as_secs_f64()))
                .collect(),
            never_listed_caches: sources.watch_ages.never_listed(),
            watch_errors: sources.watch_ages.errors(),
            undecodable_objects: sources.undecodable_count.load(Ordering::Relaxed),
            keep_history: Some(self.keep_history),
            history_unsaved_seconds: sources.history.unsaved_for().as_secs_f64(),
            autoscalers: autoscalers.len(),
            failing: autoscalers.iter().filter(|(_, autoscaler)| is_failing(autoscaler)).count(),
            failed_status_writes: failed_status_writes(&autoscalers),
            overwritten: self.count_overwritten(&autoscalers),
            unschedulable: self.count_unschedulable(&autoscalers),
            refused_rules_file: (self.refused_rules_file)(),
            decision_memory: DecisionMemory {
                limit_bytes: self.recorder.limit_bytes(),
                used_bytes: autoscalers.iter().map(|(_, autoscaler)| used_bytes(autoscaler)).sum(),
                per_autoscaler_bytes: self.recorder.bytes_per_autoscaler(autoscalers.len()),
            },
        }
    }

    /// A page of the autoscalers.
    pub fn autoscalers(&self, filter: &ListFilter) -> AutoscalerList {
        let sources = self.telemetry.sources();
        let mut all = sources.autoscalers.all();
        all.retain(|(key, _)| {
            filter.namespace.as_ref().is_none_or(|namespace| *namespace == *key.namespace)
                && filter.after.as_ref().is_none_or(|after| page_token(key) > *after)
        });
        all.sort_by_cached_key(|(key, _)| page_token(key));
        let is_last = all.len() <= filter.limit;
        all.truncate(filter.limit);
        let next = all.last().filter(|_| !is_last).map(|(key, _)| page_token(key));
        let items = all.iter().map(|(key, autoscaler)| self.item(key, autoscaler));
        AutoscalerList { now: self.clock.now(), items: items.collect(), next }
    }

    /// One autoscaler, with its decisions since a time. `None` if it isn't cached.
    pub fn autoscaler(&self, key: &HpaKey, since: Option<Timestamp>) -> Option<AutoscalerDetail> {
        let sources = self.telemetry.sources();
        let autoscaler = sources.autoscalers.get(key)?;
        let is_requested = |at: Timestamp| since.is_none_or(|since| at >= since);
        // Copied, because reconciles need the locks, and decoding takes milliseconds.
        let (mut runs, mut samples, mut metric_names) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(decisions) = autoscaler.decisions.lock().as_ref() {
            runs = decisions.runs().filter(|run| is_requested(run.until)).cloned().collect();
            samples = decisions.samples().filter(|sample| is_requested(sample.at)).collect();
            metric_names = decisions.metrics().map(ToOwned::to_owned).collect();
        }
        let forecasts = autoscaler.forecasts.lock().clone();
        let forecasts = forecasts.map(|forecasts| forecasts.view(self.clock.now()));
        let is_working = self.telemetry.working_since().is_some();
        Some(AutoscalerDetail {
            api_version: AutoscalerDetail::API_VERSION.to_owned(),
            kind: AutoscalerDetail::KIND.to_owned(),
            now: self.clock.now(),
            settings: (&self.decision_settings).into(),
            autoscaler: self.item(key, &autoscaler),
            history: is_working.then(|| autoscaler.history(self.clock.instants())),
            runs: runs.iter().filter_map(|run| decode(run, true)).collect(),
            metric_names,
            samples,
            forecasts: forecasts.unwrap_or_default(),
        })
    }

    fn item(&self, key: &HpaKey, autoscaler: &Autoscaler) -> AutoscalerItem {
        let (finished, next_due) = {
            let last = autoscaler.last_reconcile.lock();
            (last.finished, last.next_due)
        };
        // Copied, because reconciles need the lock, and decoding takes milliseconds.
        let decisions = autoscaler.decisions.lock();
        let last = decisions.as_ref().and_then(|decisions| decisions.runs().next_back().cloned());
        drop(decisions);
        let is_working = self.telemetry.working_since().is_some();
        let now = Instant::now();
        let due_in = |due: Instant| match due.checked_duration_since(now) {
            Some(rest) => rest.as_secs_f64(),
            None => -now.duration_since(due).as_secs_f64(),
        };
        let overwritten = self.overwritten_scalings(autoscaler);
        AutoscalerItem {
            api: key.api,
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            uid: autoscaler.object().metadata.uid.clone(),
            is_failing: is_failing(autoscaler),
            status_write_error: autoscaler.status_failure(),
            overwritten_scalings: overwritten.map_or(0, |overwritten| overwritten.count),
            overwritten_at: overwritten.and_then(|overwritten| overwritten.seen_at),
            last_reconcile_seconds_ago: last.as_ref().map(|_| finished.elapsed().as_secs_f64()),
            next_due_in_seconds: next_due.filter(|_| is_working).map(due_in),
            last: last.as_ref().and_then(|run| decode(run, false)),
        }
    }

    /// `None` while the workers don't run: those of another instance may have ended the series.
    fn overwritten_scalings(&self, autoscaler: &Autoscaler) -> Option<OverwrittenScalings> {
        self.telemetry.working_since()?;
        autoscaler.overwritten_replicas.lock().current(self.clock.now())
    }

    fn count_overwritten(&self, autoscalers: &[(HpaKey, Arc<Autoscaler>)]) -> u32 {
        let overwritten = autoscalers
            .iter()
            .filter(|(_, autoscaler)| self.overwritten_scalings(autoscaler).is_some());
        u32::try_from(overwritten.count()).unwrap_or(u32::MAX)
    }

    /// The number of autoscalers whose recent decision counted pods that can't be scheduled.
    fn count_unschedulable(&self, autoscalers: &[(HpaKey, Arc<Autoscaler>)]) -> u32 {
        let now = self.clock.now();
        let is_counted = |(_, autoscaler): &&(HpaKey, Arc<Autoscaler>)| {
            let age = autoscaler.last_reconcile.lock().finished.elapsed().as_secs_f64();
            let decisions = autoscaler.decisions.lock();
            let last = decisions.as_ref().and_then(|decisions| decisions.runs().next_back());
            last.is_some_and(|run| run.has_unschedulable_pods && is_recent(run.until, age, now))
        };
        u32::try_from(autoscalers.iter().filter(is_counted).count()).unwrap_or(u32::MAX)
    }
}

fn is_failing(autoscaler: &Autoscaler) -> bool {
    autoscaler.last_reconcile.lock().error.is_some()
}

/// The failed status writes. `None` if there are none.
fn failed_status_writes(autoscalers: &[(HpaKey, Arc<Autoscaler>)]) -> Option<FailedStatusWrites> {
    let mut errors = autoscalers.iter().filter_map(|(_, autoscaler)| autoscaler.status_failure());
    let error = errors.next()?;
    Some(FailedStatusWrites { autoscalers: 1 + errors.count(), error })
}

/// The position of an autoscaler in a list. It is unique, because names have no slash.
fn page_token(key: &HpaKey) -> String {
    format!("{}/{}/{}", key.namespace, key.name, key.api.name())
}

fn decode(run: &DecisionRun, with_explanation: bool) -> Option<RunDocument> {
    let explanation = with_explanation.then(|| serde_json::from_str(&run.explanation));
    Some(RunDocument {
        from: run.from,
        until: run.until,
        count: run.count,
        decision: serde_json::from_str(&run.decision).ok()?,
        explanation: explanation.transpose().ok()?,
    })
}
