//! Objects that change during a reconcile.

use std::time::Duration;

use hpa_testbed::{Effect, Faults, Match};
use hpa_tests::harness::TestbedExt;
use serde_json::json;

use super::{finish, on, running_cluster, scalings_by_controller, sleep_periods};
use crate::cluster::{Cluster, hpa};

/// The controller scales `web` to four. Before its write arrives, the user scales to `replicas`.
async fn conflict_with(replicas: i64) -> Cluster {
    let (cluster, faults) = running_cluster().await;
    start_delayed_write(&cluster, &faults).await;
    cluster.scale("web", replicas);
    cluster.sleep(Duration::from_secs(5)).await;
    faults.clear();
    cluster
}

/// Raises the load of `web`, and waits for the scale write, which takes three seconds to arrive.
async fn start_delayed_write(cluster: &Cluster, faults: &Faults) {
    let writes = Match::verb("update").subresource("scale").name("web");
    let slow = faults.add(on(writes, Effect::Slow { by: Duration::from_secs(3) }));
    cluster.loads.set("web", 4);
    faults.wait_for_hits(slow, 1).await;
    assert_eq!(cluster.testbed.replicas("web"), 2);
}

#[tokio::test(start_paused = true)]
async fn conflict_with_changed_replicas_is_decided_again() {
    let cluster = conflict_with(3).await;
    sleep_periods(&cluster, 2).await;
    assert_eq!(scalings_by_controller(&cluster, "web", Duration::from_secs(60)), [(3, 4)]);
    let decided_on = cluster.journal.reconciles().into_iter().find(|one| one.scaled_to == Some(4));
    assert_eq!(decided_on.map(|one| one.current), Some(3));
    finish(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn conflict_with_the_desired_replicas_writes_nothing() {
    let cluster = conflict_with(4).await;
    sleep_periods(&cluster, 2).await;
    assert_eq!(scalings_by_controller(&cluster, "web", Duration::from_secs(60)), []);
    assert_eq!(cluster.testbed.replicas("web"), 4);
    finish(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn conflict_with_a_pause_keeps_the_pause() {
    let cluster = conflict_with(0).await;
    sleep_periods(&cluster, 10).await;
    assert_eq!(scalings_by_controller(&cluster, "web", Duration::from_secs(60)), []);
    assert_eq!(cluster.testbed.replicas("web"), 0);
    finish(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn conflict_with_other_changes_is_retried() {
    let (cluster, faults) = running_cluster().await;
    start_delayed_write(&cluster, &faults).await;
    cluster.edit(cluster.testbed.deployment("web"), |object| {
        object["metadata"]["annotations"] = json!({ "a": "b" });
    });
    cluster.sleep(Duration::from_secs(7)).await;
    assert_eq!(scalings_by_controller(&cluster, "web", Duration::from_secs(60)), [(2, 4)]);
    finish(cluster).await;
}

/// Recreates an autoscaler with a change.
fn recreate(cluster: &Cluster, name: &str, change: impl FnOnce(&mut serde_json::Value)) {
    cluster.delete("autoscaling/v2", "HorizontalPodAutoscaler", name);
    let mut object = hpa(name);
    change(&mut object);
    cluster.apply(object);
}

/// First, the watch delivers the deletion and the creation. Then, in another cluster, a relist
/// finds only the new autoscaler.
#[tokio::test(start_paused = true)]
async fn recreated_autoscaler_inherits_no_recommendations() {
    let (cluster, _faults) = running_cluster().await;
    assert_inherits_no_recommendations(cluster, |_| {}).await;
    let (cluster, faults) = running_cluster().await;
    let watches = Match::verb("watch").resource("horizontalpodautoscalers");
    faults.add(on(watches, Effect::SilentWatch { after: 0 }));
    cluster.testbed.end_watches();
    assert_inherits_no_recommendations(cluster, move |cluster| {
        cluster.testbed.compact();
        faults.clear();
    })
    .await;
}

/// Recreates the autoscaler within its stabilization window. `reveal` makes the controller detect
/// the new autoscaler.
async fn assert_inherits_no_recommendations(cluster: Cluster, reveal: impl Fn(&Cluster)) {
    cluster.loads.set("web", 6);
    sleep_periods(&cluster, 3).await;
    assert_eq!(cluster.testbed.replicas("web"), 6);
    cluster.loads.set("web", 2);
    sleep_periods(&cluster, 1).await;
    // The window still contains 6.
    assert_eq!(cluster.testbed.replicas("web"), 6);
    let since = cluster.clock.age();
    recreate(&cluster, "web", |_| {});
    cluster.scale("web", 3);
    reveal(&cluster);
    sleep_periods(&cluster, 2).await;
    assert_eq!(scalings_by_controller(&cluster, "web", since), []);
    finish(cluster).await;
}

/// The policy allows the removal of one pod in ten minutes. It must not count scalings of the
/// deleted autoscaler.
#[tokio::test(start_paused = true)]
async fn recreated_autoscaler_inherits_no_scale_events() {
    let (cluster, _faults) = running_cluster().await;
    let slow = |object: &mut serde_json::Value| {
        let policy = json!({ "type": "Pods", "value": 1, "periodSeconds": 600 });
        object["spec"]["behavior"] =
            json!({ "scaleDown": { "stabilizationWindowSeconds": 0, "policies": [policy] } });
    };
    cluster.loads.set("web", 6);
    sleep_periods(&cluster, 3).await;
    recreate(&cluster, "web", slow);
    cluster.loads.set("web", 2);
    sleep_periods(&cluster, 5).await;
    assert_eq!(cluster.testbed.replicas("web"), 5);
    recreate(&cluster, "web", slow);
    sleep_periods(&cluster, 5).await;
    assert_eq!(cluster.testbed.replicas("web"), 4);
    finish(cluster).await;
}
