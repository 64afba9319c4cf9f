//! Writes of the scale, and their conflicts.

use serde_json::json;

use crate::{
    fixture::{conditions, reconcile_once, server},
    server::Server,
};

#[tokio::test]
async fn scale_is_written_against_the_resource_version_read() {
    let server = reconcile_once(server()).await;
    assert_eq!(server.scale_writes, [(4, 1)]);
    assert_eq!(server.status_patches.len(), 1);
    let metadata = json!({ "uid": "a", "resourceVersion": "1" });
    assert_eq!(server.status_patches[0]["metadata"], metadata);
    assert_eq!(server.status_patches[0]["status"]["desiredReplicas"], 4);
}

#[tokio::test]
async fn conflict_with_equal_replicas_is_retried_against_the_new_version() {
    let server = reconcile_once(Server { concurrent_writes: vec![2, 2], ..server() }).await;
    assert_eq!(server.scale_writes, [(4, 3)]);
}

#[tokio::test]
async fn conflict_with_changed_replicas_is_decided_again() {
    let server = reconcile_once(Server { concurrent_writes: vec![3], ..server() }).await;
    assert_eq!(server.scale_writes, [(4, 2)]);
    assert_eq!(server.status_patches[0]["status"]["currentReplicas"], 3);
}

#[tokio::test]
async fn replicas_set_to_zero_by_a_user_are_not_overwritten() {
    let server = reconcile_once(Server { concurrent_writes: vec![0], ..server() }).await;
    assert_eq!(server.scale_writes, []);
    assert_eq!(server.replicas, 0);
    assert!(conditions(&server).contains("ScalingDisabled"), "{}", conditions(&server));
}

#[tokio::test]
async fn endless_conflicts_become_a_condition() {
    let server = reconcile_once(Server { concurrent_writes: vec![2; 100], ..server() }).await;
    assert_eq!(server.scale_writes, []);
    assert_eq!(server.concurrent_writes.len(), 95, "five attempts");
    assert!(conditions(&server).contains("FailedUpdateScale"), "{}", conditions(&server));
}
