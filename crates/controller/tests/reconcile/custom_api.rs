//! Autoscalers of the custom API.

use std::sync::Arc;

use hpa_calc::selector::Selector;
use hpa_controller::{AutoscalerApi, HpaKey, cache::Origin};
use parking_lot::Mutex;

use crate::fixture::{conditions, hpa, key, reconciler, reconciler_with_writer, server};

#[tokio::test]
async fn status_of_a_custom_autoscaler_is_written_to_the_custom_api() {
    let server = Arc::new(Mutex::new(server()));
    let (reconciler, writer) = reconciler_with_writer(&server);
    let custom = HpaKey::for_api(AutoscalerApi::Custom, "shop", "web");
    reconciler.autoscalers.remove(&key());
    reconciler.autoscalers.apply(&custom, hpa(), Origin::List);
    reconciler.reconcile(&custom).await;
    drop(reconciler);
    writer.run().await;
    let server = server.lock();
    assert_eq!(server.scale_writes, [(4, 1)]);
    assert_eq!((server.custom_status_patch_count, server.status_patches.len()), (1, 1));
    assert_eq!(server.events[0]["involvedObject"]["apiVersion"], "autoscaling.hpa-rs.dev/v2");
}

#[tokio::test]
async fn scalings_that_an_autoscaler_of_the_other_api_overwrites_are_reported() {
    let server = Arc::new(Mutex::new(server()));
    let (reconciler, writer) = reconciler_with_writer(&server);
    for _ in 0..4 {
        reconciler.reconcile(&key()).await;
        let mut server = server.lock();
        server.replicas = 2;
        server.version += 1;
    }
    drop(reconciler);
    writer.run().await;
    let server = server.lock();
    assert_eq!(server.scale_writes.len(), 4);
    let mut events = server.events.iter();
    let event = events.find(|event| event["reason"] == "ReplicasOverwritten").expect("an event");
    let message = "another client changes the replicas of Deployment/web after each scaling, now \
                   from 4 to 2: another autoscaler of this target, in any API, or a deployment \
                   tool";
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["message"], message);
}

#[tokio::test]
async fn autoscalers_of_both_apis_with_the_same_pods_are_ambiguous() {
    let server = Arc::new(Mutex::new(server()));
    let reconciler = reconciler(&server);
    let custom = HpaKey::for_api(AutoscalerApi::Custom, "shop", "web");
    reconciler.selectors.set(&custom, Some(Selector::parse("app=web").expect("a selector")));
    reconciler.reconcile(&key()).await;
    let server = server.lock();
    assert_eq!(server.scale_writes, []);
    let text = "controlled by multiple HPAs: [shop/web rhpa/shop/web]";
    assert!(conditions(&server).contains(text), "{}", conditions(&server));
}
