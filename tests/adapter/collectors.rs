//! Metrics that the adapter collects by annotations of an autoscaler.

use anyhow::{Result, ensure};
use axum::{Json, Router, routing::get};
use serde_json::json;

use crate::{AdapterCluster, kubectl::Kubectl};

const MANIFESTS: &str = include_str!("collectors.yaml");

pub(crate) const FLAGS: [&str; 3] =
    ["--collectors", "--collector-address=127.0.0.1", "--leader-elect=false"];

/// Creates the workload, and serves the document of its pod.
pub(crate) async fn create_workload(kubectl: &Kubectl) -> Result<()> {
    let document = Json(json!({ "rps": 40, "backlog": 20 }));
    let router = Router::new().route("/stats", get(async move || document.clone()));
    let port = hpa_tests::harness::serve(router).await.port();
    let manifests = MANIFESTS.replace("PORT", &port.to_string());
    kubectl.apply("collectors.yaml", &manifests).await?;
    let running = r#"{"status":{"phase":"Running","podIP":"127.0.0.1","podIPs":[{"ip":"127.0.0.1"}],
        "conditions":[
            {"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;
    kubectl.patch_status("pod/worker-0", running).await
}

/// The custom and the external API serve the values.
pub(crate) async fn check_requests(cluster: &AdapterCluster) -> Result<()> {
    let custom = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/*/document-rps\
                  ?labelSelector=app%3Dworker";
    let list = cluster.get_raw(custom).await?;
    let item = &list["items"][0];
    ensure!(item["value"] == "40" && item["describedObject"]["name"] == "worker-0", "{list}");
    let external = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/backlog\
                    ?labelSelector=type%3Djson-path";
    let list = cluster.get_raw(external).await?;
    ensure!(list["items"][0]["value"] == "20", "{list}");
    Ok(())
}
