//! One reconcile against an API server that answers as it is told: what is written, and against which version.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::struct_excessive_bools,
    reason = "the stub of a test: it may stop where it is asked what it does not know"
)]

use std::{convert::Infallible, sync::Arc, time::Duration};

use async_trait::async_trait;
use hpa_calc::{
    MilliValue,
    api::{
        ConditionReason, CrossVersionObjectReference, HorizontalPodAutoscaler, Pod, ResourceName,
    },
    history::Direction,
    readings::{PodSample, PodSamples, ReadError},
    selector::Selector,
    settings::Settings,
};
use hpa_controller::{
    AutoscalerApi, Finished, HpaKey, Observer, Reconciled, SystemClock,
    annotations::{DRY_RUN, PAUSE},
    cache::{Autoscalers, ErrorClass, Origin, Pods, SelectorIndex},
    events::{EventRecorder, EventWriterConfig},
    reconcile::Reconciler,
    scale_target::{MapperConfig, RestMapper, ScaleClient},
    shadow::{Verdict, read_only},
};
use hpa_metrics_client::MetricsClient;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::{Value, json};

const SCALE: &str = "/apis/apps/v1/namespaces/shop/deployments/web/scale";
const HPA: &str = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web";
const STATUS: &str = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web/status";
const OWN: &str = "/apis/autoscaling.hpa-rs.dev/v2/namespaces/shop/horizontalpodautoscalers/web";
const OWN_STATUS: &str =
    "/apis/autoscaling.hpa-rs.dev/v2/namespaces/shop/horizontalpodautoscalers/web/status";

/// What the API server holds, and what it was asked to do.
#[derive(Default)]
struct Server {
    replicas: i64,
    version: u64,
    /// Before each of the next writes of the scale somebody else sets these replicas.
    interference: Vec<i64>,
    scale_is_served: bool,
    hpa_exists: bool,
    /// The autoscaler is deleted right after a write of the scale.
    hpa_ends_with_scale: bool,
    refuses_statuses: bool,
    /// Those of the autoscaler.
    annotations: Value,
    /// Replicas, and the version they were written against.
    scale_writes: Vec<(i64, u64)>,
    status_patches: Vec<Value>,
    events: Vec<Value>,
    own_status_patches: usize,
}

