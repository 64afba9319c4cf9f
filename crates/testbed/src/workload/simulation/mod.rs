//! Runs a scenario in a testbed.

mod exposition;
mod incidents;
mod metrics;
mod runner;
mod setup;
mod state;

use std::{fmt, io, net::SocketAddr, sync::Arc};

use axum::{Router, routing::get};
use http::header::CONTENT_TYPE;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use self::{
    metrics::SimulatedMetrics,
    runner::Runner,
    state::{Shared, State},
};
use super::{
    clock::SimulatedClock,
    load::Load,
    model::{ClusterModel, Observation, WorkloadId},
    scenario::{Incident, Scenario},
    seconds::timestamp_at,
};
use crate::{Config, MetricsProvider, ServerHandle, Testbed, error::ApiError};

/// The text format of Prometheus.
const EXPOSITION: &str = "text/plain; version=0.0.4";

/// A scenario and its clock. It provides the metrics of the simulated cluster, and its true state.
/// Clones share the same simulation.
#[derive(Clone)]
pub struct Simulation {
    shared: Arc<Shared>,
}

/// Stops the simulation when it is dropped.
#[derive(Debug)]
pub struct RunningSimulation {
    task: JoinHandle<()>,
}

impl Drop for RunningSimulation {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Simulation {
    /// A simulation that hasn't started. A scenario built in code must be checked first, with
    /// [`Scenario::validate`].
    pub fn new(scenario: Scenario, clock: SimulatedClock) -> Self {
        let model = ClusterModel::new(&scenario);
        let incidents = scenario.incidents.clone();
        let state = Mutex::new(State { model, start: clock.now(), incidents });
        let completed = watch::Sender::new(0.0);
        Self { shared: Arc::new(Shared { scenario, clock, state, completed }) }
    }

    /// A default testbed configuration with the simulation's clock and metrics.
    pub fn config(&self) -> Config {
        Config {
            metrics: Some(self.metrics()),
            clock: self.shared.clock.as_fn(),
            ..Config::default()
        }
    }

    /// The metrics APIs of the simulated cluster.
    pub fn metrics(&self) -> Arc<dyn MetricsProvider> {
        Arc::new(SimulatedMetrics { shared: Arc::clone(&self.shared) })
    }

    /// Creates the scenario's objects and starts the simulation in the current tokio runtime. The
    /// scenario's time begins now.
    ///
    /// The simulation writes to the testbed's storage directly, so faults don't affect it.
    ///
    /// # Errors
    ///
    /// The testbed rejected one of the scenario's objects.
    pub fn start(&self, testbed: &Testbed) -> Result<RunningSimulation, ApiError> {
        self.shared.state.lock().start = self.shared.clock.now();
        setup::create_objects(testbed, &self.shared.scenario)?;
        let mut runner = Runner::new(testbed.clone(), Arc::clone(&self.shared));
        runner.create_pods();
        Ok(RunningSimulation { task: tokio::spawn(runner.run()) })
    }

    pub fn clock(&self) -> &SimulatedClock {
        &self.shared.clock
    }

    pub fn scenario(&self) -> &Scenario {
        &self.shared.scenario
    }

    /// When the scenario's duration is over. The simulation continues after it.
    pub fn end(&self) -> Timestamp {
        let start = self.shared.state.lock().start;
        timestamp_at(start, self.shared.scenario.duration.get())
    }

    /// The true state of the cluster now.
    pub fn observe(&self) -> Observation {
        let state = self.shared.state.lock();
        state.model.observe(timestamp_at(state.start, state.model.now))
    }

    /// Waits until `condition` holds. It is evaluated once per simulated second.
    pub async fn wait_for(&self, mut condition: impl FnMut(&Observation) -> bool) -> Observation {
        let mut completed = self.shared.completed.subscribe();
        loop {
            completed.borrow_and_update();
            let observation = self.observe();
            if condition(&observation) {
                return observation;
            }
            // The sender lives as long as `self`, so this can't fail.
            let _ = completed.changed().await;
        }
    }

    /// What Prometheus would scrape in the cluster now: the series of kube-state-metrics and of the
    /// kubelet that autoscaling needs, and the applications' metrics, in the text format.
    ///
    /// Each sample has the simulated time, so that a Prometheus whose clock runs slower stores it
    /// at the right place.
    pub fn exposition(&self, testbed: &Testbed) -> String {
        exposition::exposition(&self.shared.state.lock(), testbed)
    }

    /// Serves [`exposition`](Self::exposition) at `/metrics` until the handle is dropped. For port
    /// 0, the system chooses the port.
    pub async fn serve_exposition(
        &self,
        testbed: &Testbed,
        address: SocketAddr,
    ) -> io::Result<(SocketAddr, ServerHandle)> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (simulation, testbed) = (self.clone(), testbed.clone());
        let page = get(move || async move {
            ([(CONTENT_TYPE, EXPOSITION)], simulation.exposition(&testbed))
        });
        let router = Router::new().route("/metrics", page);
        let task = tokio::spawn(async move { axum::serve(listener, router).await });
        Ok((address, ServerHandle { task }))
    }

    /// Replaces the load of a workload, whether or not the scenario lists it.
    pub fn set_load(&self, workload: &WorkloadId, load: Load) {
        self.shared.state.lock().model.workload(workload).load = load;
    }

    /// Schedules an incident. If its time is past, it happens in the next simulated second. For a
    /// workload that the scenario doesn't list, `incident.workload` must be `namespace/name`.
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
