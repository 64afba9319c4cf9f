//! Installs the Helm charts with collectors. The charts' roles must suffice for collectors.

use std::{pin::pin, time::Duration};

use anyhow::{Context, Result, ensure};
use futures::TryStreamExt;
use hpa_tests::kube_apiserver::free_ports;
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api,
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    READY_POD_STATUS,
    charts::{ChartCluster, adapter_values, find_programs},
    collectors, serve_prometheus,
};

const MANIFESTS: &str = include_str!("chart-collectors.yaml");
const ROUTE_GROUP: &str = include_str!("chart-routegroup.yaml");

#[tokio::test(flavor = "multi_thread")]
async fn installed_charts_collect_metrics() -> Result<()> {
    let Some((assets, helm)) = find_programs() else { return Ok(()) };
    let cluster = ChartCluster::start(&assets, helm).await?;
    create_workload(&cluster).await?;
    let url = serve_prometheus().await;
    check_adapter(&cluster, &url).await.context("hpa-adapter")?;
    check_controller(&cluster, &url).await.context("hpa-controller")
}

/// The value `collectors` for both charts.
fn collectors_value() -> Value {
    json!({
        "enabled": true,
        // The pods and the endpoint of this test.
        "addresses": ["127.0.0.1"],
        "defaultInterval": "30s",
        "maxAge": "2m",
        "skipperIngress": true,
        "skipperRouteGroup": true,
        "externalRps": true,
    })
}

async fn create_workload(cluster: &ChartCluster) -> Result<()> {
    let kubectl = &cluster.kubectl;
    collectors::create_workload(kubectl).await?;
    kubectl.apply("chart-collectors.yaml", MANIFESTS).await?;
    // `kubectl wait` fails while the conditions of a definition are null.
    cluster.wait_for_kind("zalando.org", "RouteGroup").await?;
    cluster.wait_for_kind("argoproj.io", "Rollout").await?;
    kubectl.apply("chart-routegroup.yaml", ROUTE_GROUP).await?;
    let scaled = r#"{"status":{"replicas":2,"selector":"app=mail"}}"#;
    for (object, status) in [
        ("pod/shop-0", READY_POD_STATUS),
        ("pod/mail-0", READY_POD_STATUS),
        ("statefulset/shop", r#"{"status":{"replicas":2}}"#),
        ("rollout/mail", scaled),
    ] {
        kubectl.patch_status(object, status).await?;
    }
    Ok(())
}

/// The adapter serves the values, and the leader reports an invalid annotation.
async fn check_adapter(cluster: &ChartCluster, url: &str) -> Result<()> {
    let mut values = adapter_values(url)?;
    values["networkPolicy"] = json!({ "enabled": true });
    values["collectors"] = collectors_value();
    let adapter = cluster.run_adapter(&values).await?;
    let log = || adapter.tail(20, "");
    let objects = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop";
    for (path, value) in [
        (format!("{objects}/pods/*/document-rps?labelSelector=app%3Dworker"), "40"),
        // 30 requests per second, divided by 2 replicas.
        (format!("{objects}/ingresses.networking.k8s.io/shop/requests-per-second"), "15"),
        (format!("{objects}/routegroups.zalando.org/mail/requests-per-second"), "15"),
    ] {
        let text = cluster.kubectl.run(&["get", "--raw", &path]).await.with_context(log)?;
        let list: Value = serde_json::from_str(&text)?;
        ensure!(list["items"][0]["value"] == value, "{path}: {text}\n{}", log());
    }
    let events: Api<Event> = Api::namespaced(cluster.server.client(), "shop");
    let mut events = pin!(watcher(events, watcher::Config::default()).applied_objects());
    let reported = async {
        while let Some(event) = events.try_next().await? {
            let is_reported = event.reason.as_deref() == Some("CreateNewMetricsCollector");
            if is_reported && event.involved_object.name.as_deref() == Some("broken") {
                break;
            }
        }
        anyhow::Ok(())
    };
    timeout(Duration::from_secs(120), reported).await.context("no event").with_context(log)??;
    Ok(())
}

/// After the adapter has stopped, the controller scales by metrics that it collects itself.
async fn check_controller(cluster: &ChartCluster, url: &str) -> Result<()> {
    let [port] = free_ports()?;
    let mut collectors = collectors_value();
    collectors["prometheusUrl"] = json!(url);
    let values = json!({
        "metrics": { "port": port },
        "networkPolicy": { "enabled": true },
        "collectors": collectors,
    });
    let controller = cluster.run_controller(&values).await?;
    for (target, replicas) in [
        // One pod with the value 40, and a target of 10.
        ("deployment/worker", 4),
        // 30 requests per second, divided by 2 replicas: three times the target of 5, for one ready
        // pod.
        ("statefulset/shop", 3),
        ("rollout/mail", 3),
    ] {
        let scaled = cluster.kubectl.wait_for_replicas(target, replicas).await;
        scaled.with_context(|| controller.tail(20, ""))?;
    }
    Ok(())
}