impl Server {
    fn scale(&self) -> Value {
        let version = self.version.to_string();
        json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": { "name": "web", "namespace": "shop", "uid": "t", "resourceVersion": version },
            "spec": { "replicas": self.replicas },
            "status": { "replicas": self.replicas, "selector": "app=web" },
        })
    }

    fn write_scale(&mut self, body: &Value) -> (StatusCode, Value) {
        if !self.interference.is_empty() {
            self.replicas = self.interference.remove(0);
            self.version += 1;
        }
        let version =
            body["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        if version != Some(self.version) {
            let details = json!({ "name": "web", "group": "apps", "kind": "deployments" });
            return failure(
                StatusCode::CONFLICT,
                "Conflict",
                "the object has been modified",
                &details,
            );
        }
        self.replicas = body["spec"]["replicas"].as_i64().expect("replicas");
        self.scale_writes.push((self.replicas, self.version));
        self.version += 1;
        self.hpa_exists &= !self.hpa_ends_with_scale;
        (StatusCode::OK, self.scale())
    }

    fn patch_status(&mut self, body: Value) -> (StatusCode, Value) {
        self.status_patches.push(body);
        if self.refuses_statuses {
            return failure(StatusCode::FORBIDDEN, "Forbidden", "forbidden: no status", &json!({}));
        }
        if !self.hpa_exists {
            let details = json!({ "name": "web", "group": "autoscaling", "kind": "horizontalpodautoscalers" });
            return failure(StatusCode::NOT_FOUND, "NotFound", "not found", &details);
        }
        let mut object = self.hpa();
        object["status"] = merged(&self.status_patches);
        object["metadata"]["resourceVersion"] =
            json!((100 + self.status_patches.len()).to_string());
        (StatusCode::OK, object)
    }

    fn hpa(&self) -> Value {
        let mut object = serde_json::to_value(hpa()).expect("JSON");
        object["metadata"]["annotations"] = self.annotations.clone();
        object
    }

    fn answer(&mut self, method: &Method, path: &str, body: Value) -> (StatusCode, Value) {
        let apps = json!({ "groupVersion": "apps/v1", "version": "v1" });
        let deployments = |name: &str, kind: &str| json!({ "name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get", "update"] });
        match (method, path) {
            (&Method::GET, "/apis/apps") => {
                let group = json!({ "kind": "APIGroup", "apiVersion": "v1", "name": "apps", "versions": [apps],
                    "preferredVersion": apps });
                (StatusCode::OK, group)
            }
            (&Method::GET, "/apis/apps/v1") => {
                let resources = [
                    deployments("deployments", "Deployment"),
                    deployments("deployments/scale", "Scale"),
                ];
                let list = json!({ "kind": "APIResourceList", "groupVersion": "apps/v1", "resources": resources });
                (StatusCode::OK, list)
            }
            (_, SCALE) if !self.scale_is_served => {
                let text = "the server could not find the requested resource";
                failure(StatusCode::NOT_FOUND, "NotFound", text, &json!({}))
            }
            (&Method::GET, SCALE) => (StatusCode::OK, self.scale()),
            (&Method::PUT, SCALE) => self.write_scale(&body),
            (&Method::GET, HPA) if !self.hpa_exists => {
                let details = json!({ "name": "web", "group": "autoscaling", "kind": "horizontalpodautoscalers" });
                failure(StatusCode::NOT_FOUND, "NotFound", "not found", &details)
            }
            (&Method::GET, HPA) => (StatusCode::OK, self.hpa()),
            (&Method::PATCH, STATUS) => self.patch_status(body),
            (&Method::POST, "/api/v1/namespaces/shop/events") => {
                self.events.push(body.clone());
                (StatusCode::CREATED, body)
            }
            // Our own API is asked for the same.
            (method, OWN) => self.answer(method, HPA, body),
            (method, OWN_STATUS) => {
                self.own_status_patches += 1;
                self.answer(method, STATUS, body)
            }
            (method, path) => panic!("unexpected {method} {path}"),
        }
    }
}

fn failure(code: StatusCode, reason: &str, message: &str, details: &Value) -> (StatusCode, Value) {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "metadata": {},
        "reason": reason, "message": message, "code": code.as_u16(), "details": details });
    (code, status)
}

/// The status that merge patches leave.
fn merged(patches: &[Value]) -> Value {
    let mut status = json!({ "desiredReplicas": 0, "currentMetrics": null });
    for (name, value) in
        patches.iter().flat_map(|patch| patch["status"].as_object().expect("a status"))
    {
        status[name] = value.clone();
    }
    status
}

fn client(server: &Arc<Mutex<Server>>) -> Client {
    let server = server.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = server.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.expect("a body").to_bytes();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let (code, answer) = server.lock().answer(&parts.method, parts.uri.path(), body);
            let response =
                Response::builder().status(code).header("content-type", "application/json");
            let response = response.body(Body::from(answer.to_string().into_bytes()));
            Ok::<_, Infallible>(response.expect("a response"))
        }
    });
    Client::new(service, "default")
}

fn hpa() -> HorizontalPodAutoscaler {
    serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "a", "resourceVersion": "1" },
        "spec": { "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 1, "maxReplicas": 10,
            "metrics": [{ "type": "Resource", "resource": { "name": "cpu",
                "target": { "type": "Utilization", "averageUtilization": 50 } } }] },
    }))
    .expect("an autoscaler")
}

/// Every pod uses this much CPU.
struct Usage {
    milli: i64,
    /// From here the autoscaler is deleted while the metric is read.
    deletes_from: Option<Arc<Autoscalers>>,
}

fn usage(milli: i64) -> Usage {
    Usage { milli, deletes_from: None }
}

