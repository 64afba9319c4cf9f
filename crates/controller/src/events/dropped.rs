//! Counts events that were not written.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many events were not written, by cause. Events of a namespace that is being deleted don't
/// count.
#[derive(Debug, Default)]
pub struct DroppedEvents {
    pub(super) queue_full: AtomicU64,
    pub(super) over_budget: AtomicU64,
    pub(super) failed_write: AtomicU64,
}

impl DroppedEvents {
    /// The queue was full, or the writer had ended.
    pub fn queue_full(&self) -> u64 {
        self.queue_full.load(Ordering::Relaxed)
    }

    /// The object had too many events.
    pub fn over_budget(&self) -> u64 {
        self.over_budget.load(Ordering::Relaxed)
    }

    /// The API server refused the event, or was not reachable.
    pub fn failed_write(&self) -> u64 {
        self.failed_write.load(Ordering::Relaxed)
    }
}

pub(super) fn increment(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
