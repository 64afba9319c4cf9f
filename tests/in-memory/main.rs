//! The whole controller against the testbed in real time, without sockets or other binaries.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a failed step fails the test")]

mod split;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hpa_calc::settings::Settings;
use hpa_controller::{Dependencies, Options};
use hpa_testbed::{Action, Config, Effect, Interceptor, RequestInfo, Testbed};
use hpa_tests::harness::{
    NAMESPACE, RunningController, SettableMetrics, TestbedExt, clients, controller_options, objects,
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
use tokio::sync::watch;

/// Deadline of every wait, far beyond the expected durations.
const LIMIT: Duration = Duration::from_secs(30);
const PERIOD: Duration = Duration::from_millis(50);

/// Counts requests, and refuses those for scales if `scales_fail`.
#[derive(Default)]
struct Requests {
    scales_fail: AtomicBool,
    /// Reads and writes of scales. Each reconcile reads one if scales are not watched.
    scale_count: watch::Sender<usize>,
    /// Requests for pod metrics: one per reconcile.
    metrics_count: watch::Sender<usize>,
}

impl Interceptor for Requests {
    fn intercept(&self, request: &RequestInfo) -> Action {
        if request.group == "metrics.k8s.io" && request.resource == "pods" {
            self.metrics_count.send_modify(|requests| *requests += 1);
        }
        if request.subresource != "scale" {
            return Action::Pass;
        }
        self.scale_count.send_modify(|requests| *requests += 1);
        if !self.scales_fail.load(Ordering::SeqCst) {
            return Action::Pass;
        }
        Effect::ServiceUnavailable.into()
    }
}

/// A Deployment of two pods, an autoscaler with a CPU target of 50 %, and the controller.
struct Cluster {
    testbed: Testbed,
    metrics: Arc<SettableMetrics>,
    requests: Arc<Requests>,
    controller: RunningController,
}

impl Cluster {
    fn start(cpu_percent: i64) -> Self {
        Self::start_with(cpu_percent, controller_options())
    }

    fn start_with(cpu_percent: i64, options: Options) -> Self {
        let metrics = Arc::new(SettableMetrics::new(cpu_percent, 1));
        let requests = Arc::new(Requests::default());
        let testbed = Testbed::new(Config {
            metrics: Some(metrics.clone()),
            interceptor: Some(requests.clone()),
            ..Config::default()
        });
        testbed.apply_all([
            objects::namespace(),
            objects::running_deployment("web", 2),
            objects::pod("web", 0),
            objects::pod("web", 1),
            objects::hpa("web", 1..=4, [objects::cpu_metric(50)]),
        ]);
        let settings = Settings::default().with(|settings| {
            settings.downscale_stabilization = SignedDuration::ZERO;
        });
        let options = Options { settings, sync_period: PERIOD, ..options };
        let dependencies = Dependencies::new(clients(testbed.client()), &options);
        let controller = RunningController::start(dependencies, options);
        Self { testbed, metrics, requests, controller }
    }

    fn hpas(&self) -> Api<HorizontalPodAutoscaler> {
        Api::namespaced(self.testbed.client(), NAMESPACE)
    }

    async fn wait_for_hpa(
        &self,
        awaited: &str,
        condition: impl Condition<HorizontalPodAutoscaler>,
    ) -> Value {
        let wait = await_condition(self.hpas(), "web", condition);
        let result = tokio::time::timeout(LIMIT, wait).await;
        let last_status = self.testbed.hpa("web").map(|object| object["status"].to_string());
        assert!(result.is_ok(), "waited for {awaited}; last seen {last_status:?}");
        serde_json::to_value(result.expect("in time").expect("a watch")).expect("JSON")
    }

    async fn wait_for_replicas(&self, replicas: i32) {
        let deployments: Api<Deployment> = Api::namespaced(self.testbed.client(), NAMESPACE);
        let condition = |object: Option<&Deployment>| {
            object.is_some_and(|object| object.spec.replicas == Some(replicas))
        };
        let wait = await_condition(deployments, "web", condition);
        tokio::time::timeout(LIMIT, wait).await.expect("in time").expect("a watch");
    }

    async fn patch_hpa(&self, patch: Value) {
        let patch = Patch::Merge(patch);
        self.hpas().patch("web", &PatchParams::default(), &patch).await.expect("a patch");
    }
}

fn has_condition(
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
async fn replicas_follow_the_load_up_and_down() {
    let cluster = Cluster::start(100);
    cluster.wait_for_replicas(4).await;
    let hpa = cluster
        .wait_for_hpa("a decision", has_condition("AbleToScale", "True", "ReadyForNewScale"))
        .await;
    // The testbed maintains generations, as Kubernetes 1.37 does.
    assert_eq!(hpa["status"]["observedGeneration"], 1);
    assert_eq!(hpa["status"]["conditions"][0]["observedGeneration"], 1);
    cluster.metrics.set_cpu_percent(10);
    cluster.wait_for_replicas(1).await;
    let events: Api<Event> = Api::namespaced(cluster.testbed.client(), NAMESPACE);
    // The shutdown waits for events, which are written in the background.
    cluster.controller.stop().await;
    let events = events.list(&ListParams::default()).await.expect("events");
    let messages: Vec<_> =
        events.items.iter().filter_map(|event| event.message.as_deref()).collect();
    let up = "New size: 4; reason: cpu resource utilization (percentage of request) above target";
    assert!(messages.contains(&up), "{messages:?}");
    assert!(messages.contains(&"New size: 1; reason: All metrics below target"), "{messages:?}");
}

#[tokio::test]
async fn spec_change_is_applied() {
    let cluster = Cluster::start(100);
    cluster.wait_for_replicas(4).await;
    cluster.patch_hpa(json!({ "spec": { "maxReplicas": 3 } })).await;
    cluster.wait_for_replicas(3).await;
    cluster.controller.stop().await;
}

#[tokio::test]
async fn scaling_resumes_after_a_reported_scale_outage() {
    let cluster = Cluster::start_with(50, Options { watch_scales: false, ..controller_options() });
    cluster
        .wait_for_hpa(
            "a first decision",
            has_condition("ScalingActive", "True", "ValidMetricFound"),
        )
        .await;
    cluster.requests.scales_fail.store(true, Ordering::SeqCst);
    cluster
        .wait_for_hpa("the outage", has_condition("AbleToScale", "False", "FailedGetScale"))
        .await;
    cluster.metrics.set_cpu_percent(100);
    cluster.requests.scales_fail.store(false, Ordering::SeqCst);
    cluster.wait_for_replicas(4).await;
    cluster
        .wait_for_hpa("recovery", has_condition("AbleToScale", "True", "ReadyForNewScale"))
        .await;
    cluster.controller.stop().await;
}

#[tokio::test]
async fn expired_watches_are_restarted() {
    let cluster = Cluster::start(50);
    cluster
        .wait_for_hpa(
            "a first decision",
            has_condition("ScalingActive", "True", "ValidMetricFound"),
        )
        .await;
    cluster.testbed.compact();
    cluster.testbed.end_watches();
    cluster.patch_hpa(json!({ "spec": { "minReplicas": 3 } })).await;
    cluster.wait_for_replicas(3).await;
    cluster.controller.stop().await;
}

#[tokio::test]
async fn steady_state_writes_nothing() {
    let cluster = Cluster::start(50);
    cluster
        .wait_for_hpa(
            "a first decision",
            has_condition("ScalingLimited", "False", "DesiredWithinRange"),
        )
        .await;
    let version_before = cluster.testbed.resource_version();
    let mut requests = cluster.requests.metrics_count.subscribe();
    let awaited_count = *requests.borrow() + 10;
    let reconciled = requests.wait_for(|requests| *requests >= awaited_count);
    tokio::time::timeout(LIMIT, reconciled).await.expect("in time").expect("a testbed");
    assert_eq!(cluster.testbed.resource_version(), version_before);
    // After the first reconciles, scales come from the watch.
    assert!(
        *cluster.requests.scale_count.borrow() < 5,
        "{} requests",
        *cluster.requests.scale_count.borrow()
    );
    cluster.controller.stop().await;
}
