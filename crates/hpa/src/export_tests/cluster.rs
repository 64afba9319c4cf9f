//! The controller as the binary wires it, against the testbed over HTTP.

use std::{collections::BTreeMap, fs, net::SocketAddr, sync::Arc, time::Duration};

use clap::Parser;
use hpa_controller::{
    controller::Dependencies,
    k8s::{ClientConfig, ClientSource, Clients},
    metrics::{Telemetry, TelemetryOptions},
};
use hpa_testbed::{
    Action, ApiError, Config, CustomMetric, CustomMetricQuery, ExternalMetric, ExternalMetricQuery,
    Interceptor, MetricsProvider, PodMetrics, PodMetricsQuery, RequestInfo, Testbed,
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    args::{Arguments, Command},
    run::options,
};

const LIMIT: Duration = Duration::from_secs(60);

/// Usage at twice the target, one value of each other kind, and no metric called `broken`.
struct Metrics;

impl MetricsProvider for Metrics {
    fn pods(&self, query: &PodMetricsQuery) -> Result<Vec<PodMetrics>, ApiError> {
        let containers = BTreeMap::from([(
            "app".to_owned(),
            BTreeMap::from([("cpu".to_owned(), "100m".to_owned())]),
        )]);
        let metrics = |(namespace, name): &(String, String)| PodMetrics {
            namespace: namespace.clone(),
            name: name.clone(),
            window: "15s".into(),
            containers: containers.clone(),
            ..PodMetrics::default()
        };
        Ok(query.pods.iter().map(metrics).collect())
    }

    fn custom(&self, query: &CustomMetricQuery) -> Result<Vec<CustomMetric>, ApiError> {
        let value = |(namespace, name): &(String, String)| CustomMetric {
            described_object: json!({ "kind": "Pod", "namespace": namespace, "name": name, "apiVersion": "v1" }),
            value: "5".into(),
            ..CustomMetric::default()
        };
        Ok(query.pods.iter().map(value).collect())
    }

    fn external(&self, query: &ExternalMetricQuery) -> Result<Vec<ExternalMetric>, ApiError> {
        let metric_name = query.metric.clone();
        let series = ExternalMetric { metric_name, value: "7".into(), ..ExternalMetric::default() };
        Ok(if query.metric == "broken" { Vec::new() } else { vec![series] })
    }
}

/// Counts the scales that are read: one for each reconcile of the autoscaler.
struct Count(watch::Sender<usize>);

impl Interceptor for Count {
    fn intercept(&self, request: &RequestInfo) -> Action {
        if request.subresource == "scale" {
            self.0.send_modify(|reads| *reads += 1);
        }
        Action::Pass
    }
}

/// An autoscaler that scales up to its limit, of which one metric fails.
fn objects() -> Vec<Value> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "web-0", "namespace": "shop", "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "app", "resources": { "requests": { "cpu": "100m" } } }] },
        "status": { "phase": "Running", "startTime": "2020-01-01T00:00:00Z",
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:10Z" }] },
    });
    let average = json!({ "type": "AverageValue", "averageValue": "1" });
    vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "web" } },
                "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [] } } },
            "status": { "replicas": 1 },
        }),
        pod,
        json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "minReplicas": 1, "maxReplicas": 2,
                "metrics": [
                    { "type": "Resource", "resource": { "name": "cpu",
                        "target": { "type": "Utilization", "averageUtilization": 50 } } },
                    { "type": "Pods", "pods": { "metric": { "name": "requests" }, "target": average } },
                    { "type": "External", "external": { "metric": { "name": "jobs" }, "target": average } },
                    { "type": "External", "external": { "metric": { "name": "broken" }, "target": average } },
                ] },
        }),
    ]
}

/// What `/metrics` tells after some reconciles.
pub(super) async fn exported() -> String {
    let (count, mut reads) = watch::channel(0);
    let interceptor = Some(Arc::new(Count(count)) as Arc<dyn Interceptor>);
    let testbed =
        Testbed::new(Config { metrics: Some(Arc::new(Metrics)), interceptor, ..Config::default() });
    for object in objects() {
        testbed.apply(object).expect("an object that the API takes");
    }
    let (address, _served) =
        testbed.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a port");
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, Testbed::kubeconfig(address)).expect("a file");

    let telemetry = Arc::new(Telemetry::new(TelemetryOptions { per_autoscaler: true }));
    // Which a controller without leader election does not tell.
    telemetry.set_leading("hpa-controller", true);
    let source = ClientSource::Kubeconfig { path: Some(kubeconfig), context: None };
    let config = ClientConfig { source, ..ClientConfig::default() };
    let clients = Clients::with_observer(&config, telemetry.clone()).await.expect("clients");
    let arguments =
        Arguments::parse_from(["hpa", "run", "--horizontal-pod-autoscaler-sync-period=50ms"]);
    let Command::Run(arguments) = arguments.command else {
        unreachable!("that is what was asked for")
    };
    let options = options(&arguments);
    let shutdown = CancellationToken::new();
    let parts = Dependencies::with_telemetry(clients, &options, telemetry.clone());
    let controller =
        tokio::spawn(hpa_controller::controller::run(parts, options, shutdown.clone()));
    let reconciled = reads.wait_for(|reads| *reads >= 6);
    tokio::time::timeout(LIMIT, reconciled).await.expect("in time").expect("a testbed");
    let text = telemetry.render();
    assert!(
        text.contains(&format!("{{code=\"200\",host=\"{address}\",method=\"GET\"}}")),
        "{text}"
    );
    shutdown.cancel();
    controller.await.expect("no panic").expect("an orderly end");
    text
}
