//! A cluster in memory, and the binary that runs against it.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use hpa_testbed::{
    Action, ApiError, Config, CustomMetric, CustomMetricQuery, ExternalMetric, ExternalMetricQuery,
    MetricsProvider, PodMetrics, PodMetricsQuery, RequestInfo, ServerHandle, Testbed,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    sync::watch,
    time::timeout,
};

/// How long anything may take; nothing takes a tenth of it.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Usage at twice the target, one value of each other kind, and no metric called `broken`.
struct Metrics;

impl MetricsProvider for Metrics {
    fn pods(&self, query: &PodMetricsQuery) -> Result<Vec<PodMetrics>, ApiError> {
        let usage = BTreeMap::from([("cpu".to_owned(), "100m".to_owned())]);
        let metrics = |(namespace, name): &(String, String)| PodMetrics {
            namespace: namespace.clone(),
            name: name.clone(),
            window: "15s".into(),
            containers: BTreeMap::from([("app".to_owned(), usage.clone())]),
            ..PodMetrics::default()
        };
        Ok(query.pods.iter().map(metrics).collect())
    }

    fn custom(&self, query: &CustomMetricQuery) -> Result<Vec<CustomMetric>, ApiError> {
        let value = |kind: &str, name: &str| CustomMetric {
            described_object: json!({ "kind": kind, "namespace": "shop", "name": name, "apiVersion": "v1" }),
            value: "1".into(),
            ..CustomMetric::default()
        };
        if query.resource.starts_with("services") {
            return Ok(vec![value("Service", &query.name)]);
        }
        Ok(query.pods.iter().map(|(_, name)| value("Pod", name)).collect())
    }

    fn external(&self, query: &ExternalMetricQuery) -> Result<Vec<ExternalMetric>, ApiError> {
        let metric_name = query.metric.clone();
        let series = ExternalMetric { metric_name, value: "1".into(), ..ExternalMetric::default() };
        Ok(if query.metric == "broken" { Vec::new() } else { vec![series] })
    }
}

fn autoscaler(name: &str, metrics: Value) -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": name, "namespace": "shop" },
        "spec": { "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
            "minReplicas": 1, "maxReplicas": 2, "metrics": metrics },
    })
}

/// An autoscaler that scales to its limit, of which one metric fails, and one without a target.
fn objects() -> Vec<Value> {
    let average = json!({ "type": "AverageValue", "averageValue": "1" });
    let utilization = json!({ "type": "Utilization", "averageUtilization": 50 });
    let service = json!({ "kind": "Service", "name": "front", "apiVersion": "v1" });
    vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "web" } },
                "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [] } } },
            "status": { "replicas": 1 },
        }),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "web-0", "namespace": "shop", "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "app", "resources": { "requests": { "cpu": "100m" } } }] },
            "status": { "phase": "Running", "startTime": "2020-01-01T00:00:00Z", "conditions": [
                { "type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:10Z" }] },
        }),
        autoscaler(
            "web",
            json!([
                { "type": "Resource", "resource": { "name": "cpu", "target": utilization } },
                { "type": "ContainerResource",
                    "containerResource": { "name": "cpu", "container": "app", "target": utilization } },
                { "type": "Pods", "pods": { "metric": { "name": "requests" }, "target": average } },
                { "type": "Object", "object": {
                    "describedObject": service, "metric": { "name": "hits" }, "target": average } },
                { "type": "External", "external": { "metric": { "name": "jobs" }, "target": average } },
                { "type": "External", "external": { "metric": { "name": "broken" }, "target": average } },
            ]),
        ),
        autoscaler(
            "lost",
            json!([{ "type": "Resource", "resource": { "name": "cpu", "target": utilization } }]),
        ),
    ]
}

/// The controller, and the cluster it runs against.
pub(crate) struct Running {
    testbed: Testbed,
    #[expect(dead_code, reason = "dropped, the server ends")]
    served: ServerHandle,
    child: Child,
    folder: TempDir,
    /// How often the target of `web` was looked at: once for each reconcile, and once for the write.
    pub(crate) looks: watch::Receiver<usize>,
    /// How many statuses were written.
    statuses: watch::Receiver<usize>,
}

impl Running {
    /// Starts it, with these flags and variables besides.
    pub(crate) async fn start(flags: &[&str], variables: &[(&str, &str)]) -> Self {
        let (look, looks) = watch::channel(0);
        let (status, statuses) = watch::channel(0);
        let count = move |request: &RequestInfo| {
            match (request.subresource.as_str(), request.name.as_str()) {
                ("scale", "web") => look.send_modify(|looks| *looks += 1),
                ("status", _) => status.send_modify(|statuses| *statuses += 1),
                _ => {}
            }
            Action::Pass
        };
        let config = Config {
            metrics: Some(Arc::new(Metrics)),
            interceptor: Some(Arc::new(count)),
            ..Config::default()
        };
        let testbed = Testbed::new(config);
        for object in objects() {
            testbed.apply(object).expect("an object that the API takes");
        }
        let (address, served) =
            testbed.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a port");
        let folder = TempDir::new().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        fs::write(&kubeconfig, Testbed::kubeconfig(address)).unwrap();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_hpa"))
            .args(["run", "--metrics-port=0", "--leader-elect=false", "--kubeconfig"])
            .arg(kubeconfig)
            .args(flags)
            // The caller's settings are not the test's.
            .env_clear()
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self { testbed, served, child, folder, looks, statuses }
    }

    /// Waits until the target of `web` was looked at so often.
    pub(crate) async fn has_looked(&mut self, times: usize) {
        let looked = self.looks.wait_for(|looks| *looks >= times);
        timeout(LIMIT, looked).await.expect("in time").unwrap();
    }

    /// Waits until so many statuses were written.
    pub(crate) async fn has_written(&mut self, statuses: usize) {
        let written = self.statuses.wait_for(|written| *written >= statuses);
        timeout(LIMIT, written).await.expect("in time").unwrap();
    }

    /// Ends it in an orderly way. What it logged, and the replicas that `web` has then.
    pub(crate) async fn stop(mut self) -> (String, Value) {
        let pid =
            self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        let (status, log) = self.end().await;
        assert!(status.success(), "{status}: {log}");
        let web = self.testbed.get("apps/v1", "Deployment", "shop", "web").unwrap();
        (log, web["spec"]["replicas"].clone())
    }

    /// Waits for its end.
    pub(crate) async fn end(&mut self) -> (ExitStatus, String) {
        let status = timeout(LIMIT, self.child.wait()).await.expect("in time").unwrap();
        (status, fs::read_to_string(self.folder.path().join("log")).unwrap())
    }
}