#[async_trait]
impl MetricsClient for Usage {
    async fn resource(
        &self,
        _: &str,
        _: &Selector,
        _: &ResourceName,
        _: Option<&str>,
    ) -> Result<PodSamples, ReadError> {
        if let Some(autoscalers) = &self.deletes_from {
            autoscalers.remove(&key());
        }
        let window = SignedDuration::from_secs(15);
        let sample = PodSample {
            value: MilliValue::from_milli(self.milli),
            timestamp: Timestamp::now(),
            window,
        };
        Ok(["web-0", "web-1"].into_iter().map(|pod| (pod, sample)).collect())
    }

    async fn pods(
        &self,
        _: &str,
        _: &Selector,
        _: &str,
        _: &Selector,
    ) -> Result<PodSamples, ReadError> {
        unreachable!("no autoscaler here asks for it")
    }

    async fn object(
        &self,
        _: &str,
        _: &CrossVersionObjectReference,
        _: &str,
        _: &Selector,
    ) -> Result<MilliValue, ReadError> {
        unreachable!("no autoscaler here asks for it")
    }

    async fn external(&self, _: &str, _: &str, _: &Selector) -> Result<Vec<MilliValue>, ReadError> {
        unreachable!("no autoscaler here asks for it")
    }
}

fn pod(name: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "app", "resources": { "requests": { "cpu": "100m" } } }] },
        "status": { "phase": "Running", "startTime": "2020-01-01T00:00:00Z",
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:10Z" }] },
    }))
    .expect("a pod")
}

/// A target of two replicas.
fn server() -> Server {
    Server { replicas: 2, version: 1, scale_is_served: true, hpa_exists: true, ..Server::default() }
}

fn key() -> HpaKey {
    HpaKey::new("shop", "web")
}

/// A reconciler that knows the autoscaler and its two pods, each of which uses twice of what it should: four
/// replicas are wanted.
fn reconciler(server: &Arc<Mutex<Server>>) -> Reconciler {
    let client = client(server);
    let pods = Pods::for_scopes(&[None]);
    for name in ["web-0", "web-1"] {
        pods.index("shop").expect("an index").apply("shop", pod(name));
    }
    let autoscalers = Autoscalers::default();
    autoscalers.apply(&key(), hpa(), Origin::List);
    let (events, writer) = EventRecorder::new(client.clone(), EventWriterConfig::default());
    tokio::spawn(writer.run());
    Reconciler {
        settings: Settings::default(),
        autoscalers: Arc::new(autoscalers),
        pods: Arc::new(pods),
        selectors: Arc::new(SelectorIndex::default()),
        mapper: Arc::new(RestMapper::new(client.clone(), MapperConfig::default())),
        scales: ScaleClient::new(client.clone(), Duration::from_secs(5)),
        scale_informers: None,
        metrics: Arc::new(usage(100)),
        events,
        clock: Arc::new(SystemClock::default()),
        observer: Arc::new(()),
        shadow: Arc::default(),
        dry_run: false,
        client,
    }
}

async fn reconcile_once(server: Server) -> Server {
    let server = Arc::new(Mutex::new(server));
    reconciler(&server).reconcile(&key()).await;
    std::mem::take(&mut *server.lock())
}

fn conditions(server: &Server) -> String {
    merged(&server.status_patches)["conditions"].to_string()
}

#[tokio::test]
async fn scale_is_written_against_the_version_read() {
    let server = reconcile_once(server()).await;
    assert_eq!(server.scale_writes, [(4, 1)]);
    assert_eq!(server.status_patches.len(), 1);
    assert_eq!(server.status_patches[0]["metadata"], json!({ "uid": "a" }));
    assert_eq!(server.status_patches[0]["status"]["desiredReplicas"], 4);
}

/// Reconciles an autoscaler with this annotation so often; and then all events are written.
async fn reconcile_annotated(value: &str, times: usize) -> Server {
    let server = Arc::new(Mutex::new(Server { annotations: json!({ PAUSE: value }), ..server() }));
    let mut reconciler = reconciler(&server);
    let (events, writer) =
        EventRecorder::new(reconciler.client.clone(), EventWriterConfig::default());
    reconciler.events = events;
    let mut annotated = hpa();
    annotated.metadata.annotations.insert(PAUSE.into(), value.into());
    reconciler.autoscalers.apply(&key(), annotated, Origin::List);
    for _ in 0..times {
        reconciler.reconcile(&key()).await;
    }
    drop(reconciler);
    writer.run().await;
    std::mem::take(&mut *server.lock())
}

