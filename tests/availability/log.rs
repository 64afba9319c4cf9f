//! Log of the requests of all instances.

use std::{
    collections::HashMap,
    process::ExitStatus,
    sync::Mutex,
    time::{Duration, Instant},
};

use tokio::sync::watch;

/// Deadline of every wait.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Identifies a process. A restarted instance has a new ID.
pub(crate) type InstanceId = usize;

/// The lease as stored.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) who: InstanceId,
    /// Time of the last write.
    pub(crate) renewed: Instant,
    pub(crate) renewals: usize,
}

/// A scale write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scaled {
    pub(crate) who: InstanceId,
    pub(crate) at: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    pub(crate) term: Option<Term>,
    /// Times from a free lease to the first reconcile of the next leader.
    pub(crate) takeovers: Vec<Duration>,
    /// When the lease became free, or expires.
    free: Option<Instant>,
    /// Metric reads of each instance: one per reconcile, fewer if autoscalers share a response.
    pub(crate) reconciles: HashMap<InstanceId, usize>,
    /// Instances that have read the lease.
    pub(crate) lease_readers: Vec<InstanceId>,
    /// Instances that are waiting for a held response.
    pub(crate) held: Vec<InstanceId>,
    pub(crate) scaled: Vec<Scaled>,
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
    pub(crate) async fn wait<T>(&self, what: &str, found: impl Fn(&Events) -> Option<T>) -> T {
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
        found.unwrap_or_else(|_| panic!("waited for {what}; {:#?}", self.events.lock().unwrap()))
    }

    /// Logs a write of the lease: acquired, renewed or released.
    pub(crate) fn leased(&self, who: InstanceId, holder: &str) {
        let now = Instant::now();
        self.add(|events| {
            if holder.is_empty() {
                (events.term, events.free) = (None, Some(now));
                return;
            }
            match &mut events.term {
                Some(term) if term.who == who => {
                    term.renewed = now;
                    term.renewals += 1;
                }
                term => {
                    if let Some(before) = term.as_ref() {
                        events.free = Some(before.renewed + self.lease_duration);
                    }
                    *term = Some(Term { who, renewed: now, renewals: 0 });
                    events.reconciles.remove(&who);
                }
            }
        });
    }

    /// Logs a metric read.
    pub(crate) fn reconciled(&self, who: InstanceId) {
        let now = Instant::now();
        self.add(|events| {
            *events.reconciles.entry(who).or_default() += 1;
            if events.term.as_ref().is_some_and(|term| term.who == who)
                && let Some(free) = events.free.take()
            {
                events.takeovers.push(now.saturating_duration_since(free));
            }
        });
    }

    /// Logs a write of another object if the instance does not hold the lease.
    pub(crate) fn writes(&self, who: InstanceId, what: &str) {
        self.add(|events| {
            let allowed = match &events.term {
                None => Err("the lease is free".to_owned()),
                Some(term) if term.who != who => {
                    Err(format!("instance {} holds the lease", term.who))
                }
                Some(term) if term.renewed.elapsed() > self.lease_duration => {
                    Err(format!("it renewed its lease {:?} ago", term.renewed.elapsed()))
                }
                Some(_) => Ok(()),
            };
            if let Err(reason) = allowed {
                events.unauthorized_writes.push(format!("{who}: {what}, though {reason}"));
            }
        });
    }
}
