//! The simulation's clock as the controller's.

use std::time::Duration;

use hpa_controller::clock::{Clock, Instants};
use hpa_testbed::workload::clock::SimulatedClock;
use jiff::Timestamp;

/// Tells simulated time. It never is set, so both clocks of a moment run alike.
pub(crate) struct DemoClock {
    clock: SimulatedClock,
    start: Timestamp,
}

impl DemoClock {
    /// A clock that runs from now on.
    pub(crate) fn new(clock: SimulatedClock) -> Self {
        let start = clock.now();
        Self { clock, start }
    }

    /// Simulated seconds since the start.
    pub(crate) fn second(&self) -> f64 {
        self.instants().monotonic.as_secs_f64()
    }
}

impl Clock for DemoClock {
    fn instants(&self) -> Instants {
        let wall = self.clock.now();
        Instants {
            wall,
            monotonic: Duration::try_from(wall.duration_since(self.start)).unwrap_or_default(),
        }
    }
}
