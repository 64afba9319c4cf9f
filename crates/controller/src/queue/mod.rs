//! A delaying work queue: which keys to work on, and when.
//!
//! The semantics are those of client-go's work queues. A key waits at most once and is worked on by one worker at a
//! time; added while it is worked on, it is handed out again afterwards. Of several due times for a waiting key the
//! earliest wins. Keys that are due come out in the order of their due times, then in that of their adding.

mod initial_delay;
mod state;
#[cfg(test)]
mod tests;

use std::{fmt, hash::Hash, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

pub use initial_delay::InitialDelay;
use state::{Next, State};

/// A delaying work queue that any number of tasks add to and any number of workers take from. Clones are handles to
/// the same queue.
///
/// Keys are cloned when they are added and when they are handed out, so they should be cheap to clone.
pub struct WorkQueue<K> {
    shared: Arc<Shared<K>>,
}

/// What a queue has done and has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStats {
    /// How many keys are due but not handed out.
    pub depth: usize,
    /// How many keys have become due. It only grows.
    pub adds: u64,
    /// How often a key was added, with a delay or without; also while it waited already. It only grows.
    pub scheduled: u64,
    /// How long the keys that are being worked on have been, together.
    pub unfinished: Duration,
    /// How long the one of them has been that was handed out first.
    pub longest_running: Duration,
    /// When a key was last handed out, or work on one ended.
    pub progress: Option<Instant>,
}

struct Shared<K> {
    state: Mutex<State<K>>,
    /// Wakes one worker that has nothing to wait for but a change of the queue.
    idle: Notify,
    /// Wakes the worker that sleeps until the first key is due. Only one does, so that a due key wakes one worker
    /// and not all of them.
    sleeper: Notify,
}

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: Clone + Eq + Hash> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").finish_non_exhaustive()
    }
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// An empty queue.
    pub fn new() -> Self {
        let shared =
            Shared { state: Mutex::new(State::new()), idle: Notify::new(), sleeper: Notify::new() };
        Self { shared: Arc::new(shared) }
    }

    /// Has the key worked on as soon as a worker is free; if it is being worked on, once more after that. Does
    /// nothing once the queue is shut down.
    pub fn add(&self, key: K) {
        self.add_at(key, Instant::now());
    }

    /// Has the key worked on after a delay. A key that already waits keeps the earlier of the two times.
    pub fn add_after(&self, key: K, delay: Duration) {
        // A delay beyond the clock's range is one of a century.
        const FAR: Duration = Duration::from_hours(100 * 365 * 24);
        let now = Instant::now();
        self.add_at(key, now.checked_add(delay.min(FAR)).unwrap_or(now));
    }

    fn add_at(&self, key: K, due: Instant) {
        let first_changed = self.shared.state.lock().add(key, due);
        if first_changed {
            self.shared.wake();
        }
    }

    /// Takes back a key that waits. Being worked on, it is finished but not run again, unless it is added anew.
    /// Returns whether it waited.
    pub fn remove(&self, key: &K) -> bool {
        self.shared.state.lock().remove(key, Instant::now())
    }

    /// The next key that is due, to be worked on until the lease is dropped; waits for one. `None` once the queue is
    /// shut down. Dropping the future loses no key.
    pub async fn get(&self) -> Option<WorkItem<K>> {
        loop {
            // Created before the state is read, so that a shutdown in between is not missed.
            let changed = self.shared.idle.notified();
            let next = self.shared.state.lock().next(Instant::now());
            match next {
                Next::ShutDown => return None,
                Next::Key { key, lateness, more } => {
                    if more {
                        self.shared.wake();
                    }
                    return Some(WorkItem { key, lateness, shared: Arc::clone(&self.shared) });
                }
                Next::SleepUntil(due) => {
                    let sleeper = Sleeper(&self.shared);
                    tokio::select! {
                        () = sleep_until(due) => {}
                        () = self.shared.sleeper.notified() => {}
                    }
                    drop(sleeper);
                }
                Next::Wait => changed.await,
            }
        }
    }

    /// Ends the queue: `get` hands out nothing more, keys that wait are dropped, none can be added. Work under way
    /// is not interrupted; a worker finds out at its next `get`.
    pub fn shut_down(&self) {
        self.shared.state.lock().shut_down();
        self.shared.idle.notify_waiters();
        self.shared.sleeper.notify_one();
    }

    /// How many keys wait, due or not; those being worked on are not among them.
    pub fn len(&self) -> usize {
        self.shared.state.lock().waiting()
    }

    /// Whether no key waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys are due but not handed out, for want of a free worker. Takes time in proportion to the answer.
    pub fn depth(&self) -> usize {
        self.shared.state.lock().due(Instant::now())
    }

    /// What the queue has done and has to do. Takes time in proportion to the keys that are due or worked on.
    pub fn stats(&self) -> QueueStats {
        self.shared.state.lock().stats(Instant::now())
    }

    /// How many keys are being worked on.
    pub fn running(&self) -> usize {
        self.shared.state.lock().running()
    }
}

impl<K> Shared<K> {
    /// Has a worker look at the queue again: the one that sleeps for the first key, else any that waits.
    fn wake(&self) {
        if self.state.lock().has_sleeper {
            self.sleeper.notify_one();
        } else {
            self.idle.notify_one();
        }
    }
}

/// The role of the one worker that sleeps until the first key is due. It ends even if the worker's `get` is dropped,
/// and then another worker takes it over.
struct Sleeper<'a, K>(&'a Shared<K>);

impl<K> Drop for Sleeper<'_, K> {
    fn drop(&mut self) {
        self.0.state.lock().has_sleeper = false;
        self.0.idle.notify_one();
    }
}

/// A key that is being worked on. While it lives no other worker gets the key.
pub struct WorkItem<K: Clone + Eq + Hash> {
    key: K,
    lateness: Duration,
    shared: Arc<Shared<K>>,
}

impl<K: Clone + Eq + Hash> WorkItem<K> {
    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// How long after it was due the key was handed out. A key added while it was worked on was due when that work
    /// ended.
    pub fn lateness(&self) -> Duration {
        self.lateness
    }

    /// Ends the work, as dropping the lease does.
    pub fn done(self) {}
}

impl<K: Clone + Eq + Hash> Drop for WorkItem<K> {
    fn drop(&mut self) {
        let first_changed = self.shared.state.lock().done(&self.key, Instant::now());
        if first_changed {
            self.shared.wake();
        }
    }
}

impl<K: Clone + Eq + Hash + fmt::Debug> fmt::Debug for WorkItem<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkItem")
            .field("key", &self.key)
            .field("lateness", &self.lateness)
            .finish_non_exhaustive()
    }
}
