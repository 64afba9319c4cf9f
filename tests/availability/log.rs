//! What the API server was asked to do, and by which instance.

use std::{
    collections::HashMap,
    process::ExitStatus,
    sync::Mutex,
    time::{Duration, Instant},
};

use tokio::sync::watch;

/// How long something may take that is expected.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// One process, from its start to its end; a restarted one is another.
pub(crate) type Who = usize;

/// The lease as the server has it.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) who: Who,
    /// When it wrote it last.
    pub(crate) renewed: Instant,
    pub(crate) renewals: usize,
}

/// A scale that was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scaled {
    pub(crate) who: Who,
    pub(crate) at: Instant,
}

/// What has happened.
#[derive(Debug, Default)]
pub(crate) struct Events {
    pub(crate) term: Option<Term>,
    /// From when the lease was free to when the next leader first reconciled.
    pub(crate) takeovers: Vec<Duration>,
    /// Since when the lease is free, or will be.
    free: Option<Instant>,
    /// How often each has read the metric: about once for each reconcile, less often if autoscalers share an answer.
    pub(crate) reconciles: HashMap<Who, usize>,
    /// Who has looked at the lease.
    pub(crate) looked: Vec<Who>,
    /// The instances whose answers are held back, and that wait for one.
    pub(crate) held: Vec<Who>,
    pub(crate) scaled: Vec<Scaled>,
    /// Writes by an instance that has no right to.
    pub(crate) trespasses: Vec<String>,
    pub(crate) exits: HashMap<Who, ExitStatus>,
}

/// The log, and who waits for it.
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

    /// Adds to it.
    pub(crate) fn add<T>(&self, event: impl FnOnce(&mut Events) -> T) -> T {
        let result = event(&mut self.events.lock().unwrap());
        self.changed.send_replace(());
        result
    }

    /// Reads it.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Events) -> T) -> T {
        read(&self.events.lock().unwrap())
    }

    /// Waits until it has something.
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

    /// The lease was written by an instance: for itself, or to release it.
    pub(crate) fn leased(&self, who: Who, holder: &str) {
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

    /// The metric was read.
    pub(crate) fn reconciled(&self, who: Who) {
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

    /// Something other than the lease is to be written: notes it if that is not the instance's right.
    pub(crate) fn writes(&self, who: Who, what: &str) {
        self.add(|events| {
            let right = match &events.term {
                None => Err("nobody leads".to_owned()),
                Some(term) if term.who != who => Err(format!("{} leads", term.who)),
                Some(term) if term.renewed.elapsed() > self.lease_duration => {
                    Err(format!("it renewed its lease {:?} ago", term.renewed.elapsed()))
                }
                Some(_) => Ok(()),
            };
            if let Err(reason) = right {
                events.trespasses.push(format!("{who}: {what}, though {reason}"));
            }
        });
    }
}
