//! Stored histories that are incomplete or invalid.

use std::sync::atomic::Ordering;

use hpa_controller::Clock;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::cluster::{Cluster, LEASE, SYNC, WINDOW, exported_value};

const UNSAVED: &str = "hpa_controller_history_unsaved_seconds";
const REJECTED: &str = "hpa_controller_history_rejected_total";

/// The load falls briefly, and the last stored recommendation is from that time.
#[tokio::test(start_paused = true)]
async fn window_restarts_if_the_last_leader_could_not_store_its_history() {
    for outage in [60, WINDOW + 60] {
        let cluster = Cluster::new(Value::Null, true);
        let (leader, telemetry) = cluster.start_controller_with_telemetry("a");
        cluster.at(1).await;
        let _standby = cluster.start_controller("b");
        cluster.load_at(200, 2).await;
        cluster.at(230).await;
        assert_eq!(exported_value(&telemetry, UNSAVED), 0);
        cluster.api.refuse_config_map_writes.store(true, Ordering::SeqCst);
        cluster.load_at(231, 10).await;
        cluster.at(250 + outage).await;
        assert!(exported_value(&telemetry, UNSAVED) >= outage, "{}", telemetry.render());
        leader.kill().await;
        let killed = cluster.second();
        cluster.load_at(killed + 1, 2).await;
        let (down, replicas) = cluster.wait_until_scaled_from(10).await;
        assert_eq!(replicas, 2);
        assert!(down >= killed + WINDOW, "early, at {down}: killed at {killed}");
        assert!(down <= killed + LEASE + WINDOW + 2 * SYNC, "late, at {down}: killed at {killed}");
    }
}

#[tokio::test(start_paused = true)]
async fn history_is_complete_again_once_writes_succeed() {
    let cluster = Cluster::new(Value::Null, true);
    let (leader, telemetry) = cluster.start_controller_with_telemetry("a");
    cluster.at(1).await;
    let _standby = cluster.start_controller("b");
    cluster.at(100).await;
    cluster.api.refuse_config_map_writes.store(true, Ordering::SeqCst);
    cluster.load_at(110, 4).await;
    cluster.at(200).await;
    assert!(exported_value(&telemetry, UNSAVED) > 60, "{}", telemetry.render());
    cluster.api.refuse_config_map_writes.store(false, Ordering::SeqCst);
    cluster.at(220).await;
    assert_eq!(exported_value(&telemetry, UNSAVED), 0);
    leader.kill().await;
    let (down, _) = cluster.wait_until_scaled_from(10).await;
    assert!(down >= 110 - SYNC + WINDOW && down <= 110 + WINDOW + SYNC + 1, "{down}");
}

/// A negative scale-down would let the policy remove more pods than its value.
#[tokio::test(start_paused = true)]
async fn forged_scale_event_is_ignored() {
    let policy = json!({ "type": "Pods", "value": 1, "periodSeconds": 300 });
    let behavior =
        json!({ "scaleDown": { "stabilizationWindowSeconds": 0, "policies": [policy] } });
    let cluster = Cluster::new(behavior, true);
    let leader = cluster.start_controller("a");
    cluster.wait_until_scaled_to(10).await;
    cluster.at(100).await;
    leader.kill().await;
    let now = cluster.clock.now().as_millisecond();
    let forged = json!({ "desired": 10, "recommendations": [[10, now]], "downs": [[-5, now]] });
    let config_maps: Api<ConfigMap> = Api::namespaced(cluster.testbed.client(), "kube-system");
    let name = "hpa-controller-history-0";
    let stored = config_maps.get(name).await.expect("a ConfigMap");
    let keys = stored.data.expect("data").into_keys();
    let uid = keys.into_iter().find(|key| key != "shard").expect("a UID");
    let patch = Patch::Merge(json!({ "data": { uid: forged.to_string() } }));
    config_maps.patch(name, &PatchParams::default(), &patch).await.expect("patched");

    let (_next, telemetry) = cluster.start_controller_with_telemetry("b");
    cluster.load_at(140, 2).await;
    let (_, replicas) = cluster.wait_until_scaled_from(10).await;
    assert_eq!(replicas, 9, "the policy allows one pod");
    assert_eq!(exported_value(&telemetry, REJECTED), 1);
}

#[tokio::test(start_paused = true)]
async fn config_map_of_another_version_is_ignored_and_counted() {
    let cluster = Cluster::new(Value::Null, true);
    let leader = cluster.start_controller("a");
    cluster.at(100).await;
    leader.kill().await;
    let config_maps: Api<ConfigMap> = Api::namespaced(cluster.testbed.client(), "kube-system");
    let header = json!({ "version": 2, "of": 1, "written": cluster.clock.now() });
    let patch = Patch::Merge(json!({ "data": { "shard": header.to_string() } }));
    let name = "hpa-controller-history-0";
    config_maps.patch(name, &PatchParams::default(), &patch).await.expect("patched");
    let (_next, telemetry) = cluster.start_controller_with_telemetry("b");
    cluster.at(140).await;
    assert_eq!(exported_value(&telemetry, REJECTED), 1);
}
