//! The simulation's clock as the controller's clock.

use std::time::Duration;

use hpa_controller::{Clock, Instants};
use hpa_testbed::workload::clock::SimulatedClock;
use jiff::Timestamp;

/// Simulated time. It has no clock steps, so wall-clock and monotonic time advance together.
pub(super) struct DemoClock {
    clock: SimulatedClock,
    start: Timestamp,
}

impl DemoClock {
    /// A clock whose monotonic time starts now.
    pub(super) fn new(clock: SimulatedClock) -> Self {
        let start = clock.now();
        Self { clock, start }
    }

    /// Simulated seconds since the start.
    pub(super) fn second(&self) -> f64 {
        self.instants().monotonic.as_secs_f64()
    }
}

impl Clock for DemoClock {
    fn instants(&self) -> Instants {
        let wall = self.clock.now();
        let monotonic = Duration::try_from(wall.duration_since(self.start)).unwrap_or_default();
        Instants { wall, monotonic }
    }
}
