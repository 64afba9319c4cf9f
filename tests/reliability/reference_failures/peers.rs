//! Another controller on the same autoscalers.

use std::time::Duration;

use hpa_controller::RunError;
use hpa_tests::harness::{TestbedExt, objects};
use k8s_openapi::api::{
    apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::Event,
};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

use super::{finish, running_cluster, series_value, sleep_periods};
use crate::{
    NAMESPACE, PERIOD,
    cluster::Cluster,
    targets::{Id, Target},
};

const REFERENCE: &str = "kube-controller-manager";

/// Writes the desired replicas of `web` to its status, as this field manager.
async fn write_status(cluster: &Cluster, manager: &str, replicas: i32) {
    let params = PatchParams { field_manager: Some(manager.into()), ..PatchParams::default() };
    let patch = Patch::Merge(json!({ "status": { "desiredReplicas": replicas } }));
    Api::<HorizontalPodAutoscaler>::namespaced(cluster.testbed.client(), NAMESPACE)
        .patch_status("web", &params, &patch)
        .await
        .expect("a status write");
}

/// A cluster whose controller is stopped, with a later status write by this field manager.
async fn cluster_written_by(manager: &str) -> Cluster {
    let (mut cluster, _faults) = running_cluster().await;
    cluster.stop_controller().await;
    write_status(&cluster, manager, 5).await;
    cluster
}

fn peer_writes(cluster: &Cluster) -> u64 {
    series_value(cluster, "hpa_controller_peer_writes_total")
}

#[tokio::test(start_paused = true)]
async fn controller_does_not_start_beside_an_active_one() {
    let mut cluster = cluster_written_by(REFERENCE).await;
    cluster.sleep(PERIOD).await;
    let before = cluster.testbed.resource_version();
    cluster.start_controller();
    let error = cluster.wait_for_exit().await.expect_err("it must not start");
    let RunError::ActivePeer(peer) = &error else { panic!("{error}") };
    assert_eq!((peer.key.to_string().as_str(), peer.autoscaler_count), ("shop/web", 1));
    assert_eq!(peer.write.manager, REFERENCE);
    let text = error.to_string();
    let expected = "another controller is active: according to managedFields, field manager \
                    kube-controller-manager wrote the status of autoscaler shop/web 15s ago (2027-";
    assert!(text.starts_with(expected), "{text}");
    assert_eq!(cluster.testbed.resource_version(), before, "it must not write");

    cluster.sleep(PERIOD + Duration::from_secs(1)).await;
    cluster.start_controller();
    sleep_periods(&cluster, 2).await;
    assert_eq!(peer_writes(&cluster), 0, "writes from before the start");
    let stored = cluster.testbed.hpa("web").expect("an autoscaler");
    assert_eq!(stored["status"]["desiredReplicas"], 2);
    finish(cluster).await;
}

/// A tenant of one namespace can forge a status write in `managedFields`. That must not affect the
/// autoscalers of others, and a real peer must be left alone.
#[tokio::test(start_paused = true)]
async fn write_in_one_of_two_namespaces_affects_only_its_autoscaler() {
    let mut cluster = cluster_written_by(REFERENCE).await;
    let mut namespace = objects::namespace();
    namespace["metadata"]["name"] = "other".into();
    cluster.apply(namespace);
    let other = Target { id: Id::new("other", "web"), ..Target::in_shop("web") };
    cluster.apply(other.autoscaler());
    cluster.loads.set("web", 4);
    cluster.loads.set("jobs", 4);
    cluster.start_controller();
    cluster.sleep(Duration::from_secs(29)).await;
    let replicas = ["jobs", "web"].map(|name| cluster.testbed.replicas(name));
    assert_eq!(replicas, [4, 2], "web is left to the peer");
    let age: f64 = series_value(&cluster, "hpa_controller_oldest_reconcile_seconds");
    assert!(age < 20.0, "an autoscaler that is left to a peer isn't stuck: {age}");
    cluster.wait_for_replicas("web", 4).await;
    assert_eq!(peer_writes(&cluster), 0, "writes from before the start");
    cluster.shut_down().await;
}

/// A rollout that changes the lease must not wait forever for the pods that it replaces.
#[tokio::test(start_paused = true)]
async fn another_release_does_not_prevent_the_start() {
    let mut cluster = cluster_written_by("hpa-controller:other/hpa").await;
    cluster.start_controller();
    sleep_periods(&cluster, 2).await;
    assert!(!cluster.has_exited());
    finish(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn standby_starts_beside_its_leader() {
    let (mut cluster, _faults) = running_cluster().await;
    cluster.stop_controller().await;
    cluster.start_with_election("first");
    cluster.loads.set("web", 4);
    cluster.wait_for_replicas("web", 4).await;
    cluster.start_standby("second");
    cluster.sleep(Duration::from_secs(1)).await;
    cluster.kill_controller().await;
    assert!(cluster.has_running_controller());
    cluster.loads.set("web", 6);
    cluster.wait_for_replicas("web", 6).await;
    assert_eq!(peer_writes(&cluster), 0, "the predecessor is no peer");
    finish(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn peer_that_becomes_active_is_reported() {
    let (cluster, _faults) = running_cluster().await;
    let deployments: Api<Deployment> = Api::namespaced(cluster.testbed.client(), NAMESPACE);
    let scale = Patch::Merge(json!({ "spec": { "replicas": 3 } }));
    let kubectl = PatchParams { field_manager: Some("kubectl".into()), ..PatchParams::default() };
    deployments.patch_scale("web", &kubectl, &scale).await.expect("a scale");
    sleep_periods(&cluster, 2).await;
    assert_eq!(peer_writes(&cluster), 0, "a manual scaling");

    for replicas in [5, 6, 7] {
        write_status(&cluster, REFERENCE, replicas).await;
        sleep_periods(&cluster, 1).await;
    }
    assert_eq!(peer_writes(&cluster), 3);
    let events: Api<Event> = Api::namespaced(cluster.testbed.client(), NAMESPACE);
    let events = events.list(&ListParams::default()).await.expect("events").items;
    let reported: Vec<_> = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some("ConflictingController"))
        .collect();
    assert_eq!(reported.len(), 1, "{events:?}");
    assert_eq!(
        (
            reported[0].type_.as_deref(),
            reported[0].count,
            reported[0].involved_object.name.as_deref()
        ),
        (Some("Warning"), Some(1), Some("web"))
    );
    let message = reported[0].message.as_deref().unwrap_or_default();
    assert!(message.starts_with("kube-controller-manager wrote the status at 2027-"), "{message}");
    cluster.shut_down().await;
}
