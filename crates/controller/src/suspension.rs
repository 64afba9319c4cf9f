//! Notices that the machine was suspended, which outdates all caches.

use std::{sync::Arc, time::Duration};

use hpa_lease::{Clock, Instants};
use parking_lot::Mutex;
use tracing::warn;

use crate::cache::WatchAges;

/// Lets the informers relist after the machine was suspended. Their connections are dead by then,
/// but they can't notice it: the monotonic clock has stopped meanwhile.
pub(crate) struct SuspensionDetector {
    clock: Arc<dyn Clock>,
    /// A shorter suspension has no effect.
    threshold: Duration,
    last_check: Mutex<Instants>,
    watch_ages: Arc<WatchAges>,
}

impl SuspensionDetector {
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        threshold: Duration,
        watch_ages: Arc<WatchAges>,
    ) -> Self {
        let last_check = Mutex::new(clock.instants());
        Self { clock, threshold, last_check, watch_ages }
    }

    /// Outdates the caches if the machine was suspended since the last check.
    pub(crate) fn check(&self) {
        let now = self.clock.instants();
        let last = std::mem::replace(&mut *self.last_check.lock(), now);
        let suspended = now.suspended_since(last);
        if suspended >= self.threshold {
            let seconds = suspended.as_secs();
            warn!(seconds, "the wall clock jumped as after a suspension, relisting");
            self.watch_ages.add_suspension(suspended);
        }
    }
}
