//! The state that the simulation, its metrics and its runner share.

use hpa_simulate::workload::{
    model::ClusterModel,
    scenario::{Incident, Scenario},
};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::workload::clock::SimulatedClock;

/// The part of a simulation that its clones share.
pub(super) struct Shared {
    pub(super) scenario: Scenario,
    pub(super) clock: SimulatedClock,
    pub(super) state: Mutex<State>,
    /// The last simulated second that is complete.
    pub(super) completed: watch::Sender<f64>,
}

pub(super) struct State {
    pub(super) model: ClusterModel,
    /// The simulated time at which the scenario starts.
    pub(super) start: Timestamp,
    /// The incidents that haven't happened yet, in any order.
    pub(super) incidents: Vec<Incident>,
}

impl Shared {
    /// Simulated seconds from `start` to now.
    pub(super) fn seconds_since(&self, start: Timestamp) -> f64 {
        self.clock.now().duration_since(start).as_secs_f64()
    }
}
