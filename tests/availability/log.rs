//! Logs the requests of all instances.

use std::{
    collections::HashMap,
    process::ExitStatus,
    sync::Mutex,
    time::{Duration, Instant},
};

use tokio::sync::watch;

/// Timeout of [`Log::wait`].
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_mins(2);

/// Identifies a process. A restarted instance has a new ID.
pub(crate) type InstanceId = usize;

/// The lease while an instance holds it.
#[derive(Clone, Debug)]
pub(crate) struct HeldLease {
    pub(crate) instance: InstanceId,
    /// Time of the last write by this instance.
    pub(crate) renewed_at: Instant,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ScaleWrite {
    pub(crate) instance: InstanceId,
    pub(crate) at: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    pub(crate) lease: Option<HeldLease>,
    /// The number of times that a holder released the lease.
    pub(crate) releases: usize,
    /// The times from a free lease to the first reconcile of the next leader.
    pub(crate) takeovers: Vec<Duration>,
    /// The time at which the lease was released or has expired. `None` once the next leader has
    /// read metrics.
    lease_free_at: Option<Instant>,
    /// Metric reads of each instance: one per reconcile, fewer if autoscalers share a response.
    pub(crate) metric_reads: HashMap<InstanceId, usize>,
    /// Instances that have read the lease.
    pub(crate) lease_readers: Vec<InstanceId>,
    /// Instances that are waiting for a delayed metrics response.
    pub(crate) waiting_instances: Vec<InstanceId>,
    pub(crate) scale_writes: Vec<ScaleWrite>,
    /// Writes by instances that don't hold the lease.
    pub(crate) unauthorized_writes: Vec<String>,
    pub(crate) exits: HashMap<InstanceId, ExitStatus>,
}

/// The events so far, with a notification of each change.
#[derive(Debug)]
pub(crate) struct Log {
    events: Mutex<Events>,
    changed: watch::Sender<()>,
    lease_duration: Duration,
}

impl Log {
    pub(crate) fn new(lease_duration: Duration) -> Self {
        Self { events: Mutex::default(), changed: watch::Sender::new(()), lease_duration }
    }

    pub(crate) fn add<T>(&self, event: impl FnOnce(&mut Events) -> T) -> T {
        let result = event(&mut self.events.lock().unwrap());
        self.changed.send_replace(());
        result
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&Events) -> T) -> T {
        read(&self.events.lock().unwrap())
    }

    /// Waits until `find` returns a value.
    pub(crate) async fn wait<T>(&self, awaited: &str, find: impl Fn(&Events) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        let wait = async {
            loop {
                if let Some(value) = self.read(&find) {
                    return value;
                }
                changed.changed().await.unwrap();
            }
        };
        let result = tokio::time::timeout(WAIT_TIMEOUT, wait).await;
        result
            .unwrap_or_else(|_| panic!("waited for {awaited}; {:#?}", self.events.lock().unwrap()))
    }

    /// Logs that the lease was acquired, renewed, or released if `holder` is empty.
    pub(crate) fn record_lease_write(&self, instance: InstanceId, holder: &str) {
        let now = Instant::now();
        self.add(|events| {
            if holder.is_empty() {
                (events.lease, events.lease_free_at) = (None, Some(now));
                events.releases += 1;
                return;
            }
            match &mut events.lease {
                Some(lease) if lease.instance == instance => lease.renewed_at = now,
                lease => {
                    if let Some(expired) = lease.as_ref() {
                        events.lease_free_at = Some(expired.renewed_at + self.lease_duration);
                    }
                    *lease = Some(HeldLease { instance, renewed_at: now });
                    events.metric_reads.remove(&instance);
                }
            }
        });
    }

    pub(crate) fn record_metric_read(&self, instance: InstanceId) {
        let now = Instant::now();
        self.add(|events| {
            *events.metric_reads.entry(instance).or_default() += 1;
            if events.lease.as_ref().is_some_and(|lease| lease.instance == instance)
                && let Some(free_at) = events.lease_free_at.take()
            {
                events.takeovers.push(now.saturating_duration_since(free_at));
            }
        });
    }

    /// Logs a write of an object other than the lease, if the instance does not hold the lease.
    pub(crate) fn record_if_unauthorized(&self, instance: InstanceId, write: &str) {
        self.add(|events| {
            let reason = match &events.lease {
                None => "the lease is free".to_owned(),
                Some(lease) if lease.instance != instance => {
                    format!("instance {} holds the lease", lease.instance)
                }
                Some(lease) if lease.renewed_at.elapsed() > self.lease_duration => {
                    format!("the lease was renewed {:?} ago", lease.renewed_at.elapsed())
                }
                Some(_) => return,
            };
            events.unauthorized_writes.push(format!("{instance}: {write}, though {reason}"));
        });
    }
}
