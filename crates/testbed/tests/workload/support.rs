//! A cluster in which a scenario runs.

use axum::body::Body;
use hpa_testbed::{
    Testbed,
    clock::SimulatedClock,
    workload::{
        Observation, RunningSimulation, Simulation, WorkloadObservation, scenario::Scenario,
    },
};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

pub(crate) struct Cluster {
    pub(crate) testbed: Testbed,
    pub(crate) simulation: Simulation,
    _running: RunningSimulation,
}

impl Cluster {
    pub(crate) fn start(scenario: &str) -> Self {
        let clock = SimulatedClock::new("2026-01-01T00:00:00Z".parse().unwrap(), 1.0);
        let simulation = Simulation::new(Scenario::parse(scenario).unwrap(), clock);
        let testbed = Testbed::new(simulation.config());
        let running = simulation.start(&testbed).unwrap();
        Self { testbed, simulation, _running: running }
    }

    /// Waits until a simulated second is complete.
    pub(crate) async fn at(&self, second: f64) -> Observation {
        self.simulation.wait_for(|state| state.second >= second).await
    }

    /// Waits until the first workload meets the condition, for at most a simulated hour.
    pub(crate) async fn wait_for(
        &self,
        condition: impl Fn(&WorkloadObservation) -> bool,
    ) -> Observation {
        let state = self
            .simulation
            .wait_for(|state| condition(&state.workloads[0]) || state.second > 3600.0)
            .await;
        assert!(condition(&state.workloads[0]), "{state:?}");
        state
    }

    /// Changes the Deployment `web`.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Value)) {
        let mut object = self.deployment();
        change(&mut object);
        self.testbed.apply(object).unwrap();
    }

    /// The Deployment `web`.
    pub(crate) fn deployment(&self) -> Value {
        self.testbed.get("apps/v1", "Deployment", "default", "web").unwrap()
    }

    pub(crate) fn pods(&self) -> Vec<Value> {
        self.testbed.list("v1", "Pod")
    }

    pub(crate) fn pod_names(&self) -> Vec<String> {
        self.pods().iter().map(|pod| text(pod, "/metadata/name").to_owned()).collect()
    }

    /// Status code and body of a GET.
    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let request = ::http::Request::get(path).body(Body::empty()).unwrap();
        let response = self.testbed.service().oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap())
    }

    /// The pods' resource usage in the metrics API.
    pub(crate) async fn usage(&self) -> Vec<Value> {
        let (code, list) = self.get("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods").await;
        assert_eq!(code, 200, "{list}");
        list["items"].as_array().unwrap().clone()
    }
}

/// The string at a JSON pointer. Empty if it is missing.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Status and transition time of a pod's `Ready` condition.
pub(crate) fn ready(pod: &Value) -> (&str, &str) {
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    let ready = conditions.iter().find(|one| one["type"] == "Ready");
    ready.map_or(("", ""), |ready| (text(ready, "/status"), text(ready, "/lastTransitionTime")))
}
