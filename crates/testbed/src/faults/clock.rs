use std::{fmt, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How often to poll a custom clock, which may run at any speed.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A wall clock.
type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Measures the time since the faults were created.
#[derive(Clone)]
pub(super) enum FaultClock {
    /// Tokio's clock, which tests may pause.
    Tokio(Instant),
    /// A custom clock and its start.
    Custom(Clock, Timestamp),
}

impl fmt::Debug for FaultClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FaultClock").field(&self.elapsed()).finish()
    }
}

impl FaultClock {
    pub(super) fn tokio() -> Self {
        Self::Tokio(Instant::now())
    }

    pub(super) fn from_fn(clock: Clock) -> Self {
        let start = clock();
        Self::Custom(clock, start)
    }

    pub(super) fn elapsed(&self) -> Duration {
        match self {
            Self::Tokio(start) => start.elapsed(),
            Self::Custom(clock, start) => {
                Duration::try_from(clock().duration_since(*start)).unwrap_or_default()
            }
        }
    }

    pub(super) async fn sleep_until(&self, time: Duration) {
        loop {
            let left = time.saturating_sub(self.elapsed());
            if left.is_zero() {
                return;
            }
            let sleep = if matches!(self, Self::Tokio(_)) { left } else { left.min(POLL_INTERVAL) };
            tokio::time::sleep(sleep).await;
        }
    }
}

/// A clock with an adjustable offset, for [`Config::clock`](crate::Config). Clones share the same
/// offset.
#[derive(Clone)]
pub struct SkewedClock {
    clock: Clock,
    skew: Arc<Mutex<SignedDuration>>,
}

impl fmt::Debug for SkewedClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkewedClock").field("skew", &self.skew()).finish_non_exhaustive()
    }
}

impl Default for SkewedClock {
    /// A clock based on the system's.
    fn default() -> Self {
        Self::new(Arc::new(Timestamp::now))
    }
}

impl SkewedClock {
    /// A clock based on `clock`, without an offset.
    pub fn new(clock: Arc<dyn Fn() -> Timestamp + Send + Sync>) -> Self {
        Self { clock, skew: Arc::default() }
    }

    /// Sets the offset: positive is ahead, negative is behind.
    pub fn set(&self, skew: SignedDuration) {
        *self.skew.lock() = skew;
    }

    /// The current offset.
    pub fn skew(&self) -> SignedDuration {
        *self.skew.lock()
    }

    /// The skewed time.
    pub fn now(&self) -> Timestamp {
        let (now, skew) = ((self.clock)(), self.skew());
        let bound = if skew.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
        now.checked_add(skew).unwrap_or(bound)
    }

    /// The clock as a function, for [`Config::clock`](crate::Config).
    pub fn as_fn(&self) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }
}
