//! Virtual time: tokio's paused time, which advances only when all tasks are idle.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use hpa_controller::{Clock, Instants};
use hpa_testbed::clock::SimulatedClock;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A clock that runs with tokio's time. Its wall clock can be skewed.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    origin: Instant,
    skew_ms: Arc<AtomicI64>,
}

impl VirtualClock {
    /// A clock whose age is zero now. For a second clock with the same origin, use [`Self::fork`].
    pub fn start() -> Self {
        Self { origin: Instant::now(), skew_ms: Arc::default() }
    }

    /// A clock with the same origin and its own skew. Clones share a skew.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { origin: self.origin, skew_ms: Arc::default() }
    }

    /// Sets the skew of the wall clock. Replaces an earlier skew.
    pub fn set_skew(&self, by: SignedDuration) {
        let skew = i64::try_from(by.as_millis()).expect("a skew of 64 bits");
        self.skew_ms.store(skew, Ordering::Relaxed);
    }

    /// Time since the origin.
    pub fn age(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Waits until the clock has this age.
    pub async fn wait_until_age(&self, age: Duration) {
        tokio::time::sleep_until(self.origin + age).await;
    }
}

impl Clock for VirtualClock {
    fn instants(&self) -> Instants {
        let monotonic = self.age();
        let skew = SignedDuration::from_millis(self.skew_ms.load(Ordering::Relaxed));
        let wall_at_origin = Timestamp::from_second(1_800_000_000).expect("a timestamp");
        Instants { wall: wall_at_origin + monotonic + skew, monotonic }
    }
}

/// A controller's clock that follows a simulated cluster.
#[derive(Clone, Debug)]
pub struct ControllerClock {
    clock: SimulatedClock,
    start: Timestamp,
}

impl ControllerClock {
    /// A clock whose monotonic time is zero at `start`.
    pub fn new(clock: SimulatedClock, start: Timestamp) -> Self {
        Self { clock, start }
    }
}

impl Clock for ControllerClock {
    fn instants(&self) -> Instants {
        let wall = self.clock.now();
        let monotonic = Duration::try_from(wall.duration_since(self.start)).expect("a duration");
        Instants { wall, monotonic }
    }
}
