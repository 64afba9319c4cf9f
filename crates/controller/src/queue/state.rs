//! The state of a queue, without its workers. Time is an argument.

use std::{collections::BTreeMap, hash::Hash, time::Duration};

use hashbrown::{HashMap, hash_map::Entry};
use tokio::time::Instant;

/// Statistics of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStats {
    /// The number of keys that are due and wait for a worker.
    pub depth: usize,
    /// The number of times that a key has become due since the start. Exported as
    /// `workqueue_adds_total`, as in client-go.
    pub became_due: u64,
    /// The number of times that a key was added since the start, even if it was queued already or
    /// is not due. Exported as `workqueue_retries_total`.
    pub added: u64,
    /// The total time for which the keys in progress have been processed.
    pub unfinished: Duration,
    /// The time for which the oldest key in progress has been processed.
    pub longest_running: Duration,
    /// The time when a worker last started or finished a key.
    pub last_progress: Option<Instant>,
}

/// The position of a key: due time, then order of adding.
type Position = (Instant, u64);

#[derive(Default)]
pub(super) struct State<K> {
    order: BTreeMap<Position, K>,
    pub(super) queued: HashMap<K, Position>,
    pub(super) in_progress: HashMap<K, Progress>,
    sequence: u64,
    added: u64,
    /// The number of keys that workers took.
    taken: u64,
    /// The number of due keys that were removed before a worker took them.
    removed_when_due: u64,
    last_progress: Option<Instant>,
    pub(super) is_started: bool,
    is_shut_down: bool,
    /// Whether a worker sleeps until the first key is due.
    pub(super) has_sleeper: bool,
}

pub(super) struct Progress {
    since: Instant,
    /// The due time, if the key was added while in progress.
    requeue_at: Option<Instant>,
}

/// The next step of a worker that wants a key.
pub(super) enum Next<K> {
    /// Process this key. If `has_more`, wake another worker for the keys behind it.
    Key {
        key: K,
        lateness: Duration,
        has_more: bool,
    },
    /// Sleep until the first key is due, as the only worker.
    SleepUntil(Instant),
    /// Wait for a change of the queue.
    Wait,
    ShutDown,
}

impl<K: Clone + Eq + Hash> State<K> {
    /// Adds a key. Returns whether the first key of the queue changed: then a worker must be woken.
    pub(super) fn add(&mut self, key: K, due: Instant) -> bool {
        if self.is_shut_down || !self.is_started {
            return false;
        }
        self.added += 1;
        if let Some(Progress { requeue_at, .. }) = self.in_progress.get_mut(&key) {
            *requeue_at = Some(requeue_at.map_or(due, |at| at.min(due)));
            return false;
        }
        self.insert(key, due)
    }

    fn insert(&mut self, key: K, due: Instant) -> bool {
        self.sequence += 1;
        let position = (due, self.sequence);
        match self.queued.entry(key) {
            Entry::Occupied(mut queued) => {
                if queued.get().0 <= due {
                    return false;
                }
                let previous = queued.insert(position);
                self.order.remove(&previous);
                self.order.insert(position, queued.key().clone());
            }
            Entry::Vacant(vacant) => {
                self.order.insert(position, vacant.key().clone());
                vacant.insert(position);
            }
        }
        self.order.first_key_value().is_some_and(|(first, _)| *first == position)
    }

    pub(super) fn remove(&mut self, key: &K, now: Instant) -> bool {
        if let Some(progress) = self.in_progress.get_mut(key) {
            return progress.requeue_at.take().is_some();
        }
        let Some(position) = self.queued.remove(key) else { return false };
        if position.0 <= now {
            self.removed_when_due += 1;
        }
        self.order.remove(&position).is_some()
    }

    pub(super) fn next(&mut self, now: Instant) -> Next<K> {
        if self.is_shut_down {
            return Next::ShutDown;
        }
        let Some(first) = self.order.first_entry() else { return Next::Wait };
        let (due, _) = *first.key();
        if due <= now {
            let key = first.remove();
            self.queued.remove(&key);
            self.in_progress.insert(key.clone(), Progress { since: now, requeue_at: None });
            self.taken += 1;
            self.last_progress = Some(now);
            return Next::Key {
                key,
                lateness: now.duration_since(due),
                has_more: !self.order.is_empty(),
            };
        }
        if self.has_sleeper {
            return Next::Wait;
        }
        self.has_sleeper = true;
        Next::SleepUntil(due)
    }

    /// Ends the progress of a key. Returns whether a worker must be woken, like [`State::add`].
    pub(super) fn done(&mut self, key: &K, now: Instant) -> bool {
        self.last_progress = Some(now);
        match self.in_progress.remove_entry(key) {
            // The key is due now at the earliest, so that a key that is added all the time doesn't
            // starve the keys that became due while it was in progress.
            Some((key, Progress { requeue_at: Some(at), .. })) if !self.is_shut_down => {
                self.insert(key, at.max(now))
            }
            _ => false,
        }
    }

    pub(super) fn shut_down(&mut self) {
        self.is_shut_down = true;
        self.order.clear();
        self.queued.clear();
    }

    pub(super) fn stats(&self, now: Instant) -> QueueStats {
        let depth = self.order.range(..=(now, u64::MAX)).count();
        let durations =
            || self.in_progress.values().map(|progress| now.duration_since(progress.since));
        QueueStats {
            depth,
            became_due: self.taken
                + self.removed_when_due
                + u64::try_from(depth).unwrap_or(u64::MAX),
            added: self.added,
            unfinished: durations().sum(),
            longest_running: durations().max().unwrap_or_default(),
            last_progress: self.last_progress,
        }
    }
}
