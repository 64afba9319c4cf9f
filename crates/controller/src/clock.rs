//! The clock that decisions use, which tests and the demo replace.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Wall-clock and monotonic time, read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instants {
    /// Wall-clock time, for timestamps in objects. It steps when the clock is set.
    pub wall: Timestamp,
    /// Monotonic time since an arbitrary origin, for durations.
    pub monotonic: Duration,
}

/// The time for decisions: windows, policy periods, pod ages. The work queue uses tokio's time.
pub trait Clock: Send + Sync {
    fn instants(&self) -> Instants;

    /// Wall-clock time.
    fn now(&self) -> Timestamp {
        self.instants().wall
    }
}

/// The system clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn instants(&self) -> Instants {
        Instants { wall: Timestamp::now(), monotonic: self.origin.elapsed() }
    }
}
