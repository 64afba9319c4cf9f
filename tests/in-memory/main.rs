//! The whole controller against the testbed: every part in its place, without a socket and without foreign binaries.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may stop where it was misled"
)]

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use hpa_calc::settings::Settings;
use hpa_controller::{
    controller::{Dependencies, Options, RunError},
    k8s::Clients,
};
use hpa_testbed::{
    Action, ApiError, Config, Interceptor, MetricsProvider, PodMetrics, PodMetricsQuery,
    RequestInfo, Testbed,
};
use jiff::SignedDuration;
use k8s_openapi::api::{
    apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::Event,
};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
    runtime::wait::{Condition, await_condition},
};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// Nothing here takes this long.
const LIMIT: Duration = Duration::from_secs(30);
const PERIOD: Duration = Duration::from_millis(50);

/// Each pod's CPU usage in milli-units, and whether the API server answers requests for scales.
#[derive(Default)]
struct World {
    usage: AtomicI64,
    scales_fail: AtomicBool,
    /// How many requests for scales there were: one for each reconcile where scales are not watched.
    scale_requests: watch::Sender<usize>,
    /// How many requests for metrics there were: one for each reconcile.
    metrics_requests: watch::Sender<usize>,
}

struct Metrics(Arc<World>);

impl MetricsProvider for Metrics {
    fn pods(&self, query: &PodMetricsQuery) -> Result<Vec<PodMetrics>, ApiError> {
        self.0.metrics_requests.send_modify(|requests| *requests += 1);
        let usage = format!("{}m", self.0.usage.load(Ordering::SeqCst));
        let containers =
            BTreeMap::from([("app".to_owned(), BTreeMap::from([("cpu".to_owned(), usage)]))]);
        let metrics = |(namespace, name): &(String, String)| PodMetrics {
            namespace: namespace.clone(),
            name: name.clone(),
            window: "15s".into(),
            containers: containers.clone(),
            ..PodMetrics::default()
        };
        Ok(query.pods.iter().map(metrics).collect())
    }
}

struct Faults(Arc<World>);

impl Interceptor for Faults {
    fn intercept(&self, request: &RequestInfo) -> Action {
        if request.subresource == "scale" {
            self.0.scale_requests.send_modify(|requests| *requests += 1);
        }
        if request.subresource == "scale" && self.0.scales_fail.load(Ordering::SeqCst) {
            return Action::Status {
                code: 503,
                reason: "ServiceUnavailable".into(),
                message: "the server is currently unable to handle the request".into(),
                retry_after: None,
            };
        }
        Action::Pass
    }
}

/// A cluster with a Deployment of two pods that request 100m CPU each, an autoscaler of it, and the controller.
struct Cluster {
    testbed: Testbed,
    world: Arc<World>,
    shutdown: CancellationToken,
    controller: JoinHandle<Result<(), RunError>>,
}

impl Cluster {
    fn start(usage: i64) -> Self {
        Self::start_with(usage, true)
    }

    fn start_with(usage: i64, watch_scales: bool) -> Self {
        let world = Arc::new(World { usage: usage.into(), ..World::default() });
        let testbed = Testbed::new(Config {
            metrics: Some(Arc::new(Metrics(world.clone()))),
            interceptor: Some(Arc::new(Faults(world.clone()))),
            ..Config::default()
        });
        for object in objects() {
            testbed.apply(object).expect("an object that the API takes");
        }
        let shutdown = CancellationToken::new();
        let controller = tokio::spawn(control(testbed.client(), watch_scales, shutdown.clone()));
        Self { testbed, world, shutdown, controller }
    }

    fn autoscalers(&self) -> Api<HorizontalPodAutoscaler> {
        Api::namespaced(self.testbed.client(), "shop")
    }

    async fn autoscaler(
        &self,
        what: &str,
        condition: impl Condition<HorizontalPodAutoscaler>,
    ) -> Value {
        let wait = await_condition(self.autoscalers(), "web", condition);
        let found = tokio::time::timeout(LIMIT, wait).await;
        let seen = self.testbed.get("autoscaling/v2", "HorizontalPodAutoscaler", "shop", "web");
        let seen = seen.map(|object| object["status"].to_string());
        assert!(found.is_ok(), "waited for {what}; last seen {seen:?}");
        serde_json::to_value(found.expect("in time").expect("a watch")).expect("JSON")
    }

    async fn replicas(&self, replicas: i32) {
        let deployments: Api<Deployment> = Api::namespaced(self.testbed.client(), "shop");
        let condition = |object: Option<&Deployment>| {
            object.is_some_and(|object| object.spec.replicas == Some(replicas))
        };
        let wait = await_condition(deployments, "web", condition);
        tokio::time::timeout(LIMIT, wait).await.expect("in time").expect("a watch");
    }

    /// Ends the controller as a signal does.
    async fn stop(self) {
        self.shutdown.cancel();
        let outcome = tokio::time::timeout(LIMIT, self.controller).await;
        outcome.expect("in time").expect("no panic").expect("an orderly end");
    }
}

