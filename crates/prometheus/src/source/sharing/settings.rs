//! For how long answers are shared.

use std::time::Duration;

/// For how long answers are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharingSettings {
    /// How old an answer may be.
    pub max_age: Duration,
    /// How long a request counts as one that is repeated.
    pub window: Duration,
}

impl SharingSettings {
    /// Settings for autoscalers with this sync period. An autoscaler never gets the same answer in
    /// two periods.
    pub fn for_sync_period(period: Duration) -> Self {
        Self { max_age: period / 3, window: period * 2 }
    }
}
