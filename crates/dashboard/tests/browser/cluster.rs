//! A testbed with autoscalers in several states, and its dashboard.

use std::sync::Arc;

use hpa_controller::k8s::{ClientLimits, Clients};
use hpa_dashboard::{Dashboard, Options};
use hpa_testbed::{Config, Effect, Fault, Faults, Match, Testbed};
use hpa_tests::harness::{NAMESPACE, SettableMetrics, TestbedExt, objects};
use serde_json::{Value, json};

const NAMESPACES: [&str; 4] = ["bank", "checkout", "search", NAMESPACE];
const TEAMS: [&str; 5] = ["api", "frontend", "worker", "cache", "recommendations"];

/// Conditions that cause different states: type, status and reason.
const STATE_CONDITIONS: [[&str; 3]; 6] = [
    ["ScalingLimited", "False", "DesiredWithinRange"],
    ["ScalingLimited", "True", "TooManyReplicas"],
    ["AbleToScale", "True", "ScaleDownStabilized"],
    ["ScalingActive", "False", "FailedGetResourceMetric"],
    ["ScalingLimited", "True", "ScaleUpLimit"],
    ["ScalingLimited", "True", "TooFewReplicas"],
];

pub(crate) struct Cluster {
    pub(crate) testbed: Testbed,
    pub(crate) url: String,
    pub(crate) metrics: Arc<SettableMetrics>,
    faults: Arc<Faults>,
    _dashboard: Dashboard,
}

impl Cluster {
    /// A cluster with the autoscaler `shop/web`, whose target has pods, and `others` without pods.
    pub(crate) async fn new(others: usize) -> Self {
        Self::with_options(others, Options::default()).await
    }

    pub(crate) async fn with_options(others: usize, options: Options) -> Self {
        let metrics = Arc::new(SettableMetrics::new(54, 40));
        let faults = Arc::new(Faults::new(1));
        let testbed = Testbed::new(Config {
            metrics: Some(metrics.clone()),
            interceptor: Some(faults.clone()),
            ..Config::default()
        });
        for name in NAMESPACES {
            testbed.apply_all([
                json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }),
            ]);
        }
        testbed.apply_all([objects::running_deployment("web", 5)]);
        testbed.apply_all((0..5).map(|index| objects::pod("web", index)));
        let mut failed = objects::pod("web", 4);
        failed["status"]["phase"] = json!("Failed");
        let metrics_of_web = [objects::cpu_metric(60), objects::external_metric("waiting", "30")];
        let mut web = objects::hpa("web", 2..=10, metrics_of_web);
        web["status"] = status(STATE_CONDITIONS[0], 5, 54);
        testbed.apply_all([failed, web]);
        testbed.apply_all([rescale_event(&testbed)]);
        testbed.apply_all((0..others).map(autoscaler_without_pods));
        let clients = Clients::from_service(testbed.service(), &ClientLimits::default());
        let options = Options { title: "production-eu".to_owned(), ..options };
        let dashboard = Dashboard::start(&clients, options).await.expect("a port");
        Self { testbed, url: dashboard.url(), metrics, faults, _dashboard: dashboard }
    }

    /// The address of the page without the token.
    pub(crate) fn origin(&self) -> &str {
        self.url.split("/?").next().expect("an origin")
    }

    /// Adds autoscalers whose pages differ most from that of `web`: `failing`, `paused` and `new`.
    pub(crate) fn add_unusual_autoscalers(&self) {
        let lost = json!({ "type": "AbleToScale", "status": "False", "reason": "FailedGetScale",
            "message": "the HPA controller was unable to get the target's current scale: \
                deployments.apps \"failing\" not found" });
        let mut failing = objects::hpa("failing", 2..=10, [objects::cpu_metric(60)]);
        failing["status"] =
            json!({ "currentReplicas": 0, "desiredReplicas": 0, "conditions": [lost] });
        let mut paused = objects::hpa("paused", 2..=10, [objects::cpu_metric(30)]);
        paused["metadata"]["annotations"] = json!({ "autoscaling.hpa-rs.dev/pause": "true" });
        paused["status"] = status(["Paused", "True", "PausedByAnnotation"], 3, 54);
        let new = objects::hpa("new", 2..=10, [objects::cpu_metric(60)]);
        for name in ["paused", "new"] {
            self.testbed.apply_all([objects::running_deployment(name, 3)]);
            self.testbed.apply_all((0..3).map(|index| objects::pod(name, index)));
        }
        self.testbed.apply_all([failing, paused, new]);
    }

    /// Adds an event about `web` whose type and reason are words of this length, with control and
    /// format characters.
    pub(crate) fn add_event_with_long_words(&self, length: usize) {
        let word = "\u{1b}\u{202e}".to_owned() + &"x".repeat(length);
        let mut event = rescale_event(&self.testbed);
        event["metadata"]["name"] = json!("web.2");
        (event["type"], event["reason"]) = (json!(word), json!(word));
        event["message"] = json!("short");
        self.testbed.apply_all([event]);
    }

    /// Makes the API server drop each connection without an answer.
    pub(crate) fn stop_answering(&self) {
        self.faults.add(Fault::on(Match::any()).effect(Effect::Disconnect { applied: false }));
    }

    /// Makes the API server refuse reads of a resource.
    pub(crate) fn forbid(&self, resource: &str) {
        let effect = Effect::status(403, "Forbidden", "you may not");
        self.faults.add(Fault::on(Match::any().resource(resource)).effect(effect));
    }

    pub(crate) fn answer_again(&self) {
        self.faults.clear();
    }
}