async fn control(
    client: kube::Client,
    watch_scales: bool,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    let settings =
        Settings { downscale_stabilization: SignedDuration::ZERO, ..Settings::default() };
    let options = Options {
        settings,
        sync_period: PERIOD,
        workers: 2,
        namespaces: Vec::new(),
        shutdown_grace: LIMIT,
        request_timeout: LIMIT,
        watch_scales,
    };
    let clients = Clients { api: client.clone(), metrics: client };
    hpa_controller::controller::run(Dependencies::new(clients, &options), options, shutdown).await
}

fn objects() -> Vec<Value> {
    let pod = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": "shop", "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "app", "resources": { "requests": { "cpu": "100m" } } }] },
            "status": { "phase": "Running", "startTime": "2020-01-01T00:00:00Z",
                "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:10Z" }] },
        })
    };
    vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "web" } },
                "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [] } } },
            "status": { "replicas": 2 },
        }),
        pod("web-0"),
        pod("web-1"),
        json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "minReplicas": 1, "maxReplicas": 4,
                "metrics": [{ "type": "Resource", "resource": { "name": "cpu",
                    "target": { "type": "Utilization", "averageUtilization": 50 } } }] },
        }),
    ]
}

fn has(
    condition_type: &str,
    status: &str,
    reason: &str,
) -> impl Condition<HorizontalPodAutoscaler> {
    let [condition_type, status, reason] = [condition_type, status, reason].map(ToOwned::to_owned);
    move |object: Option<&HorizontalPodAutoscaler>| {
        let conditions = object.and_then(|object| object.status.as_ref()?.conditions.as_ref());
        conditions.into_iter().flatten().any(|condition| {
            condition.type_ == condition_type
                && condition.status == status
                && condition.reason.as_deref() == Some(&reason)
        })
    }
}

#[tokio::test]
async fn load_is_followed_up_and_down() {
    let cluster = Cluster::start(100);
    cluster.replicas(4).await;
    let hpa = cluster
        .autoscaler("what was decided", has("AbleToScale", "True", "ReadyForNewScale"))
        .await;
    // The testbed counts generations, as 1.37 does.
    assert_eq!(hpa["status"]["observedGeneration"], 1);
    assert_eq!(hpa["status"]["conditions"][0]["observedGeneration"], 1);
    cluster.world.usage.store(10, Ordering::SeqCst);
    cluster.replicas(1).await;
    let events: Api<Event> = Api::namespaced(cluster.testbed.client(), "shop");
    // The recorder writes behind the decision; ending the controller waits for it.
    cluster.stop().await;
    let events = events.list(&ListParams::default()).await.expect("events");
    let messages: Vec<_> =
        events.items.iter().filter_map(|event| event.message.as_deref()).collect();
    let up = "New size: 4; reason: cpu resource utilization (percentage of request) above target";
    assert!(messages.contains(&up), "{messages:?}");
    assert!(messages.contains(&"New size: 1; reason: All metrics below target"), "{messages:?}");
}

#[tokio::test]
async fn changed_spec_is_followed() {
    let cluster = Cluster::start(100);
    cluster.replicas(4).await;
    let patch = Patch::Merge(json!({ "spec": { "maxReplicas": 3 } }));
    cluster.autoscalers().patch("web", &PatchParams::default(), &patch).await.expect("a patch");
    cluster.replicas(3).await;
    cluster.stop().await;
}

#[tokio::test]
async fn outage_of_the_scale_is_told_and_passes() {
    let cluster = Cluster::start_with(50, false);
    cluster.autoscaler("a first decision", has("ScalingActive", "True", "ValidMetricFound")).await;
    cluster.world.scales_fail.store(true, Ordering::SeqCst);
    cluster.autoscaler("the outage", has("AbleToScale", "False", "FailedGetScale")).await;
    cluster.world.usage.store(100, Ordering::SeqCst);
    cluster.world.scales_fail.store(false, Ordering::SeqCst);
    cluster.replicas(4).await;
    cluster.autoscaler("its end", has("AbleToScale", "True", "ReadyForNewScale")).await;
    cluster.stop().await;
}

#[tokio::test]
async fn watches_that_lost_track_are_begun_again() {
    let cluster = Cluster::start(50);
    cluster.autoscaler("a first decision", has("ScalingActive", "True", "ValidMetricFound")).await;
    cluster.testbed.compact();
    cluster.testbed.drop_watches();
    let patch = Patch::Merge(json!({ "spec": { "minReplicas": 3 } }));
    cluster.autoscalers().patch("web", &PatchParams::default(), &patch).await.expect("a patch");
    cluster.replicas(3).await;
    cluster.stop().await;
}

#[tokio::test]
async fn steady_state_writes_nothing() {
    let cluster = Cluster::start(50);
    cluster
        .autoscaler("a first decision", has("ScalingLimited", "False", "DesiredWithinRange"))
        .await;
    let before = cluster.testbed.resource_version();
    let mut requests = cluster.world.metrics_requests.subscribe();
    let later = *requests.borrow() + 10;
    let reconciled = requests.wait_for(|requests| *requests >= later);
    tokio::time::timeout(LIMIT, reconciled).await.expect("in time").expect("a cluster");
    assert_eq!(cluster.testbed.resource_version(), before);
    // The scale is known from a watch, but for the first reconciles.
    assert!(
        *cluster.world.scale_requests.borrow() < 5,
        "{} requests",
        *cluster.world.scale_requests.borrow()
    );
    cluster.stop().await;
}
