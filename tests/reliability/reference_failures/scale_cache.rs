//! The scale cache while its watch is silent.

use std::time::Duration;

use hpa_testbed::{Effect, Faults, Match};
use hpa_tests::harness::TestbedExt;

use super::{cluster_at_zero, finish, on, running_cluster, scalings_by_controller, sleep_periods};
use crate::cluster::Cluster;

/// Makes the watch of the targets silent, as if its connection had died.
async fn silence_watch(cluster: &Cluster, faults: &Faults) {
    let watches = Match::verb("watch").resource("deployments");
    let silent = faults.add(on(watches, Effect::SilentWatch { after: 0 }));
    cluster.testbed.end_watches();
    faults.wait_for_hits(silent, 1).await;
    sleep_periods(cluster, 1).await;
}

/// The counts of responses with status 409, as series of the controller's metrics.
fn conflicts(cluster: &Cluster) -> Vec<String> {
    let text = cluster.telemetry.render();
    text.lines().filter(|line| line.contains("code=\"409\"")).map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn decision_uses_current_replicas_instead_of_cached_ones() {
    let (cluster, faults) = running_cluster().await;
    silence_watch(&cluster, &faults).await;
    cluster.scale("web", 3);
    cluster.loads.set("web", 5);
    sleep_periods(&cluster, 2).await;
    assert_eq!(scalings_by_controller(&cluster, "web", Duration::ZERO), [(3, 5)]);
    faults.clear();
    finish(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn own_writes_update_the_cache() {
    let (cluster, faults) = running_cluster().await;
    silence_watch(&cluster, &faults).await;
    let before = conflicts(&cluster);
    for load in [4, 6] {
        cluster.loads.set("web", load);
        cluster.wait_for_replicas("web", load).await;
    }
    assert_eq!(scalings_by_controller(&cluster, "web", Duration::ZERO), [(2, 4), (4, 6)]);
    assert_eq!(conflicts(&cluster), before);
    faults.clear();
    finish(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn target_deleted_unseen_is_reported_when_it_should_scale() {
    let (cluster, faults) = running_cluster().await;
    silence_watch(&cluster, &faults).await;
    let web = cluster.testbed.deployment("web").expect("a target");
    cluster.delete("apps/v1", "Deployment", "web");
    cluster.loads.set("web", 5);
    sleep_periods(&cluster, 2).await;
    let able = cluster.testbed.condition("web", "AbleToScale").expect("a condition");
    assert_eq!(&able[..2], ["False", "FailedGetScale"], "{able:?}");
    cluster.apply(web);
    faults.clear();
    finish(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn zero_is_always_read_from_the_api_server() {
    let (cluster, faults) = cluster_at_zero().await;
    silence_watch(&cluster, &faults).await;
    cluster.loads.set("jobs", 3);
    cluster.wait_for_replicas("jobs", 3).await;
    cluster.loads.set("jobs", 0);
    cluster.wait_for_replicas("jobs", 0).await;
    let [status, ..] = cluster.testbed.condition("jobs", "ScaledToZero").expect("a condition");
    assert_eq!(status, "True");
    cluster.sleep(Duration::from_mins(1)).await;
    cluster.loads.set("jobs", 2);
    cluster.wait_for_replicas("jobs", 2).await;
    faults.clear();
    finish(cluster).await;
}
