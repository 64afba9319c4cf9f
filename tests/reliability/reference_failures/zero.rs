//! Scaling to zero, and its marker: the condition `ScaledToZero`, which records that the
//! autoscaler, not a user, scaled to zero.

use std::time::Duration;

use hpa_testbed::{Effect, Match};
use hpa_tests::harness::{TestbedExt, objects};
use serde_json::json;

use super::{cluster_at_zero, finish, on, running_cluster, sleep_periods};
use crate::{WINDOW, cluster::Cluster};

fn status_writes_of_jobs() -> Match {
    Match::verb("patch").resource("horizontalpodautoscalers").name("jobs")
}

fn is_marked(cluster: &Cluster) -> bool {
    cluster.testbed.condition("jobs", "ScaledToZero").is_some_and(|[status, ..]| status == "True")
}

fn refusal() -> Effect {
    Effect::status(422, "Invalid", "must not be zero")
}

async fn assert_scales_up_from_zero(cluster: Cluster) {
    cluster.loads.set("jobs", 3);
    sleep_periods(&cluster, 2).await;
    assert_eq!(cluster.testbed.replicas("jobs"), 3);
    finish(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn controller_killed_after_scale_to_zero_scales_up_again() {
    let (mut cluster, faults) = running_cluster().await;
    // The status write after the scale write never arrives.
    faults.add(on(status_writes_of_jobs(), Effect::Slow { by: Duration::from_secs(5) }));
    cluster.loads.set("jobs", 0);
    cluster.wait_for_replicas("jobs", 0).await;
    cluster.kill_controller().await;
    let stored =
        cluster.testbed.hpa("jobs").map(|object| object["status"]["desiredReplicas"].clone());
    assert_eq!(stored, Some(json!(2)), "the status is already written");
    faults.clear();
    cluster.start_controller();
    assert_scales_up_from_zero(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn lost_response_to_scale_to_zero_is_survived() {
    let (cluster, faults) = running_cluster().await;
    let lost = faults.add(on(Match::verb("update").subresource("scale"), Effect::LostResponse));
    cluster.loads.set("jobs", 0);
    cluster.wait_for_replicas("jobs", 0).await;
    sleep_periods(&cluster, 3).await;
    assert_eq!(faults.hits(lost), 1);
    faults.clear();
    assert_scales_up_from_zero(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn refused_scale_to_zero_leaves_no_marker() {
    let (cluster, faults) = running_cluster().await;
    let refused = faults.add(on(Match::verb("update").subresource("scale"), refusal()));
    cluster.loads.set("jobs", 0);
    faults.wait_for_hits(refused, 1).await;
    cluster.sleep(Duration::from_secs(1)).await;
    assert!(!is_marked(&cluster));
    cluster.scale("jobs", 0);
    faults.clear();
    // The user set the zero, so the autoscaler is paused.
    cluster.loads.set("jobs", 3);
    sleep_periods(&cluster, 3).await;
    assert_eq!(cluster.testbed.replicas("jobs"), 0);
    finish(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn target_is_not_scaled_to_zero_without_the_marker() {
    let (cluster, faults) = running_cluster().await;
    let refused = faults.add(on(status_writes_of_jobs(), Effect::Conflict));
    cluster.loads.set("jobs", 0);
    cluster.sleep(5 * WINDOW).await;
    assert_eq!(cluster.testbed.replicas("jobs"), 2);
    assert!(faults.hits(refused) > 5);
    faults.clear();
    sleep_periods(&cluster, 2).await;
    assert_eq!(cluster.testbed.replicas("jobs"), 0);
    assert!(is_marked(&cluster));
    assert_scales_up_from_zero(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn marker_is_set_again_after_an_unseen_removal() {
    let (cluster, faults) = running_cluster().await;
    let autoscalers = Match::verb("watch").resource("horizontalpodautoscalers");
    faults.add(on(autoscalers, Effect::SilentWatch { after: 0 }));
    cluster.testbed.end_watches();
    cluster.sleep(Duration::from_secs(2)).await;
    let scales = || Match::verb("update").subresource("scale");
    let slow = faults.add(on(scales(), Effect::Slow { by: Duration::from_secs(5) }));
    let refused = faults.add(on(scales(), refusal()));
    cluster.loads.set("jobs", 0);
    faults.wait_for_hits(slow, 1).await;
    assert!(is_marked(&cluster));
    let lost = faults.add(on(status_writes_of_jobs(), Effect::LostResponse));
    cluster.sleep(Duration::from_secs(6)).await;
    assert_eq!(
        (faults.hits(lost), is_marked(&cluster), cluster.testbed.replicas("jobs")),
        (1, false, 2)
    );
    for fault in [slow, refused, lost] {
        faults.remove(fault);
    }
    let unmarked = faults.add(on(status_writes_of_jobs(), Effect::Conflict));
    sleep_periods(&cluster, 2).await;
    assert_eq!((is_marked(&cluster), cluster.testbed.replicas("jobs")), (false, 2));
    faults.remove(unmarked);
    sleep_periods(&cluster, 2).await;
    assert_eq!((is_marked(&cluster), cluster.testbed.replicas("jobs")), (true, 0));
    assert_scales_up_from_zero(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn scaling_by_hand_clears_the_marker() {
    let (cluster, _faults) = cluster_at_zero().await;
    assert!(is_marked(&cluster));
    // The replicas match the load: the autoscaler doesn't scale.
    cluster.loads.set("jobs", 2);
    cluster.scale("jobs", 2);
    sleep_periods(&cluster, 1).await;
    assert!(!is_marked(&cluster));
    cluster.scale("jobs", 0);
    sleep_periods(&cluster, 10).await;
    assert_eq!(cluster.testbed.replicas("jobs"), 0, "a paused target was scaled");
    finish(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn raised_minimum_scales_up_from_zero_without_metrics() {
    let (cluster, faults) = cluster_at_zero().await;
    let external = Match::any().group("external.metrics.k8s.io");
    let failed = faults.add(on(external, Effect::ServiceUnavailable));
    sleep_periods(&cluster, 1).await;
    cluster.edit(cluster.testbed.hpa("jobs"), |object| object["spec"]["minReplicas"] = json!(2));
    sleep_periods(&cluster, 2).await;
    assert_eq!(cluster.testbed.replicas("jobs"), 2);
    assert!(faults.hits(failed) > 0);
    finish(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn raised_minimum_scales_up_from_zero_with_a_resource_metric_only() {
    let (cluster, _faults) = cluster_at_zero().await;
    cluster.edit(cluster.testbed.hpa("jobs"), |object| {
        object["spec"]["minReplicas"] = json!(1);
        object["spec"]["metrics"] = json!([objects::cpu_metric(50)]);
    });
    sleep_periods(&cluster, 2).await;
    assert_eq!(cluster.testbed.replicas("jobs"), 1);
    finish(cluster).await;
}
