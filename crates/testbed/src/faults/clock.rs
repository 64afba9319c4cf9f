use std::{fmt, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long to sleep at most before looking again at a clock that need not run as tokio's does.
const LOOK: Duration = Duration::from_millis(100);

/// A clock of which one can tell how it runs.
type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The time since the faults were made.
#[derive(Clone)]
pub(super) enum FaultClock {
    /// Tokio's, which tests may pause.
    Tokio(Instant),
    /// A clock and when it began.
    Given(Clock, Timestamp),
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

    pub(super) fn given(clock: Clock) -> Self {
        let start = clock();
        Self::Given(clock, start)
    }

    pub(super) fn elapsed(&self) -> Duration {
        match self {
            Self::Tokio(start) => start.elapsed(),
            Self::Given(clock, start) => {
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
            let sleep = if matches!(self, Self::Tokio(_)) { left } else { left.min(LOOK) };
            tokio::time::sleep(sleep).await;
        }
    }
}

/// A clock that goes wrong by as much as it is told, for [`Config::clock`](crate::Config). Clones are the same.
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
    /// Skews the time of the system.
    fn default() -> Self {
        Self::new(Arc::new(Timestamp::now))
    }
}

impl SkewedClock {
    /// Goes as this clock, until it is told otherwise.
    pub fn new(clock: Arc<dyn Fn() -> Timestamp + Send + Sync>) -> Self {
        Self { clock, skew: Arc::default() }
    }

    /// Goes ahead by this much from now on; behind, if it is negative.
    pub fn set(&self, skew: SignedDuration) {
        *self.skew.lock() = skew;
    }

    /// By how much it goes ahead.
    pub fn skew(&self) -> SignedDuration {
        *self.skew.lock()
    }

    /// What it shows.
    pub fn now(&self) -> Timestamp {
        let (now, skew) = ((self.clock)(), self.skew());
        let bound = if skew.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
        now.checked_add(skew).unwrap_or(bound)
    }

    /// The clock as [`Config::clock`](crate::Config) wants it.
    pub fn as_clock(&self) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }
}
