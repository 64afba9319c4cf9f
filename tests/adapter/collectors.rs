//! Metrics that the adapter collects by annotations of an autoscaler.

use std::path::Path;

use anyhow::{Result, ensure};
use axum::{Json, Router, routing::get};
use hpa_tests::kube_apiserver::ADMIN;
use serde_json::json;

use crate::{Cluster, WAIT_TIMEOUT, kubectl};

const MANIFESTS: &str = include_str!("collectors.yaml");

pub(crate) const FLAGS: [&str; 3] =
    ["--collectors", "--collector-address=127.0.0.1", "--leader-elect=false"];

/// Creates the workload, and serves the document of its pod.
pub(crate) async fn create_workload(assets: &Path, dir: &Path) -> Result<()> {
    let document = Json(json!({ "rps": 40, "backlog": 20 }));
    let router = Router::new().route("/stats", get(async move || document.clone()));
    let port = hpa_tests::harness::serve(router).await.port();
    let file = dir.join("collectors.yaml");
    std::fs::write(&file, MANIFESTS.replace("PORT", &port.to_string()))?;
    let file = file.display().to_string();
    kubectl(assets, dir, ADMIN, &["apply", "-f", &file]).await?;
    let running = r#"{"status":{"phase":"Running","podIP":"127.0.0.1","podIPs":[{"ip":"127.0.0.1"}],
        "conditions":[
            {"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;
    let patch = ["-n", "shop", "patch", "pod/worker-0", "--subresource=status", "-p", running];
    kubectl(assets, dir, ADMIN, &patch).await?;
    Ok(())
}

/// The custom and the external API serve the values.
pub(crate) async fn check_requests(cluster: &Cluster) -> Result<()> {
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

/// kube-controller-manager scales by the larger metric: one pod with the value 40, target 10.
pub(crate) async fn check_scaling(cluster: &Cluster) -> Result<()> {
    let replicas = "--for=jsonpath={.spec.replicas}=4";
    cluster.kubectl(&["wait", "-n", "shop", replicas, WAIT_TIMEOUT, "deployment/worker"]).await?;
    Ok(())
}
