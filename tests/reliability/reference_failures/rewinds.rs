//! etcd is restored without a revision bump: resource versions are reused, and a watch that resumes
//! at a version from before the restore misses changes.

use std::time::Duration;

use hpa_testbed::{Faults, Restart, Snapshot};

use super::{cached_autoscalers, finish, running_cluster, sleep_periods};
use crate::{
    PERIOD,
    cluster::{Cluster, Shape},
    targets::Id,
};

const DOWN_FOR: Duration = Duration::from_secs(2);

/// Takes a snapshot, then changes cached objects of each kind: `web` grows from 4 to 7 pods, and
/// the autoscaler of `api` is deleted.
async fn change_after_snapshot(cluster: &Cluster) -> Snapshot {
    cluster.set_all_loads(4);
    for name in ["web", "api", "jobs"] {
        cluster.wait_for_replicas(name, 4).await;
    }
    sleep_periods(cluster, 6).await;
    let saved = cluster.testbed.snapshot();
    sleep_periods(cluster, 1).await;
    cluster.delete("autoscaling/v2", "HorizontalPodAutoscaler", "api");
    cluster.loads.set("web", 7);
    cluster.wait_for_replicas("web", 7).await;
    sleep_periods(cluster, 2).await;
    saved
}

fn rewind(cluster: &Cluster, saved: Snapshot) {
    let before = cluster.testbed.resource_version();
    cluster.restart(Restart::Rewound(saved), DOWN_FOR);
    assert!(cluster.testbed.resource_version() + 10 < before);
    assert_eq!(cluster.all_replicas(), [4; 3]);
}

/// Checks that the caches follow the restored state: `web` needs 7 pods again, and the autoscaler
/// of `api` is reconciled.
async fn assert_follows_restored_state(cluster: &Cluster) {
    let since = cluster.clock.age() + DOWN_FOR;
    cluster.sleep(DOWN_FOR + 2 * PERIOD).await;
    assert_eq!(cluster.all_replicas(), [7, 4, 4]);
    cluster.loads.set("api", 6);
    sleep_periods(cluster, 2).await;
    assert_eq!(cluster.all_replicas(), [7, 6, 4]);
    let id = Id::in_shop("api");
    let reconciles = cluster.journal.entries().reconciles;
    let first = reconciles.iter().find(|one| one.autoscaler == id && one.started >= since);
    let delay = first.expect("a reconcile").started.saturating_sub(since);
    assert!(delay <= 2 * PERIOD, "the restored autoscaler is first reconciled after {delay:?}");
}

#[tokio::test(start_paused = true)]
async fn caches_follow_a_rewound_api_server() {
    let (cluster, _) = running_cluster().await;
    let saved = change_after_snapshot(&cluster).await;
    rewind(&cluster, saved);
    assert_follows_restored_state(&cluster).await;
    finish(cluster).await;
}

/// Nothing is reconciled: only the watches can detect the rewind.
#[tokio::test(start_paused = true)]
async fn restored_autoscalers_are_reconciled_if_none_was_left() {
    let (cluster, _) = running_cluster().await;
    let saved = change_after_snapshot(&cluster).await;
    for name in ["web", "jobs"] {
        cluster.delete("autoscaling/v2", "HorizontalPodAutoscaler", name);
    }
    sleep_periods(&cluster, 1).await;
    rewind(&cluster, saved);
    assert_follows_restored_state(&cluster).await;
    finish(cluster).await;
}

/// No watch detects the rewind. A status write does: the restored status of `web` is older than the
/// one that the controller wrote last.
#[tokio::test(start_paused = true)]
async fn rewind_is_detected_by_a_status_if_resource_versions_are_in_use_again() {
    let (cluster, _) = running_cluster().await;
    let saved = change_after_snapshot(&cluster).await;
    let before = cluster.testbed.resource_version();
    rewind(&cluster, saved);
    cluster.write_elsewhere_until(before + 1);
    assert_follows_restored_state(&cluster).await;
    finish(cluster).await;
}

/// A standby's caches must be current when it becomes the leader. The standby starts last, so the
/// metrics are those of the standby.
#[tokio::test(start_paused = true)]
async fn standby_detects_a_rewind_by_the_lease() {
    let shape = Shape { has_leader_election: true, ..Shape::default() };
    let mut cluster = Cluster::with_shape(&Faults::new(1), shape);
    cluster.wait_until_age(Duration::from_secs(61)).await;
    let saved = change_after_snapshot(&cluster).await;
    let before = cluster.testbed.resource_version();
    assert_eq!(cached_autoscalers(&cluster), 2);
    rewind(&cluster, saved);
    cluster.write_elsewhere_until(before + 1);
    // The leader ends before it writes anything.
    cluster.kill_controller().await;
    // Until the standby has polled the lease twice. The first poll may fail.
    cluster.sleep(DOWN_FOR + Duration::from_secs(5)).await;
    assert_eq!(cached_autoscalers(&cluster), 3);
    // Until the lease expires, and a period for the first reconciles.
    cluster.sleep(Duration::from_secs(8) + PERIOD).await;
    assert_follows_restored_state(&cluster).await;
    finish(cluster).await;
}
