//! An ambiguous selector becomes unambiguous when the other autoscaler's target has no pods.

use hpa_testbed::{Effect, Match};
use hpa_tests::harness::{TestbedExt, objects};
use serde_json::{Value, json};

use super::{on, running_cluster, sleep_periods};
use crate::{
    NAMESPACE,
    cluster::{Cluster, hpa},
};

/// Adds the target `next` and its autoscaler. `web` and `next` select the same pods.
fn add_overlapping_target(cluster: &Cluster) {
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

/// The reason of the condition `ScalingActive` of `next`.
fn reason(cluster: &Cluster) -> String {
    cluster
        .testbed
        .condition("next", "ScalingActive")
        .map(|[_, reason, _]| reason)
        .unwrap_or_default()
}

async fn ambiguous_cluster() -> (Cluster, hpa_testbed::Faults) {
    let (cluster, faults) = running_cluster().await;
    add_overlapping_target(&cluster);
    sleep_periods(&cluster, 2).await;
    assert_eq!(reason(&cluster), "AmbiguousSelector");
    (cluster, faults)
}

async fn assert_becomes_unambiguous(cluster: Cluster) {
    sleep_periods(&cluster, 2).await;
    assert_eq!(reason(&cluster), "ValidMetricFound");
    cluster.shut_down().await;
}

fn retarget(object: &mut Value) {
    object["spec"]["scaleTargetRef"]["name"] = json!("other");
}

#[tokio::test(start_paused = true)]
async fn deleted_target_resolves_the_ambiguity() {
    let (cluster, _faults) = ambiguous_cluster().await;
    cluster.delete("apps/v1", "Deployment", "web");
    assert_becomes_unambiguous(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn target_at_zero_resolves_the_ambiguity() {
    let (cluster, _faults) = ambiguous_cluster().await;
    cluster.scale("web", 0);
    assert_becomes_unambiguous(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn change_to_a_missing_target_resolves_the_ambiguity() {
    let (cluster, _faults) = ambiguous_cluster().await;
    cluster.edit(cluster.testbed.hpa("web"), retarget);
    assert_becomes_unambiguous(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn change_to_an_unreadable_target_resolves_the_ambiguity() {
    let (cluster, faults) = ambiguous_cluster().await;
    faults.add(on(Match::verb("get").subresource("scale").name("other"), Effect::InternalError));
    cluster.edit(cluster.testbed.hpa("web"), retarget);
    assert_becomes_unambiguous(cluster).await;
}

/// The target `web` still has pods.
#[tokio::test(start_paused = true)]
async fn unreadable_scale_does_not_resolve_the_ambiguity() {
    let (cluster, faults) = ambiguous_cluster().await;
    faults.add(on(Match::verb("get").subresource("scale").name("web"), Effect::InternalError));
    sleep_periods(&cluster, 3).await;
    assert_eq!(reason(&cluster), "AmbiguousSelector");
    cluster.shut_down().await;
}

/// As docs/settings.md says: a dry run counts, although it writes nothing.
#[tokio::test(start_paused = true)]
async fn dry_run_of_the_other_autoscaler_does_not_resolve_the_ambiguity() {
    let (cluster, _faults) = ambiguous_cluster().await;
    cluster.edit(cluster.testbed.hpa("web"), |hpa| {
        hpa["metadata"]["annotations"]["autoscaling.hpa-rs.dev/dry-run"] = json!("true");
    });
    sleep_periods(&cluster, 3).await;
    assert_eq!(reason(&cluster), "AmbiguousSelector");
    cluster.shut_down().await;
}
