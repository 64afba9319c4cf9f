//! Autoscalers that are deleted before or during a reconcile.

use std::sync::Arc;

use hpa_calc::history::Direction;
use parking_lot::Mutex;

use crate::{
    fixture::{CpuUsageClient, key, reconcile_once, reconciler, server, usage},
    server::Server,
    status_writes::observed_outcomes,
};

#[tokio::test]
async fn autoscaler_that_is_not_cached_is_skipped() {
    let server = Arc::new(Mutex::new(server()));
    let reconciler = reconciler(&server);
    reconciler.autoscalers.remove(&key());
    reconciler.reconcile(&key()).await;
    assert_eq!(server.lock().scale_writes, []);
    assert_eq!(server.lock().status_patches.len(), 0);
}

#[tokio::test]
async fn deletion_after_the_scale_write_is_not_a_failure() {
    let deleting = || Server { deletes_hpa_after_scaling: true, ..server() };
    assert_eq!(reconcile_once(deleting()).await.scale_writes, [(4, 1)]);
    let outcomes = observed_outcomes(deleting()).await;
    assert!(matches!(outcomes[..], [(Some(Direction::Up), _, None)]), "{outcomes:?}");
}

/// The watch may not have delivered the deletion yet.
#[tokio::test]
async fn deletion_before_the_reconcile_prevents_the_scale_write() {
    let server = reconcile_once(Server { hpa_exists: false, ..server() }).await;
    assert_eq!(server.scale_writes, []);
    assert_eq!(server.status_patches.len(), 0);
}

#[tokio::test]
async fn deletion_during_the_reconcile_prevents_the_scale_write() {
    let server = Arc::new(Mutex::new(server()));
    let mut reconciler = reconciler(&server);
    reconciler.metrics = Arc::new(CpuUsageClient {
        deletes_from: Some(reconciler.autoscalers.clone()),
        ..usage(100)
    });
    reconciler.reconcile(&key()).await;
    assert_eq!(server.lock().scale_writes, []);
    assert_eq!(server.lock().status_patches.len(), 0);
}
