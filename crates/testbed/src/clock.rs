//! The server's wall clock, and [`FaultClock`], which measures the time since its creation.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::time::Instant;

/// A wall clock.
pub(crate) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Interval for polling a custom clock, because it may run at any speed.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Measures the time since its creation, for the start and end of faults.
#[derive(Clone)]
pub(crate) struct FaultClock {
    elapsed: Arc<dyn Fn() -> Duration + Send + Sync>,
    /// The maximum duration of one sleep.
    max_sleep: Duration,
}

impl FaultClock {
    /// Tokio's clock, which tests may pause.
    pub(crate) fn tokio() -> Self {
        let start = Instant::now();
        Self { elapsed: Arc::new(move || start.elapsed()), max_sleep: Duration::MAX }
    }

    pub(crate) fn from_fn(clock: Clock) -> Self {
        let start = clock();
        let elapsed = move || Duration::try_from(clock().duration_since(start)).unwrap_or_default();
        Self { elapsed: Arc::new(elapsed), max_sleep: POLL_INTERVAL }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        (self.elapsed)()
    }

    /// Waits until this time after the creation.
    pub(crate) async fn sleep_until(&self, elapsed: Duration) {
        loop {
            let remaining = elapsed.saturating_sub(self.elapsed());
            if remaining.is_zero() {
                return;
            }
            tokio::time::sleep(remaining.min(self.max_sleep)).await;
        }
    }
}