pub(crate) fn autoscaler_without_pods(index: usize) -> Value {
    let name = format!("{}-{index}", TEAMS[index % TEAMS.len()]);
    let mut hpa = objects::hpa(&name, 2..=20, [objects::cpu_metric(60)]);
    hpa["metadata"]["namespace"] = json!(NAMESPACES[index % NAMESPACES.len()]);
    let state = STATE_CONDITIONS[if index % 7 < 3 { 0 } else { index % STATE_CONDITIONS.len() }];
    let used = 20 + i64::try_from(index % 60).expect("small");
    hpa["status"] = status(state, 2 + i64::try_from(index % 12).expect("small"), used);
    hpa
}

fn status(state: [&str; 3], replicas: i64, used: i64) -> Value {
    let mut conditions = vec![
        json!({ "type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale",
            "message": "recommended size matches current size" }),
        json!({ "type": "ScalingActive", "status": "True", "reason": "ValidMetricFound",
            "message": "the HPA was able to successfully calculate a replica count" }),
    ];
    let [kind, holds, reason] = state;
    conditions.retain(|condition| condition["type"] != kind);
    let message = match reason {
        "FailedGetResourceMetric" => {
            "the HPA was unable to compute the replica count: failed to get cpu utilization: \
             unable to get metrics for resource cpu: no metrics returned from resource metrics API"
        }
        _ => "the desired count is within the acceptable range",
    };
    let condition = json!({ "type": kind, "status": holds, "reason": reason, "message": message });
    conditions.push(condition);
    let current = json!({ "averageUtilization": used, "averageValue": format!("{used}m") });
    json!({
        "currentReplicas": replicas, "desiredReplicas": replicas, "conditions": conditions,
        "lastScaleTime": "2026-01-01T00:00:00Z",
        "currentMetrics": [
            { "type": "Resource", "resource": { "name": "cpu", "current": current } } ],
    })
}

fn rescale_event(testbed: &Testbed) -> Value {
    let web = testbed.hpa("web").expect("an autoscaler");
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": "web.1", "namespace": NAMESPACE },
        "involvedObject": { "kind": "HorizontalPodAutoscaler", "name": "web",
            "namespace": NAMESPACE, "apiVersion": "autoscaling/v2",
            "uid": web["metadata"]["uid"] },
        "type": "Normal", "reason": "SuccessfulRescale",
        "message": "New size: 5; reason: cpu resource utilization (percentage of request) above \
            target",
        "count": 2, "lastTimestamp": "2026-01-01T00:00:00Z",
    })
}
