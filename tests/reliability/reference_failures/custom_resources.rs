//! Definitions of custom resources that change while the controller runs.

use std::time::Duration;

use hpa_testbed::Match;
use hpa_tests::harness::{TestbedExt, objects};
use serde_json::{Value, json};

use super::{count_requests, finish, running_cluster, sleep_periods};
use crate::{NAMESPACE, PERIOD, cluster::Cluster};

const API_VERSION: &str = "example.com/v1";

/// The definition of widgets. `replicas` and `selector` are paths in the object.
fn definition(replicas: &str, selector: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {
                "kind": "Widget", "listKind": "WidgetList", "plural": "widgets",
                "singular": "widget",
            },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
                "subresources": { "scale": {
                    "specReplicasPath": replicas,
                    "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": selector,
                } },
            }],
        },
    })
}

/// A cluster with an autoscaled widget of two pods, whose scale is cached.
async fn cluster_with_widget() -> (Cluster, hpa_testbed::Faults) {
    let (cluster, faults) = running_cluster().await;
    cluster.apply(definition(".spec.replicas", ".status.selector"));
    cluster.apply(json!({
        "apiVersion": API_VERSION, "kind": "Widget",
        "metadata": { "name": "widget", "namespace": NAMESPACE },
        "spec": { "replicas": 2 },
        "status": { "replicas": 2, "selector": "app=widget" },
    }));
    for index in 0..2 {
        cluster.apply(objects::pod("widget", index));
    }
    cluster.loads.set("widget", 2);
    let mut hpa = objects::hpa("widget", 1..=8, [objects::cpu_metric(50)]);
    hpa["spec"]["scaleTargetRef"] =
        json!({ "apiVersion": API_VERSION, "kind": "Widget", "name": "widget" });
    cluster.apply(hpa);
    sleep_periods(&cluster, 4).await;
    assert_eq!(scaling_active(&cluster), "True");
    let reads = count_requests(&faults, reads_of_scale());
    sleep_periods(&cluster, 4).await;
    assert_eq!(faults.hits(reads), 0, "the scale is cached");
    faults.remove(reads);
    (cluster, faults)
}

fn reads_of_scale() -> Match {
    Match::verb("get").resource("widgets").subresource("scale")
}

/// The status of the condition `ScalingActive` of the widget.
fn scaling_active(cluster: &Cluster) -> String {
    let [status, ..] = cluster.testbed.condition("widget", "ScalingActive").expect("a condition");
    status
}

fn edit_widget(cluster: &Cluster, change: impl FnOnce(&mut Value)) {
    cluster.edit(cluster.testbed.get(API_VERSION, "Widget", NAMESPACE, "widget"), change);
}

/// At the old path of the selector, there is another selector that matches no pod.
#[tokio::test(start_paused = true)]
async fn changed_selector_path_is_detected_when_the_api_server_returns_another_scale() {
    let (cluster, faults) = cluster_with_widget().await;
    cluster.apply(definition(".spec.replicas", ".status.podSelector"));
    edit_widget(&cluster, |widget| {
        widget["status"]["podSelector"] = json!("app=widget");
        widget["status"]["selector"] = json!("app=none");
    });
    sleep_periods(&cluster, 3).await;
    let reads = count_requests(&faults, reads_of_scale());
    for _ in 0..20 {
        assert_eq!(scaling_active(&cluster), "True", "at {:?}", cluster.clock.age());
        cluster.sleep(PERIOD).await;
    }
    assert_eq!(faults.hits(reads), 0, "the scale is cached again");
    finish(cluster).await;
}

/// As no reconcile reads the scale, no response contradicts the cache.
#[tokio::test(start_paused = true)]
async fn changed_replicas_path_is_detected_within_ten_minutes() {
    let (cluster, _faults) = cluster_with_widget().await;
    edit_widget(&cluster, |widget| widget["spec"]["size"] = json!(3));
    cluster.apply(definition(".spec.size", ".status.selector"));
    cluster.sleep(Duration::from_mins(10) + 2 * PERIOD).await;
    let status = cluster.testbed.hpa("widget").expect("an autoscaler")["status"].clone();
    assert_eq!(status["currentReplicas"], json!(3), "{status}");
    finish(cluster).await;
}

/// The first write after the change must not be decided on the replicas at the old path.
#[tokio::test(start_paused = true)]
async fn nothing_is_scaled_by_the_replicas_at_the_old_path() {
    let (cluster, _faults) = cluster_with_widget().await;
    edit_widget(&cluster, |widget| widget["spec"]["size"] = json!(3));
    cluster.apply(definition(".spec.size", ".status.selector"));
    let since = cluster.clock.age();
    cluster.loads.set("widget", 6);
    sleep_periods(&cluster, 2).await;
    let scaled: Vec<_> = cluster
        .journal
        .reconciles()
        .into_iter()
        .filter(|one| one.autoscaler.name == "widget" && one.started >= since)
        .filter_map(|one| Some((one.current, one.scaled_to?)))
        .collect();
    assert_eq!(scaled, [(3, 6)]);
    let widget = cluster.testbed.get(API_VERSION, "Widget", NAMESPACE, "widget");
    let widget = widget.expect("a widget");
    assert_eq!([&widget["spec"]["size"], &widget["spec"]["replicas"]], [&json!(6), &json!(2)]);
    finish(cluster).await;
}
