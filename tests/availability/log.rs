//! Logs the requests of all instances.

use std::{
    collections::HashMap,
    process::ExitStatus,
    sync::Mutex,
    time::{Duration, Instant},
};

use tokio::sync::watch;

/// Deadline of every wait.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);

/// Identifies a process. A restarted instance has a new ID.
pub(crate) type InstanceId = usize;

/// The last write of the lease.
#[derive(Clone, Debug)]
pub(crate) struct HeldLease {
    pub(crate) instance: InstanceId,
    /// Time of the last write.
    pub(crate) renewed: Instant,
    pub(crate) renewals: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ScaleWrite {
    pub(crate) instance: InstanceId,
    pub(crate) at: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    pub(crate) lease: Option<HeldLease>,
    /// The times from a free lease to the first reconcile of the next leader.
    pub(crate) takeovers: Vec<Duration>,
    /// The time at which the lease became free, or expires.
    lease_free_at: Option<Instant>,
    /// Metric reads of each instance: one per reconcile, fewer if autoscalers share a response.
    pub(crate) reconciles: HashMap<InstanceId, usize>,
    /// Instances that have read the lease.
    pub(crate) lease_readers: Vec<InstanceId>,
    /// Instances that are waiting for a held response.
    pub(crate) held: Vec<InstanceId>,
    pub(crate) scale_writes: Vec<ScaleWrite>,
    /// Writes by instances that don't hold the lease.
    pub(crate) unauthorized_writes: Vec<String>,
    pub(crate) exits: HashMap<InstanceId, ExitStatus>,
}

/// The log. Waiters are notified of changes.
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

    /// Waits until `found` returns a value.
    pub(crate) async fn wait<T>(&self, awaited: &str, found: impl Fn(&Events) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        let wait = async {
            loop {
                if let Some(found) = self.read(&found) {
                    return found;
                }
                changed.changed().await.unwrap();
            }
        };
        let found = tokio::time::timeout(LIMIT, wait).await;
        found.unwrap_or_else(|_| panic!("waited for {awaited}; {:#?}", self.events.lock().unwrap()))
    }

    /// Logs a write of the lease: acquired, renewed or released.
    pub(crate) fn record_lease_write(&self, instance: InstanceId, holder: &str) {
        let now = Instant::now();
        self.add(|events| {
            if holder.is_empty() {
                (events.lease, events.lease_free_at) = (None, Some(now));
                return;
            }
            match &mut events.lease {
                Some(lease) if lease.instance == instance => {
                    lease.renewed = now;
                    lease.renewals += 1;
                }
                lease => {
                    if let Some(before) = lease.as_ref() {
                        events.lease_free_at = Some(before.renewed + self.lease_duration);
                    }
                    *lease = Some(HeldLease { instance, renewed: now, renewals: 0 });
                    events.reconciles.remove(&instance);
                }
            }
        });
    }

    pub(crate) fn record_metric_read(&self, instance: InstanceId) {
        let now = Instant::now();
        self.add(|events| {
            *events.reconciles.entry(instance).or_default() += 1;
            if events.lease.as_ref().is_some_and(|lease| lease.instance == instance)
                && let Some(free) = events.lease_free_at.take()
            {
                events.takeovers.push(now.saturating_duration_since(free));
            }
        });
    }

    /// Logs a write of another object if the instance does not hold the lease.
    pub(crate) fn check_write(&self, instance: InstanceId, write: &str) {
        self.add(|events| {
            let allowed = match &events.lease {
                None => Err("the lease is free".to_owned()),
                Some(lease) if lease.instance != instance => {
                    Err(format!("instance {} holds the lease", lease.instance))
                }
                Some(lease) if lease.renewed.elapsed() > self.lease_duration => {
                    Err(format!("it renewed its lease {:?} ago", lease.renewed.elapsed()))
                }
                Some(_) => Ok(()),
            };
            if let Err(reason) = allowed {
                events.unauthorized_writes.push(format!("{instance}: {write}, though {reason}"));
            }
        });
    }
}
