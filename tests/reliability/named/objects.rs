//! Malformed objects, missing metrics, missing API groups.

use std::time::Duration;

use hpa_testbed::{Effect, Fault, Match};
use serde_json::{Value, json};

use super::scenario::{Scenario, on, trigger_on};
use crate::cluster::Cluster;

fn reads() -> Match {
    Match::verbs(["get", "list", "watch"])
}

fn malformed(pointer: &str, value: Value) -> Effect {
    Effect::ChangedField { object: String::new(), pointer: pointer.to_owned(), value }
}

#[tokio::test(start_paused = true)]
async fn malformed_autoscalers() {
    let autoscalers = reads().resource("horizontalpodautoscalers");
    Scenario::with([on(autoscalers, malformed("/spec/maxReplicas", json!("many")))])
        .incident(70, Cluster::expire_watches)
        .assert_survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn malformed_status_of_autoscalers() {
    let autoscalers = reads().resource("horizontalpodautoscalers");
    Scenario::with([on(autoscalers, malformed("/status/conditions", json!(7)))])
        .incident(70, Cluster::expire_watches)
        .assert_survives()
        .await;
}

/// One malformed autoscaler must not affect the others.
#[tokio::test(start_paused = true)]
async fn one_malformed_autoscaler() {
    let autoscalers = reads().resource("horizontalpodautoscalers");
    let effect = Effect::ChangedField {
        object: "api".into(),
        pointer: "/metadata/managedFields".into(),
        value: json!("yesterday"),
    };
    Scenario::with([on(autoscalers, effect)])
        .incident(70, Cluster::expire_watches)
        .assert_survives()
        .await;
}

/// Without metadata, autoscalers have no names.
#[tokio::test(start_paused = true)]
async fn autoscalers_without_metadata() {
    let autoscalers = reads().resource("horizontalpodautoscalers");
    Scenario::with([on(autoscalers, malformed("/metadata", Value::Null))])
        .incident(70, Cluster::expire_watches)
        .assert_survives()
        .await;
}

/// Malformed pods for only a minute, because relists for undecodable objects back off.
fn malformed_for_a_minute(pointer: &str, value: Value) -> Fault {
    let pods = trigger_on(reads().group("").resource("pods")).until(Duration::from_secs(120));
    pods.effect(malformed(pointer, value))
}

#[tokio::test(start_paused = true)]
async fn malformed_pods() {
    let cpu = "/spec/containers/0/resources/requests/cpu";
    Scenario::with([malformed_for_a_minute(cpu, json!("much"))])
        .incident(70, Cluster::expire_watches)
        .assert_survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn pods_without_names() {
    Scenario::with([malformed_for_a_minute("/metadata/name", Value::Null)])
        .incident(70, Cluster::expire_watches)
        .assert_survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn malformed_scales() {
    let scales = reads().subresource("scale");
    Scenario::with([on(scales, malformed("/spec/replicas", json!("two")))]).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn scales_without_selector() {
    let scales = reads().subresource("scale");
    Scenario::with([on(scales, malformed("/status/selector", Value::Null))])
        .assert_survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn malformed_metrics() {
    let faults = [
        on(reads().group("metrics.k8s.io"), malformed("/containers/0/usage/cpu", json!("warm"))),
        on(reads().group("custom.metrics.k8s.io"), malformed("/value", json!(""))),
        on(reads().group("external.metrics.k8s.io"), malformed("/value", json!([]))),
    ];
    Scenario::with(faults).assert_survives().await;
}

/// Without samples of some pods, recommendations are higher, and stay in the stabilization window.
#[tokio::test(start_paused = true)]
async fn metrics_of_some_pods_only() {
    Scenario::default()
        .incident(60, |cluster| cluster.loads.set_unmeasured(&["web-1", "web-3", "api-0", "api-2"]))
        .incident(240, |cluster| cluster.loads.set_unmeasured(&[]))
        .recovers_after_a_window()
        .assert_survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn metrics_of_no_pod() {
    let all: Vec<String> =
        (0..8).flat_map(|index| ["web", "api"].map(|target| format!("{target}-{index}"))).collect();
    Scenario::default()
        .incident(60, move |cluster| {
            cluster.loads.set_unmeasured(&all.iter().map(String::as_str).collect::<Vec<_>>());
        })
        .incident(240, |cluster| cluster.loads.set_unmeasured(&[]))
        .assert_survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn metrics_groups_missing() {
    let groups = ["metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"];
    let missing = |group: &str| on(Match::any(), Effect::MissingGroup { group: group.to_owned() });
    Scenario::with(groups.map(missing)).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn apps_group_missing() {
    Scenario::with([on(Match::any(), Effect::MissingGroup { group: "apps".into() })])
        .assert_survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn autoscaling_group_missing() {
    Scenario::with([on(Match::any(), Effect::MissingGroup { group: "autoscaling".into() })])
        .incident(70, Cluster::expire_watches)
        .assert_survives()
        .await;
}
