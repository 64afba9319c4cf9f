//! Settings of [`Coalescing`](super::Coalescing).

use std::time::Duration;

/// A list with more items is fresh for longer.
const SHORT_LIST_ITEMS: usize = 2000;

/// When requests and lists are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoalescingSettings {
    /// Time after the start of a request for which its response is reused. Zero: only while the
    /// request is in flight.
    pub freshness: Duration,
    /// Time after its last request for which a selector counts as in use.
    pub window: Duration,
    /// Number of selectors in use from which a namespace list is considered. `usize::MAX` disables
    /// namespace lists.
    pub threshold: usize,
}

impl CoalescingSettings {
    /// Settings for a controller that reconciles each autoscaler once per `period`: responses are
    /// fresh for a fifteenth of the period (1 s for the default of 15 s), selectors are in use for
    /// two periods, and two selectors may share a list.
    pub fn for_sync_period(period: Duration) -> Self {
        Self { freshness: period / 15, window: period * 2, threshold: 2 }
    }

    /// Sets [`freshness`](Self::freshness).
    #[must_use]
    pub fn with_freshness(self, freshness: Duration) -> Self {
        Self { freshness, ..self }
    }

    /// Sets [`window`](Self::window).
    #[must_use]
    pub fn with_window(self, window: Duration) -> Self {
        Self { window, ..self }
    }

    /// Sets [`threshold`](Self::threshold).
    #[must_use]
    pub fn with_threshold(self, threshold: usize) -> Self {
        Self { threshold, ..self }
    }

    /// Returns the freshness of a list: up to five times the usual one, so at most a third of the
    /// sync period, depending on its length.
    pub(super) fn freshness_for(&self, items: usize) -> Duration {
        let factor = (items / SHORT_LIST_ITEMS).clamp(1, 5);
        self.freshness.saturating_mul(u32::try_from(factor).unwrap_or(1))
    }
}