#[tokio::test]
async fn paused_direction_is_not_written_but_told() {
    let server = reconcile_annotated("up", 2).await;
    assert_eq!((server.replicas, server.scale_writes.len()), (2, 0));
    assert!(
        conditions(&server).contains("scaling up is paused: 4 replicas desired"),
        "{}",
        conditions(&server)
    );
    assert_eq!(server.status_patches.len(), 1, "a pause that lasts is told once");
    assert_eq!(server.status_patches[0]["status"]["desiredReplicas"], 4);
    assert_eq!(server.events.len(), 0);
}

#[tokio::test]
async fn other_direction_is_written() {
    assert_eq!(reconcile_annotated("down", 1).await.scale_writes, [(4, 1)]);
}

#[tokio::test]
async fn unknown_pause_is_told_once_and_not_heeded() {
    let server = reconcile_annotated("yes", 3).await;
    assert_eq!(server.scale_writes.first(), Some(&(4, 1)));
    let told: Vec<_> =
        server.events.iter().filter(|event| event["reason"] == "InvalidAnnotation").collect();
    assert_eq!(told.len(), 1, "{:?}", server.events);
}

#[tokio::test]
async fn pause_that_was_set_meanwhile_holds() {
    let server = reconcile_once(Server { annotations: json!({ PAUSE: "true" }), ..server() }).await;
    assert_eq!(server.scale_writes, []);
}

#[tokio::test]
async fn autoscaler_of_our_own_api_is_written_there() {
    let server = Arc::new(Mutex::new(server()));
    let mut reconciler = reconciler(&server);
    let (events, writer) =
        EventRecorder::new(reconciler.client.clone(), EventWriterConfig::default());
    reconciler.events = events;
    let own = HpaKey::for_api(AutoscalerApi::Custom, "shop", "web");
    reconciler.autoscalers.remove(&key());
    reconciler.autoscalers.apply(&own, hpa(), Origin::List);
    reconciler.reconcile(&own).await;
    drop(reconciler);
    writer.run().await;
    let server = server.lock();
    assert_eq!(server.scale_writes, [(4, 1)]);
    assert_eq!((server.own_status_patches, server.status_patches.len()), (1, 1));
    assert_eq!(server.events[0]["involvedObject"]["apiVersion"], "autoscaling.hpa-rs.dev/v2");
}

#[tokio::test]
async fn autoscaler_of_each_api_for_the_same_pods_is_ambiguous() {
    let server = Arc::new(Mutex::new(server()));
    let reconciler = reconciler(&server);
    let own = HpaKey::for_api(AutoscalerApi::Custom, "shop", "web");
    reconciler.selectors.set(&own, Some(Selector::parse("app=web").expect("a selector")));
    reconciler.reconcile(&key()).await;
    let server = server.lock();
    assert_eq!(server.scale_writes, []);
    let text = "controlled by multiple HPAs: [shop/web rhpa/shop/web]";
    assert!(conditions(&server).contains(text), "{}", conditions(&server));
}

/// Counts verdicts.
#[derive(Default)]
struct Verdicts(Mutex<Vec<Verdict>>);

