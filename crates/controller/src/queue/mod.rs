//! A delaying work queue with the semantics of client-go's.
//!
//! A key is queued at most once, and processed by one worker at a time. A key that is added while
//! it is processed is queued again afterwards. If a queued key is added again, the earlier due time
//! counts. Due keys are returned in the order of their due times, then in the order of adding.
//!
//! A new queue ignores keys until [`WorkQueue::start`]: a standby has no workers to take them.

mod start_times;
mod state;
#[cfg(test)]
mod tests;

use std::{hash::Hash, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

pub(crate) use start_times::{initial_delay, next_start_time};
pub use state::QueueStats;
use state::{Next, State};

/// A delaying work queue for any number of producers and workers. Keys should be cheap to clone.
#[derive(Default)]
pub struct WorkQueue<K> {
    state: Mutex<State<K>>,
    /// Wakes one worker that waits for a change of the queue.
    idle: Notify,
    /// Wakes the worker that sleeps until the first key is due. Only one worker sleeps, so
    /// that a due key doesn't wake all of them.
    sleeper: Notify,
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// Accepts keys from now on.
    pub fn start(&self) {
        self.state.lock().is_started = true;
    }

    /// Queues a key that is due now. Does nothing before the start and after the shutdown.
    pub fn add(&self, key: K) {
        self.add_at(key, Instant::now());
    }

    /// Queues a key that is due after a delay.
    pub fn add_after(&self, key: K, delay: Duration) {
        // Avoids an overflow of the clock.
        const MAX_DELAY: Duration = Duration::from_hours(100 * 365 * 24);
        let now = Instant::now();
        self.add_at(key, now.checked_add(delay.min(MAX_DELAY)).unwrap_or(now));
    }

    fn add_at(&self, key: K, due: Instant) {
        let first_changed = self.state.lock().add(key, due);
        if first_changed {
            self.wake();
        }
    }

    /// Removes a key from the queue. A key in progress is not interrupted. Returns whether the key
    /// was queued.
    pub fn remove(&self, key: &K) -> bool {
        self.state.lock().remove(key, Instant::now())
    }

    /// Waits for the next due key. The key is in progress until the item is dropped. `None` after
    /// the shutdown. Cancel safe.
    pub async fn get(self: &Arc<Self>) -> Option<WorkItem<K>> {
        loop {
            // Created before the state is read, so that a shutdown in between isn't missed.
            let changed = self.idle.notified();
            let next = self.state.lock().next(Instant::now());
            match next {
                Next::ShutDown => return None,
                Next::Key { key, lateness, has_more } => {
                    if has_more {
                        self.wake();
                    }
                    return Some(WorkItem { key, lateness, queue: Arc::clone(self) });
                }
                Next::SleepUntil(due) => {
                    let sleeper = Sleeper(self);
                    tokio::select! {
                        () = sleep_until(due) => {}
                        () = self.sleeper.notified() => {}
                    }
                    drop(sleeper);
                }
                Next::Wait => changed.await,
            }
        }
    }

    /// Discards all queued keys and ends the queue: `get` returns `None`. Keys in progress are not
    /// interrupted.
    pub fn shut_down(&self) {
        self.state.lock().shut_down();
        self.idle.notify_waiters();
        self.sleeper.notify_one();
    }

    /// The number of queued keys, due or not. Excludes keys in progress.
    pub fn len(&self) -> usize {
        self.state.lock().queued.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The statistics. Takes time linear in the number of keys that are due or in progress.
    pub fn stats(&self) -> QueueStats {
        self.state.lock().stats(Instant::now())
    }

    /// The number of keys in progress.
    pub fn in_progress_count(&self) -> usize {
        self.state.lock().in_progress.len()
    }
}

impl<K> WorkQueue<K> {
    /// Wakes the worker that sleeps until the first key is due. If there is none, wakes a worker
    /// that waits for a change.
    fn wake(&self) {
        if self.state.lock().has_sleeper {
            self.sleeper.notify_one();
        } else {
            self.idle.notify_one();
        }
    }
}

/// The role of the worker that sleeps until the first key is due. When the role ends, even because
/// the future of `get` is dropped, another worker takes it.
struct Sleeper<'a, K>(&'a WorkQueue<K>);

impl<K> Drop for Sleeper<'_, K> {
    fn drop(&mut self) {
        self.0.state.lock().has_sleeper = false;
        self.0.idle.notify_one();
    }
}

/// A key in progress. No other worker gets the key until this is dropped.
pub struct WorkItem<K: Clone + Eq + Hash> {
    key: K,
    lateness: Duration,
    queue: Arc<WorkQueue<K>>,
}

impl<K: Clone + Eq + Hash> WorkItem<K> {
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The time from the key's due time to its start. A key that was added while it was in progress
    /// is due when that progress ends, or later.
    pub fn lateness(&self) -> Duration {
        self.lateness
    }
}

impl<K: Clone + Eq + Hash> Drop for WorkItem<K> {
    fn drop(&mut self) {
        let first_changed = self.queue.state.lock().done(&self.key, Instant::now());
        if first_changed {
            self.queue.wake();
        }
    }
}
