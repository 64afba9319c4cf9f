//! Runs a scenario in a testbed.

mod exposition;
mod incidents;
mod metrics;
mod runner;

use std::{io, net::SocketAddr, sync::Arc};

use axum::{Router, routing::get};
use hpa_simulate::workload::{
    model::{ClusterModel, Observation},
    scenario::{Incident, Scenario, WorkloadSpec},
    seconds::timestamp_at,
};
use http::header::CONTENT_TYPE;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use self::{metrics::SimulatedMetrics, runner::Runner};
use crate::{
    Config, MetricsProvider, ServerHandle, Testbed, clock::SimulatedClock, error::ApiError,
    json_fields, registry::Resource,
};

/// The media type of Prometheus' text format.
const EXPOSITION_TYPE: &str = "text/plain; version=0.0.4";

/// A scenario that runs on a clock. Clones share the same simulation.
#[derive(Clone)]
pub struct Simulation {
    shared: Arc<Shared>,
}

/// The part of a simulation that its clones share.
struct Shared {
    scenario: Scenario,
    clock: SimulatedClock,
    state: Mutex<State>,
    /// The last simulated second that is complete.
    completed: watch::Sender<f64>,
}

struct State {
    model: ClusterModel,
    /// The simulated time at which the scenario starts.
    start: Timestamp,
    /// The incidents that haven't happened yet, in any order.
    incidents: Vec<Incident>,
}

impl Shared {
    /// Simulated seconds from `start` to now.
    fn seconds_since(&self, start: Timestamp) -> f64 {
        self.clock.now().duration_since(start).as_secs_f64()
    }
}

/// Stops the simulation when it is dropped.
#[derive(Debug)]
pub struct RunningSimulation {
    _task: AbortOnDropHandle<()>,
}

impl Simulation {
    /// A simulation that hasn't started. If the scenario was built in code, check it with
    /// [`Scenario::validate`] before.
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
    /// scenario's time begins now. The simulation doesn't stop at the end of its duration.
    ///
    /// The simulation writes to the testbed's storage directly, so faults don't affect it.
    ///
    /// # Errors
    ///
    /// The testbed rejected one of the scenario's objects.
    pub fn start(&self, testbed: &Testbed) -> Result<RunningSimulation, ApiError> {
        self.shared.state.lock().start = self.shared.clock.now();
        create_objects(testbed, &self.shared.scenario)?;
        let mut runner = Runner::new(testbed.clone(), Arc::clone(&self.shared));
        runner.create_pods();
        Ok(RunningSimulation { _task: AbortOnDropHandle::new(tokio::spawn(runner.run())) })
    }

    pub fn clock(&self) -> &SimulatedClock {
        &self.shared.clock
    }

    pub fn scenario(&self) -> &Scenario {
        &self.shared.scenario
    }

    /// The state of the cluster in the last simulated second, without the errors and delays of
    /// metrics.
    pub fn observe(&self) -> Observation {
        let state = self.shared.state.lock();
        state.model.observe(timestamp_at(state.start, state.model.now))
    }

    /// Waits until `condition` holds. The condition is evaluated at once, and when a simulated
    /// second is complete. If the waiting task is slow, it may miss a second.
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

    /// The metrics that Prometheus would scrape in the cluster now, in the text format: the series
    /// of kube-state-metrics and of the kubelet that autoscaling needs, and the metrics of the
    /// applications.
    ///
    /// Each sample has a timestamp in simulated time, because Prometheus doesn't have the
    /// simulation's clock.
    pub fn exposition(&self, testbed: &Testbed) -> String {
        exposition::exposition(&self.shared.state.lock(), testbed)
    }

    /// Serves [`exposition`](Self::exposition) at `/metrics`, and accepts connections until the
    /// handle is dropped. For port 0, the system chooses the port.
    pub async fn serve_exposition(
        &self,
        testbed: &Testbed,
        address: SocketAddr,
    ) -> io::Result<(SocketAddr, ServerHandle)> {
        let (simulation, testbed) = (self.clone(), testbed.clone());
        let page = get(move || async move {
            ([(CONTENT_TYPE, EXPOSITION_TYPE)], simulation.exposition(&testbed))
        });
        ServerHandle::serve(address, Router::new().route("/metrics", page)).await
    }
}

/// Creates CRDs and namespaces, then workloads, then the other manifests. Missing namespaces are
/// created as needed.
fn create_objects(testbed: &Testbed, scenario: &Scenario) -> Result<(), ApiError> {
    let is_prerequisite = |manifest: &&Value| {
        ["CustomResourceDefinition", "Namespace"].contains(&json_fields::str_at(manifest, "/kind"))
    };
    let (prerequisites, others): (Vec<&Value>, Vec<&Value>) =
        scenario.manifests.iter().partition(is_prerequisite);
    for manifest in prerequisites {
        testbed.apply(manifest.clone())?;
    }
    for workload in &scenario.workloads {
        ensure_namespace(testbed, &workload.namespace)?;
        testbed.apply(workload_object(testbed, workload, scenario))?;
    }
    for manifest in others {
        ensure_namespace(testbed, json_fields::str_at(manifest, "/metadata/namespace"))?;
        testbed.apply(manifest.clone())?;
    }
    Ok(())
}

fn ensure_namespace(testbed: &Testbed, name: &str) -> Result<(), ApiError> {
    if !name.is_empty() && testbed.get("v1", "Namespace", "", name).is_none() {
        let metadata = json!({ "name": name });
        testbed.apply(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata }))?;
    }
    Ok(())
}

fn workload_object(testbed: &Testbed, workload: &WorkloadSpec, scenario: &Scenario) -> Value {
    let name = &workload.name;
    let labels = json!({ "app": name });
    let profile = scenario.profile(workload);
    let selector = if workload.kind == "ReplicationController" {
        labels.clone()
    } else {
        json!({ "matchLabels": labels })
    };
    let mut object = json!({
        "apiVersion": workload.api_version(), "kind": workload.kind,
        "metadata": { "name": name, "namespace": workload.namespace, "labels": labels },
        "spec": {
            "selector": selector,
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": profile.containers(&format!("{name}:1")) },
            },
        },
    });
    json_fields::set_pointer(&mut object, &replicas_pointer(testbed, workload), workload.replicas);
    for (field, value) in workload.spec.iter().flatten() {
        json_fields::set(&mut object, &["spec", field], value.clone());
    }
    object
}

/// The JSON pointer to the replicas in the spec of this workload.
fn replicas_pointer(testbed: &Testbed, workload: &WorkloadSpec) -> String {
    let is_kind_of = |version: &str, resource: &Resource| {
        workload.kind == resource.kind
            && workload.api_version() == Some(&resource.api_version(version))
    };
    let pointer = testbed.scalable_resources().iter().find_map(|resource| {
        let mut versions = resource.versions.iter();
        let version = versions.find(|version| is_kind_of(&version.name, resource))?;
        Some(version.scale.as_ref()?.spec_replicas.clone())
    });
    pointer.unwrap_or_else(|| "/spec/replicas".to_owned())
}
