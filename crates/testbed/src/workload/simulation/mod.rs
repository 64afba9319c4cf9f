//! The model in a testbed: what a cluster's controllers, kubelets and metrics sources do.

mod deployments;
mod owners;
mod pods;
mod provider;
mod replicas;
mod setup;
mod shell;
mod stateful;
mod status;

use std::{fmt, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::{sync::watch, task::JoinHandle};

use self::{provider::Provider, shell::Shell};
use super::{
    clock::SimulatedClock,
    load::Load,
    model::{Model, Observation, WorkloadId},
    scenario::{Incident, Scenario},
};
use crate::{ApiError, Config, MetricsProvider, Testbed};

/// A scenario with its clock: the place of the metrics sources before it runs, of an onlooker while it does. Clones are
/// the same simulation.
#[derive(Clone)]
pub struct Simulation {
    shared: Arc<Shared>,
}

/// Runs a simulation as long as it lives.
#[derive(Debug)]
pub struct RunningSimulation {
    task: JoinHandle<()>,
}

impl Drop for RunningSimulation {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What the parts of a simulation share.
struct Shared {
    scenario: Scenario,
    clock: SimulatedClock,
    state: Mutex<State>,
    /// The simulated second up to which all is done.
    done: watch::Sender<f64>,
}

struct State {
    model: Model,
    start: Timestamp,
    /// Incidents to come, in no order.
    incidents: Vec<Incident>,
}

impl Shared {
    /// Seconds from the start to now.
    fn second(&self, start: Timestamp) -> f64 {
        self.clock.now().duration_since(start).as_secs_f64()
    }
}

/// The time that many seconds after the start.
fn time(start: Timestamp, second: f64) -> Timestamp {
    let span = SignedDuration::try_from_secs_f64(second).unwrap_or_default();
    start.checked_add(span).unwrap_or(start)
}

impl Simulation {
    /// A simulation that has not started. Call [`Scenario::validate`] before if the scenario was not read from a text.
    pub fn new(scenario: Scenario, clock: SimulatedClock) -> Self {
        let model = Model::new(&scenario);
        let incidents = scenario.incidents.clone();
        let state = Mutex::new(State { model, start: clock.now(), incidents });
        Self { shared: Arc::new(Shared { scenario, clock, state, done: watch::Sender::new(0.0) }) }
    }

    /// A configuration for the testbed with the simulation's clock and metrics, otherwise as by default.
    pub fn config(&self) -> Config {
        Config {
            metrics: Some(self.metrics()),
            clock: self.shared.clock.as_fn(),
            ..Config::default()
        }
    }

    /// The metrics sources.
    pub fn metrics(&self) -> Arc<dyn MetricsProvider> {
        Arc::new(Provider { shared: Arc::clone(&self.shared) })
    }

    /// Creates what the scenario wants and lets it live. Time counts from now on. An error is that of an object that the
    /// server refused.
    ///
    /// It runs in the tokio runtime this is called in, and writes to the testbed directly: no fault keeps it from that.
    pub fn start(&self, testbed: &Testbed) -> Result<RunningSimulation, ApiError> {
        self.shared.state.lock().start = self.shared.clock.now();
        setup::create(testbed, &self.shared.scenario)?;
        let mut shell = Shell::new(testbed.clone(), Arc::clone(&self.shared));
        shell.begin();
        Ok(RunningSimulation { task: tokio::spawn(shell.run()) })
    }

    /// The clock.
    pub fn clock(&self) -> &SimulatedClock {
        &self.shared.clock
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.shared.scenario
    }

    /// When the scenario is over. The simulation goes on, with the load as it then is.
    pub fn end(&self) -> Timestamp {
        let start = self.shared.state.lock().start;
        time(start, self.shared.scenario.duration.get())
    }

    /// How everything is now.
    pub fn observe(&self) -> Observation {
        let state = self.shared.state.lock();
        state.model.observe(time(state.start, state.model.now))
    }

    /// Waits until something is so; it is looked at once a simulated second.
    pub async fn wait_for(&self, mut condition: impl FnMut(&Observation) -> bool) -> Observation {
        let mut done = self.shared.done.subscribe();
        loop {
            done.borrow_and_update();
            let seen = self.observe();
            if condition(&seen) {
                return seen;
            }
            // The sender lives as long as this simulation does.
            let _ = done.changed().await;
        }
    }

    /// Gives a workload another load, also one the scenario does not name.
    pub fn set_load(&self, workload: &WorkloadId, load: Load) {
        self.shared.state.lock().model.workload(workload).load = load;
    }

    /// Lets something happen at its time, or in the next simulated second if that is over. Of a workload that the
    /// scenario does not name `incident.workload` has to be the namespace and the name.
    pub fn inject(&self, incident: Incident) {
        self.shared.state.lock().incidents.push(incident);
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("scenario", &self.shared.scenario.name)
            .field("clock", &self.shared.clock)
            .finish_non_exhaustive()
    }
}
