//! What the simulation, its runner and its metrics provider share.

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::workload::{
    clock::SimulatedClock,
    model::ClusterModel,
    scenario::{Incident, Scenario},
};

pub(super) struct Shared {
    pub(super) scenario: Scenario,
    pub(super) clock: SimulatedClock,
    pub(super) state: Mutex<State>,
    /// The last simulated second that is complete.
    pub(super) completed: watch::Sender<f64>,
}

pub(super) struct State {
    pub(super) model: ClusterModel,
    pub(super) start: Timestamp,
    /// Incidents to come, in any order.
    pub(super) incidents: Vec<Incident>,
}

impl Shared {
    /// Simulated seconds from `start` to now.
    pub(super) fn seconds_since(&self, start: Timestamp) -> f64 {
        self.clock.now().duration_since(start).as_secs_f64()
    }
}
