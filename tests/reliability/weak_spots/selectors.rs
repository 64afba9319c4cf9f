//! D2: selectors of targets that no longer have pods.

use hpa_test_harness::{TestbedExt, objects};
use hpa_testbed::{Effect, Match};
use serde_json::{Value, json};

use super::{cluster, on, periods};
use crate::{
    NAMESPACE,
    cluster::{Cluster, hpa},
};

/// A second target, whose pods the selector of web matches too, with an autoscaler.
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
    let mut of_next = hpa("web");
    of_next["metadata"]["name"] = json!("next");
    of_next["spec"]["scaleTargetRef"]["name"] = json!("next");
    cluster.apply(of_next);
}

/// Why the autoscaler of the second target does or does not work.
fn why(cluster: &Cluster) -> String {
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
    assert_eq!(why(&cluster), "AmbiguousSelector");
    (cluster, faults)
}

async fn is_free(cluster: Cluster) {
    periods(&cluster, 2).await;
    assert_eq!(why(&cluster), "ValidMetricFound");
    cluster.shut_down().await;
}

fn retarget(object: &mut Value) {
    object["spec"]["scaleTargetRef"]["name"] = json!("other");
}

#[tokio::test(start_paused = true)]
async fn d2_vanished_target() {
    let (cluster, _faults) = ambiguous().await;
    cluster.delete("apps/v1", "Deployment", "web");
    is_free(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn d2_target_at_zero() {
    let (cluster, _faults) = ambiguous().await;
    cluster.scale("web", 0);
    is_free(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn d2_other_target_that_is_not_there() {
    let (cluster, _faults) = ambiguous().await;
    cluster.edit(cluster.testbed.hpa("web"), retarget);
    is_free(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn d2_other_target_that_cannot_be_read() {
    let (cluster, faults) = ambiguous().await;
    faults.add(on(Match::verb("get").subresource("scale").name("other"), Effect::InternalError));
    cluster.edit(cluster.testbed.hpa("web"), retarget);
    is_free(cluster).await;
}

/// The target is there and has its pods; that it cannot be read for a while does not make the selector any clearer.
#[tokio::test(start_paused = true)]
async fn d2_target_that_cannot_be_read_for_a_while() {
    let (cluster, faults) = ambiguous().await;
    faults.add(on(Match::verb("get").subresource("scale").name("web"), Effect::InternalError));
    periods(&cluster, 3).await;
    assert_eq!(why(&cluster), "AmbiguousSelector");
    cluster.shut_down().await;
}
