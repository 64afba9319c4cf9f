//! What time it is, from somewhere that a test or a demonstration can choose.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instants {
    /// What the wall clock shows. It may be set.
    pub wall: Timestamp,
    /// How long the clock has been running. It only grows, as fast as time passes.
    pub monotonic: Duration,
}

/// Tells the time by which autoscalers are decided: windows, periods, ages of pods. When they are reconciled goes by
/// tokio's time.
pub trait Clock: Send + Sync {
    /// Both clocks now.
    fn instants(&self) -> Instants;

    /// What the wall clock shows.
    fn now(&self) -> Timestamp {
        self.instants().wall
    }
}

/// The machine's clock.
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
