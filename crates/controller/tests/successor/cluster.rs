//! A cluster with one autoscaler, and any number of elected controllers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hpa_controller::{Clock, Dependencies, INSTANCE_SCOPE, LeaderTask, Options, Telemetry};
use hpa_testbed::{Config, Testbed};
use hpa_tests::harness::{
    RunningController, SettableMetrics, TestbedExt, VirtualClock, clients, controller_options,
    election, objects,
};
use http::{Method, Request, Response};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    client::Body,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::service_fn;

/// `--horizontal-pod-autoscaler-sync-period`, in seconds.
pub(crate) const SYNC: i64 = 15;
/// The default stabilization window, in seconds.
pub(crate) const WINDOW: i64 = 300;
/// The lease duration in seconds: the longest time without a leader after one was killed.
pub(crate) const LEASE: i64 = 15;

/// Records the requests of the controllers to the API server, and injects faults.
#[derive(Default)]
pub(crate) struct ApiRecorder {
    /// The seconds at which a ConfigMap was written.
    pub(crate) config_map_write_seconds: Mutex<Vec<i64>>,
    /// Writes of statuses and ConfigMaps hang: a scaling leaves no record.
    pub(crate) hang_status_and_history_writes: AtomicBool,
    /// Writes of ConfigMaps are refused.
    pub(crate) refuse_config_map_writes: AtomicBool,
    /// Writes of this resource make the task that sends them panic.
    pub(crate) panicking_writes: Mutex<Option<&'static str>>,
    /// Reads of the external metric hang.
    pub(crate) hang_metrics: AtomicBool,
    /// Whether a read of the external metric hangs or has hung.
    pub(crate) has_hung: AtomicBool,
}

pub(crate) struct Cluster {
    pub(crate) clock: VirtualClock,
    pub(crate) testbed: Testbed,
    pub(crate) metrics: Arc<SettableMetrics>,
    pub(crate) api: Arc<ApiRecorder>,
    pub(crate) keep_history: bool,
    pub(crate) leader_tasks: Vec<LeaderTask>,
}

impl Cluster {
    /// A Deployment with two replicas, and an autoscaler with this behavior and a load of ten
    /// replicas.
    pub(crate) fn new(behavior: Value, keep_history: bool) -> Self {
        let clock = VirtualClock::start();
        let metrics = Arc::new(SettableMetrics::new(0, 10));
        let server_clock = clock.clone();
        let testbed = Testbed::new(Config {
            metrics: Some(metrics.clone()),
            clock: Arc::new(move || server_clock.now()),
            ..Config::default()
        });
        let mut hpa = objects::hpa("web", 1..=20, [objects::external_metric("load", "1")]);
        hpa["spec"]["behavior"] = behavior;
        testbed.apply_all([objects::namespace(), objects::running_deployment("web", 2), hpa]);
        let (api, leader_tasks) = (Arc::default(), Vec::new());
        Self { clock, testbed, metrics, api, keep_history, leader_tasks }
    }

    /// Starts a controller. It is a standby if there is a leader.
    pub(crate) fn start_controller(&self, name: &str) -> RunningController {
        self.start_controller_with_telemetry(name).0
    }

    pub(crate) fn start_controller_with_telemetry(
        &self,
        name: &str,
    ) -> (RunningController, Arc<Telemetry>) {
        let client = self.client();
        let election = election(client.clone(), "kube-system", name);
        // A request that hangs outlasts the grace period.
        let options = Options { shutdown_grace: Duration::from_secs(5), ..controller_options() };
        let dependencies = Dependencies {
            clock: Arc::new(self.clock.clone()),
            election: Some(election),
            keep_history: self.keep_history,
            leader_tasks: self.leader_tasks.clone(),
            ..Dependencies::new(clients(client), &options)
        };
        let telemetry = dependencies.telemetry.clone();
        (RunningController::start(dependencies, options), telemetry)
    }

    /// Starts a leader, and a second later a standby.
    pub(crate) async fn start_leader_and_standby(&self) -> (RunningController, RunningController) {
        let leader = self.start_controller("a");
        self.at(1).await;
        (leader, self.start_controller("b"))
    }

