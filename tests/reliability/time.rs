//! Time that passes only when there is nothing to do: tokio's paused time, as the cluster and the controller see it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use hpa_controller::clock::{Clock, Instants};
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A clock that runs with tokio's time; one that is wrong by a skew if it is told so.
#[derive(Clone, Debug)]
pub(crate) struct VirtualClock {
    origin: Instant,
    skew_ms: Arc<AtomicI64>,
}

impl VirtualClock {
    /// A clock whose origin is now; to be made once in a world.
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now(), skew_ms: Arc::default() }
    }

    /// Another clock of the same origin, which can be wrong on its own.
    pub(crate) fn another(&self) -> Self {
        Self { origin: self.origin, skew_ms: Arc::default() }
    }

    /// From now on the wall clock is wrong by this much.
    pub(crate) fn skew(&self, by: SignedDuration) {
        self.skew_ms.store(i64::try_from(by.as_millis()).unwrap_or(0), Ordering::Relaxed);
    }

    /// How long the world has existed.
    pub(crate) fn age(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Waits for an age of the world.
    pub(crate) async fn until(&self, age: Duration) {
        tokio::time::sleep_until(self.origin + age).await;
    }
}

impl Clock for VirtualClock {
    fn instants(&self) -> Instants {
        let running = self.age();
        let skew = SignedDuration::from_millis(self.skew_ms.load(Ordering::Relaxed));
        let base: Timestamp = Timestamp::from_second(1_800_000_000).expect("a time");
        Instants { wall: base + running + skew, monotonic: running }
    }
}
