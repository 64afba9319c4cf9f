//! Ambiguous selectors become unambiguous when a target has no pods.

use hpa_testbed::{Effect, Match};
use hpa_tests::harness::{TestbedExt, objects};
use serde_json::{Value, json};

use super::{cluster, on, periods};
use crate::{
    NAMESPACE,
    cluster::{Cluster, hpa},
};

/// Adds a target and its autoscaler. The selector of `web` also matches its pods.
fn overlap(cluster: &Cluster) {
    let labels = json!({ "app": "web" });
    let mut next = objects::deployment("next", 2);
    next["spec"]["selector"]["matchLabels"] = labels.clone();
    next["spec"]["template"]["metadata"]["labels"] = labels.clone();
    cluster.apply(next);
    for index in 0..2 {
        let name = format!("next-{index}");
        let mut pod = cluster.testbed.get("v1", "Pod", NAMESPACE, "web-0").expect("a pod");
        pod["metadata"] = json!({ "name": name, "namespace": NAMESPACE, "labels": labels });
        cluster.apply(pod);
    }
    cluster.loads.set("next", 2);
    let mut hpa_of_next = hpa("web");
    hpa_of_next["metadata"]["name"] = json!("next");
    hpa_of_next["spec"]["scaleTargetRef"]["name"] = json!("next");
    cluster.apply(hpa_of_next);
}

/// Reason of `ScalingActive` of the second autoscaler.
fn reason(cluster: &Cluster) -> String {
    cluster
        .testbed
        .condition("next", "ScalingActive")
        .map(|[_, reason, _]| reason)
        .unwrap_or_default()
}

async fn ambiguous() -> (Cluster, hpa_testbed::Faults) {
    let (cluster, faults) = cluster().await;
    overlap(&cluster);
    periods(&cluster, 2).await;
    assert_eq!(reason(&cluster), "AmbiguousSelector");
    (cluster, faults)
}

async fn becomes_unambiguous(cluster: Cluster) {
    periods(&cluster, 2).await;
    assert_eq!(reason(&cluster), "ValidMetricFound");
    cluster.shut_down().await;
}

fn retarget(object: &mut Value) {
    object["spec"]["scaleTargetRef"]["name"] = json!("other");
}

#[tokio::test(start_paused = true)]
async fn deleted_target_resolves_the_ambiguity() {
    let (cluster, _faults) = ambiguous().await;
    cluster.delete("apps/v1", "Deployment", "web");
    becomes_unambiguous(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn target_at_zero_resolves_the_ambiguity() {
    let (cluster, _faults) = ambiguous().await;
    cluster.scale("web", 0);
    becomes_unambiguous(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn change_to_a_missing_target_resolves_the_ambiguity() {
    let (cluster, _faults) = ambiguous().await;
    cluster.edit(cluster.testbed.hpa("web"), retarget);
    becomes_unambiguous(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn change_to_an_unreadable_target_resolves_the_ambiguity() {
    let (cluster, faults) = ambiguous().await;
    faults.add(on(Match::verb("get").subresource("scale").name("other"), Effect::InternalError));
    cluster.edit(cluster.testbed.hpa("web"), retarget);
    becomes_unambiguous(cluster).await;
}

/// The target still has its pods.
#[tokio::test(start_paused = true)]
async fn unreadable_scale_does_not_resolve_the_ambiguity() {
    let (cluster, faults) = ambiguous().await;
    faults.add(on(Match::verb("get").subresource("scale").name("web"), Effect::InternalError));
    periods(&cluster, 3).await;
    assert_eq!(reason(&cluster), "AmbiguousSelector");
    cluster.shut_down().await;
}