impl Observer for Verdicts {
    fn reconciled(&self, _: &Reconciled<'_>) {}

    fn compared(&self, _: &HpaKey, verdict: Verdict) {
        self.0.lock().push(verdict);
    }
}

/// The status of a controller that scaled the target from two to so many.
fn answered(desired: i32) -> HorizontalPodAutoscaler {
    let mut answered = hpa();
    let condition = |about: &str, status: &str, reason: &str| json!({ "type": about, "status": status, "reason": reason });
    answered.status = serde_json::from_value(json!({
        "currentReplicas": 2, "desiredReplicas": desired,
        "currentMetrics": [{ "type": "Resource", "resource": { "name": "cpu",
            "current": { "averageUtilization": 100, "averageValue": "100m" } } }],
        "conditions": [condition("AbleToScale", "True", "SucceededRescale"),
            condition("ScalingActive", "True", "ValidMetricFound"),
            condition("ScalingLimited", "False", "DesiredWithinRange")],
    }))
    .expect("a status");
    answered
}

/// What a dry run makes of these answers of another controller, which has scaled the target already.
async fn dry_run(answers: &[i32]) -> Vec<Verdict> {
    let server = Arc::new(Mutex::new(Server { replicas: answers[0].into(), ..server() }));
    let verdicts = Arc::new(Verdicts::default());
    let mut reconciler = reconciler(&server);
    (reconciler.dry_run, reconciler.observer) = (true, verdicts.clone());
    reconciler.reconcile(&key()).await;
    for (index, answer) in answers.iter().enumerate() {
        let mut answered = answered(*answer);
        // Each is another.
        answered.status.conditions[0].message = index.to_string().into();
        reconciler.autoscalers.apply(&key(), answered, Origin::List);
        reconciler.reconcile(&key()).await;
    }
    let server = server.lock();
    assert_eq!(
        (server.scale_writes.len(), server.status_patches.len(), server.events.len()),
        (0, 0, 0)
    );
    verdicts.0.lock().clone()
}

#[tokio::test]
async fn dry_run_finds_the_decision_of_the_other_controller() {
    assert_eq!(dry_run(&[4, 4]).await, [Verdict::Same, Verdict::Same]);
}

#[tokio::test]
async fn dry_run_finds_another_decision() {
    assert_eq!(dry_run(&[3, 3]).await, [Verdict::Unsettled, Verdict::Different]);
}

/// The other controller scales before it writes its status: the pods and metrics of then are not what it decided on.
#[tokio::test]
async fn dry_run_decides_on_what_was_there_before_a_scaling() {
    let server = Arc::new(Mutex::new(server()));
    let verdicts = Arc::new(Verdicts::default());
    let mut reconciler = reconciler(&server);
    (reconciler.dry_run, reconciler.observer) = (true, verdicts.clone());
    reconciler.reconcile(&key()).await;
    server.lock().replicas = 4;
    for name in ["web-2", "web-3"] {
        reconciler.pods.index("shop").expect("an index").apply("shop", pod(name));
    }
    reconciler.metrics = Arc::new(usage(50));
    reconciler.autoscalers.apply(&key(), answered(4), Origin::List);
    reconciler.reconcile(&key()).await;
    assert_eq!(*verdicts.0.lock(), [Verdict::Same]);
    // As the other one's, the next decisions go by that of this scaling.
    let autoscaler = reconciler.autoscalers.get(&key()).expect("it is known");
    let history = autoscaler.history(reconciler.clock.instants());
    assert_eq!(history.recommendations.last().map(|last| last.replicas), Some(4));
}

/// What was read long ago is not what it decided on either.
#[tokio::test]
async fn dry_run_does_not_decide_on_what_was_there_long_ago() {
    let server = Arc::new(Mutex::new(server()));
    let verdicts = Arc::new(Verdicts::default());
    let mut reconciler = reconciler(&server);
    (reconciler.dry_run, reconciler.observer) = (true, verdicts.clone());
    // Without behavior, a high recommendation of long ago would scale up.
    let rules = json!({ "scaleDown": { "stabilizationWindowSeconds": 0 } });
    let behavior: Option<_> = serde_json::from_value(rules).expect("a behavior");
    let [mut asked, mut answered] = [hpa(), answered(4)];
    (asked.spec.behavior, answered.spec.behavior) = (behavior.clone(), behavior);
    reconciler.autoscalers.apply(&key(), asked, Origin::List);
    for milli in [100, 50, 50] {
        reconciler.metrics = Arc::new(usage(milli));
        reconciler.reconcile(&key()).await;
    }
    reconciler.autoscalers.apply(&key(), answered, Origin::List);
    reconciler.reconcile(&key()).await;
    assert_eq!(*verdicts.0.lock(), [Verdict::Unsettled]);
}

/// A status that stays tells that the other controller has not decided on a load that has just changed.
#[tokio::test]
async fn dry_run_recommends_on_the_metrics_that_the_status_tells_of() {
    let server = Arc::new(Mutex::new(server()));
    let verdicts = Arc::new(Verdicts::default());
    let mut reconciler = reconciler(&server);
    (reconciler.dry_run, reconciler.observer) = (true, verdicts.clone());
    reconciler.metrics = Arc::new(usage(50));
    reconciler.reconcile(&key()).await;
    let mut answered = answered(2);
    answered.status.conditions[0].reason = ConditionReason::ReadyForNewScale;
    answered.status.current_metrics[0] =
        serde_json::from_value(json!({ "type": "Resource", "resource": {
        "name": "cpu", "current": { "averageUtilization": 50, "averageValue": "50m" } } }))
        .expect("a metric");
    reconciler.autoscalers.apply(&key(), answered, Origin::List);
    let mut recommended = Vec::new();
    for milli in [50, 25, 25, 25] {
        reconciler.metrics = Arc::new(usage(milli));
        reconciler.reconcile(&key()).await;
        let autoscaler = reconciler.autoscalers.get(&key()).expect("it is known");
        let history = autoscaler.history(reconciler.clock.instants());
        recommended.push(history.recommendations.last().map(|last| last.replicas));
    }
    assert_eq!(recommended, [2, 2, 2, 1].map(Some));
    assert_eq!(*verdicts.0.lock(), [Verdict::Same, Verdict::Same, Verdict::Unsettled]);
}

#[tokio::test]
async fn annotated_autoscaler_is_not_written() {
    let server = Arc::new(Mutex::new(server()));
    let reconciler = reconciler(&server);
    let mut annotated = hpa();
    annotated.metadata.annotations.insert(DRY_RUN.into(), "true".into());
    reconciler.autoscalers.apply(&key(), annotated, Origin::List);
    reconciler.reconcile(&key()).await;
    let server = server.lock();
    assert_eq!((server.scale_writes.len(), server.status_patches.len()), (0, 0));
}

#[tokio::test]
async fn client_of_a_dry_run_sends_reads_only() {
    let server = Arc::new(Mutex::new(server()));
    let mut reconciler = reconciler(&server);
    // Even if the reconciler believed that it may.
    reconciler.client = read_only(&reconciler.client);
    reconciler.scales = ScaleClient::new(reconciler.client.clone(), Duration::from_secs(5));
    reconciler.reconcile(&key()).await;
    let server = server.lock();
    assert_eq!((server.scale_writes.len(), server.status_patches.len()), (0, 0));
}

#[tokio::test]
async fn conflict_over_something_else_is_written_again_against_the_newer_version() {
    let server = reconcile_once(Server { interference: vec![2, 2], ..server() }).await;
    assert_eq!(server.scale_writes, [(4, 3)]);
}

#[tokio::test]
async fn changed_replicas_are_decided_on_anew() {
    let server = reconcile_once(Server { interference: vec![3], ..server() }).await;
    assert_eq!(server.scale_writes, [(4, 2)]);
    assert_eq!(server.status_patches[0]["status"]["currentReplicas"], 3);
}

#[tokio::test]
async fn pause_by_hand_is_never_overwritten() {
    let server = reconcile_once(Server { interference: vec![0], ..server() }).await;
    assert_eq!(server.scale_writes, []);
    assert_eq!(server.replicas, 0);
    assert!(conditions(&server).contains("ScalingDisabled"), "{}", conditions(&server));
}

#[tokio::test]
async fn endless_conflicts_end_as_a_condition() {
    let server = reconcile_once(Server { interference: vec![2; 100], ..server() }).await;
    assert_eq!(server.scale_writes, []);
    assert_eq!(server.interference.len(), 95, "five writes are tried");
    assert!(conditions(&server).contains("FailedUpdateScale"), "{}", conditions(&server));
}

#[tokio::test]
async fn steady_state_writes_nothing() {
    let server = Arc::new(Mutex::new(server()));
    let mut reconciler = reconciler(&server);
    reconciler.metrics = Arc::new(usage(50));
    for _ in 0..3 {
        reconciler.reconcile(&key()).await;
    }
    let server = server.lock();
    assert_eq!(server.scale_writes, []);
    assert_eq!(server.status_patches.len(), 1, "{:?}", server.status_patches);
}

#[tokio::test]
async fn target_that_cannot_be_read_controls_no_pods() {
    let server = Arc::new(Mutex::new(server()));
    let reconciler = reconciler(&server);
    reconciler.reconcile(&key()).await;
    let pods = reconciler.pods.select("shop", &Selector::everything());
    assert_eq!(reconciler.selectors.controlling("shop", &pods), [key()]);
    server.lock().scale_is_served = false;
    reconciler.reconcile(&key()).await;
    assert_eq!(reconciler.selectors.controlling("shop", &pods), []);
    let conditions = conditions(&server.lock());
    assert!(conditions.contains("FailedGetScale"), "{conditions}");
}

#[tokio::test]
async fn autoscaler_that_is_gone_is_left_alone() {
    let server = Arc::new(Mutex::new(server()));
    let reconciler = reconciler(&server);
    reconciler.autoscalers.remove(&key());
    reconciler.reconcile(&key()).await;
    assert_eq!(server.lock().scale_writes, []);
    assert_eq!(server.lock().status_patches.len(), 0);
}

#[tokio::test]
async fn autoscaler_deleted_meanwhile_is_no_failure() {
    let server = reconcile_once(Server { hpa_ends_with_scale: true, ..server() }).await;
    assert_eq!(server.scale_writes, [(4, 1)]);
}

/// The watch may not have told yet.
#[tokio::test]
async fn autoscaler_that_the_api_server_no_longer_has_scales_nothing() {
    let server = reconcile_once(Server { hpa_exists: false, ..server() }).await;
    assert_eq!(server.scale_writes, []);
    assert_eq!(server.status_patches.len(), 0);
}

#[tokio::test]
async fn autoscaler_deleted_before_the_write_scales_nothing() {
    let server = Arc::new(Mutex::new(server()));
    let mut reconciler = reconciler(&server);
    reconciler.metrics =
        Arc::new(Usage { deletes_from: Some(reconciler.autoscalers.clone()), ..usage(100) });
    reconciler.reconcile(&key()).await;
    assert_eq!(server.lock().scale_writes, []);
    assert_eq!(server.lock().status_patches.len(), 0);
}

/// Which way it scaled, what it decided on, and how it failed.
type End = (Option<Direction>, Option<i32>, Option<ErrorClass>);

/// Keeps how reconciles ended.
#[derive(Default)]
struct Ends(Mutex<Vec<End>>);

impl Observer for Ends {
    fn reconciled(&self, reconciled: &Reconciled<'_>) {
        assert_eq!(reconciled.read_durations.len(), 1);
    }

    fn finished(&self, finished: &Finished<'_>) {
        assert_eq!(finished.key, &key());
        self.0.lock().push((finished.scaled, finished.desired_replicas, finished.error));
    }
}

/// How a reconcile ends for who observes it.
async fn end_of(server: Server) -> Vec<End> {
    let server = Arc::new(Mutex::new(server));
    let ends = Arc::new(Ends::default());
    let reconciler = Reconciler { observer: ends.clone(), ..reconciler(&server) };
    reconciler.reconcile(&key()).await;
    std::mem::take(&mut *ends.0.lock())
}

#[tokio::test]
async fn end_of_a_reconcile_is_told() {
    assert_eq!(end_of(server()).await, [(Some(Direction::Up), Some(4), None)]);
    let unread = Server { scale_is_served: false, ..server() };
    assert_eq!(end_of(unread).await, [(None, None, Some(ErrorClass::Internal))]);
    let unstored = Server { refuses_statuses: true, ..server() };
    assert_eq!(end_of(unstored).await, [(Some(Direction::Up), None, Some(ErrorClass::Internal))]);
}
