//! Scales that are known from a watch, where the watch tells nothing of what has become of them.

use std::time::Duration;

use hpa_test_harness::TestbedExt;
use hpa_testbed::{Effect, Faults, Match};

use super::{at_zero, cluster, ends_well, on, periods};
use crate::{
    cluster::Cluster,
    journal::{Actor, Scaling},
};

/// From now on the watch of the targets is silent, as one is whose connection has died.
async fn blind(cluster: &Cluster, faults: &Faults) {
    let watches = Match::verb("watch").resource("deployments");
    let silence = faults.add(on(watches, Effect::SilentWatch { after: 0 }));
    cluster.testbed.drop_watches();
    faults.wait_for_hits(silence, 1).await;
    periods(cluster, 1).await;
}

fn by_controller(cluster: &Cluster, target: &str) -> Vec<(i64, i64)> {
    let is_it = |scaling: &Scaling| scaling.target == target && scaling.by == Actor::Controller;
    cluster
        .journal
        .scalings()
        .into_iter()
        .filter(is_it)
        .map(|scaling| (scaling.from, scaling.to))
        .collect()
}

/// What is written is decided on the replicas that there are, not on those that are known.
#[tokio::test(start_paused = true)]
async fn replicas_changed_unseen_are_decided_on() {
    let (cluster, faults) = cluster().await;
    blind(&cluster, &faults).await;
    cluster.scale("web", 3);
    cluster.loads.set("web", 5);
    periods(&cluster, 2).await;
    assert_eq!(by_controller(&cluster, "web"), [(3, 5)]);
    faults.clear();
    ends_well(cluster).await;
}

/// What was written by ourselves is known although no watch tells of it.
#[tokio::test(start_paused = true)]
async fn own_writes_are_known_unseen() {
    let (cluster, faults) = cluster().await;
    blind(&cluster, &faults).await;
    let conflicts = cluster.telemetry.render().matches("code=\"409\"").count();
    for load in [4, 6] {
        cluster.loads.set("web", load);
        cluster.scaled_to("web", load).await;
    }
    assert_eq!(by_controller(&cluster, "web"), [(2, 4), (4, 6)]);
    assert_eq!(cluster.telemetry.render().matches("code=\"409\"").count(), conflicts);
    faults.clear();
    ends_well(cluster).await;
}

/// A target that went unseen is told to be gone once something is to be written.
#[tokio::test(start_paused = true)]
async fn target_that_went_unseen_is_told_as_such() {
    let (cluster, faults) = cluster().await;
    blind(&cluster, &faults).await;
    let web = cluster.testbed.deployment("web").expect("a target");
    cluster.delete("apps/v1", "Deployment", "web");
    cluster.loads.set("web", 5);
    periods(&cluster, 2).await;
    let able = cluster.testbed.condition("web", "AbleToScale").expect("a condition");
    assert_eq!(&able[..2], ["False", "FailedGetScale"], "{able:?}");
    cluster.apply(web);
    faults.clear();
    ends_well(cluster).await;
}

/// Whoever brought a target to zero is asked of the API server, never of a watch.
#[tokio::test(start_paused = true)]
async fn zero_is_never_taken_from_a_watch() {
    let (cluster, faults) = at_zero().await;
    blind(&cluster, &faults).await;
    cluster.loads.set("jobs", 3);
    cluster.scaled_to("jobs", 3).await;
    cluster.loads.set("jobs", 0);
    cluster.scaled_to("jobs", 0).await;
    let mark = cluster.testbed.condition("jobs", "ScaledToZero").expect("a condition");
    assert_eq!(mark[0], "True", "{mark:?}");
    cluster.sleep(Duration::from_mins(1)).await;
    cluster.loads.set("jobs", 2);
    cluster.scaled_to("jobs", 2).await;
    faults.clear();
    ends_well(cluster).await;
}
