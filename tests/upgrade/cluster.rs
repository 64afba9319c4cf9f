//! A cluster in virtual time, and its stored objects.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hpa_controller::{AutoscalerApi, Clock, Dependencies};
use hpa_testbed::{Config, Testbed};
use hpa_tests::harness::{
    NAMESPACE, RunningController, SettableMetrics, TestbedExt, VirtualClock, clients,
    controller_options, election, objects,
};
use http::Request;
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};

// Durations in seconds.
pub(crate) const SYNC_PERIOD: i64 = 15;
pub(crate) const STABILIZATION_WINDOW: i64 = 300;
pub(crate) const LEASE_DURATION: i64 = 15;
pub(crate) const POLICY_PERIOD: i64 = 300;
/// The second at which the load drops from 10 replicas to 4. By then, the policy of `limited` no
/// longer counts the scale-up.
pub(crate) const LOAD_DROP_TIME: i64 = 400;
/// The second at which the leader of the previous release is killed.
pub(crate) const KILL_TIME: i64 = 500;

const CUSTOM_API_VERSION: &str = "autoscaling.hpa-rs.dev/v2";
/// The namespace of the lease and the histories.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// Collections whose objects an upgrade keeps.
const STORED_COLLECTIONS: [&str; 5] = [
    "/apis/apps/v1/namespaces/shop/deployments",
    "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers",
    "/apis/autoscaling.hpa-rs.dev/v2/namespaces/shop/horizontalpodautoscalers",
    "/api/v1/namespaces/kube-system/configmaps",
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
];

pub(crate) struct Cluster {
    clock: VirtualClock,
    testbed: Testbed,
    metrics: Arc<SettableMetrics>,
    client: Client,
    /// The second at which a target first had a number of replicas.
    first_seen: Mutex<BTreeMap<(String, i64), i64>>,
}

impl Cluster {
    /// A cluster with the definition of the custom API.
    pub(crate) fn new() -> Self {
        let clock = VirtualClock::start();
        let metrics = Arc::new(SettableMetrics::new(0, 10));
        let server_clock = clock.clone();
        let testbed = Testbed::new(Config {
            metrics: Some(metrics.clone()),
            clock: Arc::new(move || server_clock.now()),
            ..Config::default()
        });
        let client = testbed.client();
        let cluster = Self { clock, testbed, metrics, client, first_seen: Mutex::default() };
        let definition = hpa_calc::crd::definition().expect("a definition");
        cluster.testbed.apply_all([objects::namespace(), definition]);
        cluster
    }

    /// A cluster at [`KILL_TIME`] with recorded objects and the load after the drop.
    pub(crate) async fn restored(stored: &[Value]) -> Self {
        let cluster = Self::new();
        cluster.restore(stored).await;
        cluster.metrics.set_value(4);
        cluster.wait_until(KILL_TIME).await;
        cluster
    }

    /// Creates targets, and autoscalers with annotations and policies. `own` is one of the custom
    /// API.
    pub(crate) async fn create_objects(&self) {
        let load = || [objects::external_metric("load", "1")];
        let web = objects::hpa("web", 1..=20, load());
        let mut own = objects::hpa("own", 1..=20, load());
        own["apiVersion"] = json!(CUSTOM_API_VERSION);
        let policy = json!({ "type": "Pods", "value": 1, "periodSeconds": POLICY_PERIOD });
        let mut limited = objects::hpa("limited", 1..=20, load());
        limited["spec"]["behavior"] =
            json!({ "scaleDown": { "stabilizationWindowSeconds": 0, "policies": [policy] } });
        let mut paused = objects::hpa("paused", 1..=20, load());
        paused["metadata"]["annotations"] = json!({ "autoscaling.hpa-rs.dev/pause": "true" });
        let targets = ["web", "own", "limited"].map(|name| objects::running_deployment(name, 2));
        self.testbed.apply_all(targets);
        self.testbed.apply_all([objects::running_deployment("paused", 3)]);
        self.testbed.apply_all([web, own, limited, paused]);
        self.wait_until(1).await;
    }

    pub(crate) fn start_controller(&self, name: &str) -> RunningController {
        let options = controller_options();
        let dependencies = Dependencies {
            clock: Arc::new(self.clock.clone()),
            election: Some(election(self.client.clone(), SYSTEM_NAMESPACE, name)),
            keep_history: true,
            apis: AutoscalerApi::ALL.to_vec(),
            ..Dependencies::new(clients(self.client.clone()), &options)
        };
        RunningController::start(dependencies, options)
    }

