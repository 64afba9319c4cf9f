//! Runs a scenario in a testbed.

mod exposition;
mod metrics;
mod runner;

use std::{fmt, io, net::SocketAddr, sync::Arc};

use axum::{Router, routing::get};
use http::header::CONTENT_TYPE;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use self::{metrics::SimulatedMetrics, runner::Runner};
use super::{
    clock::SimulatedClock,
    controllers::{Owner, list_owners},
    load::Load,
    model::{ClusterModel, Observation, WorkloadId},
    scenario::{Incident, IncidentKind, Scenario, WorkloadSpec},
    seconds::timestamp_at,
};
use crate::{
    Config, MetricsProvider, ServerHandle, Testbed, error::ApiError, json, registry::Resource,
};

/// The text format of Prometheus.
const EXPOSITION: &str = "text/plain; version=0.0.4";

/// A scenario and its clock. Provides the metrics and the true state of the simulated cluster.
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
        create_objects(testbed, &self.shared.scenario)?;
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

    /// The time at which the scenario's duration is over. The simulation continues after that time.
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

    /// The metrics that Prometheus would scrape in the cluster now, in the text format: the series of
    /// kube-state-metrics and of the kubelet that autoscaling needs, and the applications' metrics.
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

/// Creates CRDs and namespaces, then workloads, then the other manifests. Missing namespaces are
/// created as needed.
fn create_objects(testbed: &Testbed, scenario: &Scenario) -> Result<(), ApiError> {
    let is_prerequisite = |manifest: &&Value| {
        ["CustomResourceDefinition", "Namespace"].contains(&json::str_at(manifest, "/kind"))
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
        ensure_namespace(testbed, json::str_at(manifest, "/metadata/namespace"))?;
        testbed.apply(manifest.clone())?;
    }
    Ok(())
}

fn ensure_namespace(testbed: &Testbed, name: &str) -> Result<(), ApiError> {
    if !name.is_empty() && testbed.get("v1", "Namespace", "", name).is_none() {
        testbed.apply(
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }),
        )?;
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
    json::set_pointer(&mut object, &replicas_pointer(testbed, workload), workload.replicas);
    for (field, value) in workload.spec.iter().flatten() {
        json::set(&mut object, &["spec", field], value.clone());
    }
    object
}

/// The JSON pointer to the replicas of this kind.
fn replicas_pointer(testbed: &Testbed, workload: &WorkloadSpec) -> String {
    let is_kind_of = |version: &str, resource: &Resource| {
        workload.kind == resource.kind
            && workload.api_version() == Some(&resource.api_version(version))
    };
    let custom = testbed.scalable_custom_resources();
    let pointer = custom.iter().find_map(|resource| {
        let mut versions = resource.versions.iter();
        let version = versions.find(|version| is_kind_of(&version.name, resource))?;
        Some(version.scale.as_ref()?.spec_replicas.clone())
    });
    pointer.unwrap_or_else(|| "/spec/replicas".to_owned())
}

struct Shared {
    scenario: Scenario,
    clock: SimulatedClock,
    state: Mutex<State>,
    /// The last simulated second that is complete.
    completed: watch::Sender<f64>,
}

struct State {
    model: ClusterModel,
    start: Timestamp,
    /// Incidents to come, in any order.
    incidents: Vec<Incident>,
}

impl Shared {
    /// Simulated seconds from `start` to now.
    fn seconds_since(&self, start: Timestamp) -> f64 {
        self.clock.now().duration_since(start).as_secs_f64()
    }
}

/// Removes and returns the incidents that are due, in order of time.
fn take_due(state: &mut State, second: f64) -> Vec<Incident> {
    let mut due: Vec<Incident> =
        state.incidents.extract_if(.., |incident| incident.at.get() <= second).collect();
    due.sort_by(|one, other| one.at.get().total_cmp(&other.at.get()));
    due
}

fn apply_incident(
    testbed: &Testbed,
    scenario: &Scenario,
    model: &mut ClusterModel,
    incident: &Incident,
) {
    let Some(name) = &incident.workload else {
        if incident.kind == IncidentKind::MetricsOutage {
            model.metrics.begin_outage(incident.source, model.now + incident.seconds());
        }
        return;
    };
    let Some(id) = find_workload(scenario, model, name) else { return };
    match incident.kind {
        IncidentKind::Rollout => restart_rollout(testbed, &id, model.now),
        IncidentKind::ManualScale => scale(testbed, &id, incident.replicas.unwrap_or_default()),
        _ => model.affect_pods(&id, incident),
    }
}

/// The workload that `name` or `namespace/name` refers to.
fn find_workload(scenario: &Scenario, model: &ClusterModel, name: &str) -> Option<WorkloadId> {
    if let Some(spec) = scenario.workload(name) {
        return Some(WorkloadId::for_spec(spec));
    }
    let (namespace, name) = name.split_once('/')?;
    model.workloads.keys().find(|id| id.namespace == namespace && id.name == name).cloned()
}

/// Like `kubectl rollout restart`.
fn restart_rollout(testbed: &Testbed, id: &WorkloadId, now: f64) {
    let annotation = "kubectl.kubernetes.io/restartedAt";
    let path = ["spec", "template", "metadata", "annotations", annotation];
    change_object(testbed, id, |object, _| json::set(object, &path, format!("second {now}")));
}

fn scale(testbed: &Testbed, id: &WorkloadId, replicas: u32) {
    change_object(testbed, id, |object, owner| {
        json::set_pointer(object, &owner.paths.spec_replicas, json!(replicas));
    });
}

fn change_object(testbed: &Testbed, id: &WorkloadId, change: impl FnOnce(&mut Value, &Owner)) {
    let owner = list_owners(testbed).into_iter().find(|owner| {
        owner.kind == id.kind && owner.name() == id.name && owner.namespace() == id.namespace
    });
    let Some(owner) = owner else { return };
    let mut object = (*owner.object).clone();
    change(&mut object, &owner);
    // The object was accepted before with the same fields, so it is accepted again.
    let _ = testbed.apply(object);
}