    /// Whole seconds since the start.
    pub(crate) fn second(&self) -> i64 {
        i64::try_from(self.clock.age().as_secs()).expect("a short test")
    }

    /// The annotation of the lease with the autoscalers that its holder handles.
    pub(crate) async fn instance_scope(&self) -> Option<String> {
        let leases: Api<Lease> = Api::namespaced(self.testbed.client(), "kube-system");
        let lease = leases.get("hpa-controller").await.expect("a lease");
        lease.metadata.annotations?.remove(INSTANCE_SCOPE)
    }

    /// Makes another client the holder of the lease.
    pub(crate) async fn take_lease(&self, holder: &str) {
        let leases: Api<Lease> = Api::namespaced(self.testbed.client(), "kube-system");
        let patch = Patch::Merge(json!({ "spec": { "holderIdentity": holder } }));
        leases.patch("hpa-controller", &PatchParams::default(), &patch).await.expect("a lease");
    }

    pub(crate) fn client(&self) -> Client {
        let (server, api, clock) = (self.testbed.client(), self.api.clone(), self.clock.clone());
        let recording = service_fn(move |request: Request<Body>| {
            let (server, api, clock) = (server.clone(), api.clone(), clock.clone());
            async move {
                let (is_read, path) =
                    (request.method() == Method::GET, request.uri().path().to_owned());
                let is_config_map = path.contains("/configmaps");
                let is_record = is_config_map || path.ends_with("/status");
                if !is_read
                    && is_record
                    && api.hang_status_and_history_writes.load(Ordering::SeqCst)
                {
                    std::future::pending::<()>().await;
                }
                let panicking = *api.panicking_writes.lock();
                if let Some(resource) = panicking.filter(|_| !is_read) {
                    assert!(
                        !path.ends_with(resource),
                        "injected panic of the task that writes {resource}"
                    );
                }
                let is_metric = path.contains("/external.metrics.k8s.io/");
                if is_metric && api.hang_metrics.load(Ordering::SeqCst) {
                    api.has_hung.store(true, Ordering::SeqCst);
                    std::future::pending::<()>().await;
                }
                if !is_read && is_config_map && api.refuse_config_map_writes.load(Ordering::SeqCst)
                {
                    let refused = Response::builder().status(403).body(Body::from(Vec::new()));
                    return Ok(refused.expect("a response"));
                }
                let response = server.send(request).await?;
                let now = i64::try_from(clock.age().as_secs()).expect("a short test");
                if !is_read && response.status().is_success() && is_config_map {
                    api.config_map_write_seconds.lock().push(now);
                }
                Ok::<_, kube::Error>(response)
            }
        });
        Client::new(recording, "default")
    }

    /// Waits until this second.
    pub(crate) async fn at(&self, second: i64) {
        self.clock.wait_until_age(Duration::from_secs(second.unsigned_abs())).await;
    }

    pub(crate) async fn load_at(&self, second: i64, load: i64) {
        self.at(second).await;
        self.metrics.set_value(load);
    }

    pub(crate) fn replicas(&self) -> i64 {
        self.testbed.replicas("web")
    }

    /// Waits for this number of replicas. Returns the second.
    pub(crate) async fn wait_until_scaled_to(&self, replicas: i64) -> i64 {
        self.wait_while(|current| current != replicas).await
    }

    /// Waits until the number of replicas changes. Returns the second and the new number.
    pub(crate) async fn wait_until_scaled_from(&self, replicas: i64) -> (i64, i64) {
        (self.wait_while(|current| current == replicas).await, self.replicas())
    }

    /// Waits while the number of replicas fulfills a condition. Returns the second.
    async fn wait_while(&self, is_fulfilled: impl Fn(i64) -> bool) -> i64 {
        let mut second = self.second();
        while is_fulfilled(self.replicas()) {
            assert!(second < 5000, "still {} replicas", self.replicas());
            second += 1;
            self.at(second).await;
        }
        second
    }
}

/// The value of a series that a controller exports.
pub(crate) fn exported_value(telemetry: &Telemetry, series: &str) -> i64 {
    let text = telemetry.render();
    let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.expect(series).parse().expect("an integer")
}