    /// Drops the load at [`LOAD_DROP_TIME`], and kills the controller at [`KILL_TIME`].
    pub(crate) async fn run_until_killed(&self, controller: RunningController) {
        self.wait_until(LOAD_DROP_TIME).await;
        self.metrics.set_value(4);
        self.wait_until(KILL_TIME).await;
        controller.kill().await;
    }

    /// Waits until a second of the cluster's clock.
    pub(crate) async fn wait_until(&self, second: i64) {
        self.clock.wait_until_age(Duration::from_secs(second.unsigned_abs())).await;
    }

    fn second(&self) -> i64 {
        i64::try_from(self.clock.age().as_secs()).expect("a short test")
    }

    pub(crate) fn replicas(&self, name: &str) -> i64 {
        self.testbed.replicas(name)
    }

    /// Waits until a target no longer has this number of replicas. Returns the second of the
    /// change.
    pub(crate) async fn wait_for_scaling_from(&self, name: &str, replicas: i64) -> i64 {
        loop {
            let second = self.second();
            for target in ["web", "own", "limited"] {
                let current = self.testbed.replicas(target);
                self.first_seen.lock().entry((target.to_owned(), current)).or_insert(second);
            }
            if self.testbed.replicas(name) != replicas {
                return self.second_of_change(name, replicas);
            }
            assert!(second < 2000, "{name} still has {replicas} replicas");
            self.wait_until(second + 1).await;
        }
    }

    fn second_of_change(&self, name: &str, replicas: i64) -> i64 {
        let first_seen = self.first_seen.lock();
        let others =
            first_seen.iter().filter(|((target, count), _)| target == name && *count != replicas);
        others.map(|(_, second)| *second).min().expect("another number of replicas")
    }

    async fn request(&self, method: &str, path: &str, body: &Value) -> Value {
        let kind =
            if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        let request = request.body(body).expect("a request");
        self.client.request(request).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) async fn hpa(&self, name: &str) -> Value {
        let path =
            format!("/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers/{name}");
        self.request("GET", &path, &Value::Null).await
    }

    pub(crate) async fn lease(&self) -> Value {
        let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/hpa-controller";
        self.request("GET", path, &Value::Null).await
    }

    /// The objects that an upgrade keeps, without fields that differ between runs.
    pub(crate) async fn stored(&self) -> Vec<Value> {
        let mut stored = Vec::new();
        for path in STORED_COLLECTIONS {
            let list = self.request("GET", path, &Value::Null).await;
            let kind = list["kind"].as_str().expect("a kind").trim_end_matches("List").to_owned();
            for mut object in list["items"].as_array().cloned().expect("items") {
                object["kind"] = json!(kind);
                object["apiVersion"] = list["apiVersion"].clone();
                let metadata = object["metadata"].as_object_mut().expect("metadata");
                for field in ["managedFields", "resourceVersion", "generation"] {
                    metadata.remove(field);
                }
                stored.push(object);
            }
        }
        stored
    }

    /// Creates recorded objects with their statuses. The API server assigns new UIDs, which replace
    /// the recorded ones in histories.
    async fn restore(&self, stored: &[Value]) {
        let mut uids: Vec<(String, String)> = Vec::new();
        for object in stored {
            let kind = object["kind"].as_str().expect("a kind");
            let mut text = object.to_string();
            for (old, new) in &uids {
                text = text.replace(old.as_str(), new);
            }
            let object: Value = serde_json::from_str(&text).expect("an object");
            let path = STORED_COLLECTIONS
                .into_iter()
                .find(|path| {
                    path.ends_with(&format!("/{}s", kind.to_lowercase()))
                        && path.contains(object["apiVersion"].as_str().expect("a version"))
                })
                .unwrap_or_else(|| panic!("no collection of {kind}"));
            let created = self.request("POST", path, &object).await;
            let uid =
                |object: &Value| object["metadata"]["uid"].as_str().expect("a UID").to_owned();
            uids.push((uid(&object), uid(&created)));
            if object.get("status").is_some() {
                let name = object["metadata"]["name"].as_str().expect("a name");
                let status = json!({ "status": object["status"] });
                self.request("PATCH", &format!("{path}/{name}/status"), &status).await;
            }
        }
    }
}
