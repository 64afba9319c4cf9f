//! Settings of [`Coalescing`](super::Coalescing).

use std::time::Duration;

/// The maximum length of a short list. A longer list of values is not reused. A list of pods that
/// is at least twice as long is fresh for longer.
const SHORT_LIST_ITEMS: usize = 2000;

/// Settings for sharing requests and lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoalescingSettings {
    /// The time for which a response is reused, from the start of its request. Long lists of pods
    /// are reused for longer, and long lists of values aren't reused. With zero, callers share a
    /// response only while the request is in flight.
    pub freshness: Duration,
    /// The time for which a selector counts as in use after its last request.
    pub window: Duration,
    /// Minimum number of selectors in use for a namespace list. `usize::MAX` disables namespace
    /// lists.
    pub min_selectors: usize,
}

impl CoalescingSettings {
    /// Settings for a controller that reconciles each autoscaler once per `period`: responses are
    /// fresh for a fifteenth of the period (1 s for the default of 15 s), selectors are in use for
    /// two periods, and two selectors suffice for a shared list.
    pub fn for_sync_period(period: Duration) -> Self {
        Self { freshness: period / 15, window: period * 2, min_selectors: 2 }
    }

    /// Returns the freshness of a list of values. A long list is not reused: several autoscalers
    /// rarely request the same one, and many long lists would take much memory.
    pub(super) fn freshness_of_values(&self, items: usize) -> Duration {
        if items > SHORT_LIST_ITEMS { Duration::ZERO } else { self.freshness }
    }

    /// Returns the freshness of a list of pods. It increases with the length of the list, up to
    /// five times [`freshness`](Self::freshness).
    pub(super) fn freshness_of_pods(&self, items: usize) -> Duration {
        let factor = (items / SHORT_LIST_ITEMS).clamp(1, 5);
        self.freshness.saturating_mul(u32::try_from(factor).unwrap_or(1))
    }
}
