//! Annotations of the autoscaler.

use std::sync::Arc;

use hpa_controller::cache::Origin;
use parking_lot::Mutex;
use rstest::rstest;
use serde_json::json;

use crate::{
    fixture::{conditions, hpa, key, reconcile_once, reconciler_with_writer, server},
    server::Server,
};

const PAUSE: &str = "autoscaling.hpa-rs.dev/pause";

/// The server after some reconciles of an autoscaler with this pause annotation.
async fn reconcile_paused(value: &str, times: usize) -> Server {
    reconcile_annotated(PAUSE, value, times).await
}

/// The server after some reconciles of an autoscaler with this annotation.
async fn reconcile_annotated(name: &str, value: &str, times: usize) -> Server {
    let server = Arc::new(Mutex::new(Server { annotations: json!({ name: value }), ..server() }));
    let (reconciler, writer) = reconciler_with_writer(&server);
    let mut annotated = hpa();
    annotated.metadata.annotations.insert(name.into(), value.into());
    reconciler.autoscalers.apply(&key(), annotated, Origin::List);
    for _ in 0..times {
        reconciler.reconcile(&key()).await;
    }
    drop(reconciler);
    writer.run().await;
    std::mem::take(&mut *server.lock())
}

#[tokio::test]
async fn paused_direction_is_reported_and_not_scaled() {
    let server = reconcile_paused("up", 2).await;
    assert_eq!((server.replicas, server.scale_writes.len()), (2, 0));
    assert!(
        conditions(&server).contains("scaling up is paused: 4 replicas desired"),
        "{}",
        conditions(&server)
    );
    assert_eq!(server.status_patches.len(), 1, "the unchanged status is written once");
    assert_eq!(server.status_patches[0]["status"]["desiredReplicas"], 4);
    assert_eq!(server.events.len(), 0);
}

#[tokio::test]
async fn direction_that_is_not_paused_is_scaled() {
    assert_eq!(reconcile_paused("down", 1).await.scale_writes, [(4, 1)]);
}

#[rstest]
#[case::value(PAUSE, "yes", "annotation autoscaling.hpa-rs.dev/pause must be")]
#[case::name(
    "autoscaling.hpa-rs.dev/paused",
    "true",
    "annotation autoscaling.hpa-rs.dev/paused is not a setting (did you mean pause?), ignored"
)]
#[tokio::test]
async fn invalid_annotation_is_reported_once_and_ignored(
    #[case] name: &str,
    #[case] value: &str,
    #[case] message: &str,
) {
    let server = reconcile_annotated(name, value, 3).await;
    assert_eq!(server.scale_writes.first(), Some(&(4, 1)));
    let reported: Vec<_> =
        server.events.iter().filter(|event| event["reason"] == "InvalidAnnotation").collect();
    assert_eq!(reported.len(), 1, "{:?}", server.events);
    let conditions = conditions(&server);
    assert!(conditions.contains(message) && conditions.contains("InvalidSettings"), "{conditions}");
}

#[tokio::test]
async fn dry_run_annotation_prevents_all_writes() {
    let server = reconcile_annotated("autoscaling.hpa-rs.dev/dry-run", "true", 1).await;
    assert_eq!((server.scale_writes.len(), server.status_patches.len()), (0, 0));
}

#[tokio::test]
async fn pause_that_is_set_during_the_reconcile_applies() {
    let server = reconcile_once(Server { annotations: json!({ PAUSE: "true" }), ..server() }).await;
    assert_eq!(server.scale_writes, []);
}
