//! The health of the history store, for the lease and the metrics.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The completeness of the stored histories, and the number of invalid ones. The history store
/// updates it; the elector writes it to the lease, and the metrics export it.
#[derive(Debug, Default)]
pub(crate) struct HistoryHealth {
    /// The time of the first change that could not be written, by both clocks.
    unsaved_since: Mutex<Option<(Timestamp, Instant)>>,
    rejected: AtomicU64,
}

impl HistoryHealth {
    /// The time of the first change that could not be written. `None` while writes succeed.
    pub(crate) fn unsaved_since(&self) -> Option<Timestamp> {
        self.unsaved_since.lock().map(|(wall, _)| wall)
    }

    /// The time since the first change that could not be written. Zero while writes succeed.
    pub(crate) fn unsaved_for(&self) -> Duration {
        self.unsaved_since.lock().map_or(Duration::ZERO, |(_, at)| at.elapsed())
    }

    pub(crate) fn set_unsaved(&self, since: Option<(Timestamp, Instant)>) {
        *self.unsaved_since.lock() = since;
    }

    /// The number of stored histories that were ignored because they are invalid.
    pub(crate) fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    pub(super) fn add_rejected(&self, count: u64) {
        self.rejected.fetch_add(count, Ordering::Relaxed);
    }
}
