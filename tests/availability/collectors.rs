//! A new leader has none of the values that the old one collected. It must not scale before it has
//! read them.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use axum::{Json, Router, routing::get};
use hpa_tests::harness::{TestbedExt, objects};
use http::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::Cluster;

/// The value while the endpoint fails.
const DOWN: i64 = -1;

/// A Deployment of five replicas, and its autoscaler on a value of an endpoint with a target of 10.
fn scaled_by_endpoint(name: &str, url: &str) -> [Value; 2] {
    let mut metric = objects::external_metric("length", "10");
    metric["external"]["metric"]["selector"]["matchLabels"]["type"] = "json-path".into();
    let mut hpa = objects::hpa(name, 1..=20, [metric]);
    hpa["metadata"]["annotations"] = json!({
        "metric-config.external.length.json-path/endpoint": url,
        "metric-config.external.length.json-path/json-key": "$.length",
        "metric-config.external.length.json-path/interval": "1s",
    });
    [objects::running_deployment(name, 5), hpa]
}

/// Serves the value, or an error while it is [`DOWN`].
async fn serve_value(value: Arc<AtomicI64>) -> String {
    let document = async move || match value.load(Ordering::SeqCst) {
        DOWN => Err(StatusCode::SERVICE_UNAVAILABLE),
        length => Ok(Json(json!({ "length": length }))),
    };
    let address = hpa_tests::harness::serve(Router::new().route("/", get(document))).await;
    format!("http://{address}/")
}

/// The API of external metrics has a metric of the same name, with another value.
#[tokio::test]
async fn new_leader_scales_nothing_before_it_has_read_collectors() {
    let value = Arc::new(AtomicI64::new(80));
    let url = serve_value(value.clone()).await;
    let flags = [
        "--horizontal-pod-autoscaler-sync-period=100ms",
        "--horizontal-pod-autoscaler-downscale-stabilization=0s",
        "--collectors",
        "--collector-address=127.0.0.1",
    ];
    let cluster = Cluster::new(1, &flags);
    cluster.testbed.apply_all(scaled_by_endpoint("mail", &url));
    let replicas = || cluster.testbed.replicas("mail");
    let leader = cluster.wait_for_leader().await;
    let has = |expected| (replicas() == expected).then_some(());
    cluster.log.wait("8 replicas of mail", |_| has(8)).await;
    let writes = || cluster.log.read(|events| events.scale_writes.len());
    let before = writes();

    value.store(DOWN, Ordering::SeqCst);
    cluster.instances.signal(leader, Signal::KILL);
    cluster.wait_for_successor(leader).await;
    let has_failed = || {
        let [_, reason, _] = cluster.testbed.condition("mail", "ScalingActive")?;
        (reason == "FailedGetExternalMetric").then_some(())
    };
    cluster.log.wait("a failed metric of mail", |_| has_failed()).await;
    assert_eq!((replicas(), writes()), (8, before));

    value.store(30, Ordering::SeqCst);
    cluster.log.wait("3 replicas of mail", |_| has(3)).await;
    assert_eq!(writes(), before + 1);
    assert_eq!(cluster.log.read(|events| events.unauthorized_writes.clone()), [""; 0]);
}
