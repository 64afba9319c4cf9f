//! `hpa adapter` behind a real kube-apiserver: kubectl and kube-controller-manager read metrics
//! through the aggregation layer, from Prometheus and from collectors. Also installs the Helm
//! charts. If a program is missing, its tests are reported as skipped.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed step fails the test"
)]

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use axum::{Form, Json, Router, routing::post};
use hpa_tests::kube_apiserver::{ADMIN, KubeApiserver, Options, Process, assets, free_ports};
use hpa_tests::programs;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;

mod chart_collectors;
mod charts;
mod collectors;
mod compare;
mod kubectl;

use crate::kubectl::Kubectl;

const MANIFESTS: &str = include_str!("manifests.yaml");
const WORKLOAD: &str = include_str!("workload.yaml");
const RULES: &str = include_str!("rules.yaml");

/// The path of a metric of the pods of `web`.
const PODS_METRIC_PATH: &str = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/*/\
                                http_requests_per_second?labelSelector=app%3Dweb";
const EXTERNAL_METRIC_PATH: &str =
    "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue_length";

/// The names of the `APIServices`, without `.metrics.k8s.io`.
const APIS: [&str; 4] = ["v1beta1.custom", "v1beta2.custom", "v1beta1.external", "v1beta1"];

/// The ServiceAccount without roles.
const VISITOR: &str = "visitor";

/// The patch that makes a pod ready.
const READY_POD_STATUS: &str = r#"{"status":{"phase":"Running","conditions":[
    {"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;

/// The time limit of `kubectl wait`, long enough for a busy machine.
const WAIT_TIMEOUT: &str = "--timeout=120s";

#[tokio::test(flavor = "multi_thread")]
async fn metrics_reach_kubectl_and_kube_controller_manager() -> Result<()> {
    let Some(assets) = assets::find_or_skip() else { return Ok(()) };
    let cluster = AdapterCluster::start(&assets).await?;
    for api in APIS {
        if api == "v1beta1" {
            // The running adapter must read the changed file, and then serve metrics.k8s.io.
            std::fs::write(cluster.kubectl.dir().join("rules.yaml"), RULES)?;
        }
        let name = format!("apiservice/{api}.metrics.k8s.io");
        cluster.run_kubectl(&["wait", "--for=condition=Available", WAIT_TIMEOUT, &name]).await?;
    }
    cluster.check_ca_bundle().await?;
    cluster.check_requests().await?;
    collectors::check_requests(&cluster).await.context("collectors")?;
    cluster.kubectl.check_visitor_is_refused().await?;
    cluster.check_scaling().await
}

/// An API server with an adapter in front of a Prometheus.
struct AdapterCluster {
    kubectl: Kubectl,
    _server: KubeApiserver,
    adapter: Process,
}

impl AdapterCluster {
    async fn start(assets: &Path) -> Result<Self> {
        let kubectl = Kubectl::new(assets, "hpa-adapter-")?;
        let dir = kubectl.dir();
        let server = KubeApiserver::start(Options::new(assets), dir).await?;
        let write = |name: &str, text: &str| -> Result<PathBuf> {
            let path = dir.join(name);
            std::fs::write(&path, text)?;
            Ok(path)
        };
        let [port] = free_ports()?;
        create_workload(&server, &kubectl).await?;
        let manifests = MANIFESTS.replace("PORT", &port.to_string());
        kubectl.apply("manifests.yaml", &manifests).await?;
        collectors::create_workload(&kubectl).await?;

        let token = server.create_service_account_token("kube-system", "hpa-adapter").await?;
        let kubeconfig = write("adapter.kubeconfig", &server.kubeconfig(&token).to_string())?;
        // The rules of metrics.k8s.io are added later.
        let (first_rules, _) = RULES.split_once("resourceRules:").context("no resourceRules")?;
        let rules = write("rules.yaml", first_rules)?;
        let mut command = Command::new(hpa_tests::harness::hpa_binary());
        command.arg("adapter").args(collectors::FLAGS).args([
            format!("--config={}", rules.display()),
            format!("--prometheus-url={}", serve_prometheus().await),
            format!("--lister-kubeconfig={}", kubeconfig.display()),
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--service=kube-system/hpa-adapter".to_owned(),
            "--serving-secret=hpa-adapter-serving".to_owned(),
        ]);
        let adapter = Process::start(dir, "hpa-adapter", command)?;
        Ok(Self { kubectl, _server: server, adapter })
    }

    /// Runs kubectl as an administrator. An error contains the adapter's log.
    async fn run_kubectl(&self, arguments: &[&str]) -> Result<String> {
        let output = self.kubectl.run(arguments).await;
        output.with_context(|| format!("hpa adapter:\n{}", self.adapter.tail(20, "")))
    }

    async fn get_raw(&self, path: &str) -> Result<Value> {
        let text = self.run_kubectl(&["get", "--raw", path]).await?;
        serde_json::from_str(&text).with_context(|| format!("{path}: {text}"))
    }

    /// The `caBundle` of an `APIService` is restored if another program removes it or recreates the
    /// `APIService`.
    async fn check_ca_bundle(&self) -> Result<()> {
        let name = "v1beta1.external.metrics.k8s.io";
        let bundle = ["get", "apiservice", name, "-o", "jsonpath={.spec.caBundle}"];
        let authorities = self.run_kubectl(&bundle).await?;
        ensure!(!authorities.is_empty(), "no caBundle");
        let has_bundle =
            ["wait", "--for=jsonpath={.spec.caBundle}", WAIT_TIMEOUT, "apiservice", name];
        let remove = ["patch", "apiservice", name, "--type=merge", "-p"];
        let remove = [&remove[..], &[r#"{"spec":{"caBundle":null}}"#]].concat();
        self.run_kubectl(&remove).await?;
        self.run_kubectl(&has_bundle).await?;
        ensure!(self.run_kubectl(&bundle).await? == authorities, "another caBundle");
        self.run_kubectl(&["delete", "apiservice", name]).await?;
        let manifests = self.kubectl.dir().join("manifests.yaml");
        self.run_kubectl(&["apply", "-f", &manifests.display().to_string()]).await?;
        self.run_kubectl(&has_bundle).await?;
        self.run_kubectl(&["wait", "--for=condition=Available", WAIT_TIMEOUT, "apiservice", name])
            .await?;
        Ok(())
    }

    async fn check_requests(&self) -> Result<()> {
        let list = self.get_raw(PODS_METRIC_PATH).await?;
        ensure!(list["items"][0]["value"] == "20", "{list}");
        let list = self.get_raw(EXTERNAL_METRIC_PATH).await?;
        ensure!(list["items"][0]["metricLabels"]["queue"] == "mail", "{list}");
        let table = self.run_kubectl(&["get", "podmetrics", "-n", "shop"]).await?;
        ensure!(table.contains("web-0") && table.contains("250m"), "{table}");
        let top = self.run_kubectl(&["top", "pods", "-n", "shop", "--containers"]).await?;
        ensure!(top.contains("web-0") && top.contains("64Mi"), "{top}");
        let resources = self
            .run_kubectl(&["api-resources", "--api-group=metrics.k8s.io", "--no-headers"])
            .await?;
        ensure!(resources.contains("PodMetrics"), "{resources}");
        Ok(())
    }

    /// kube-controller-manager scales by metrics of the adapter. The metric of `web` is 20 per pod,
    /// with a target of 5. The larger metric of `worker` is 40 for one pod, with a target of 10.
    async fn check_scaling(&self) -> Result<()> {
        let binary = self.kubectl.assets.join("kube-controller-manager");
        if !binary.is_file() {
            let reason = format!("{} does not exist", binary.display());
            programs::skip("kube-controller-manager", reason);
            return Ok(());
        }
        let mut command = Command::new(binary);
        command.args([
            "--controllers=horizontal-pod-autoscaler-controller",
            "--horizontal-pod-autoscaler-sync-period=1s",
            "--leader-elect=false",
            "--secure-port=0",
        ]);
        let kubeconfig = self.kubectl.dir().join("admin.kubeconfig");
        command.arg(format!("--kubeconfig={}", kubeconfig.display()));
        let manager = Process::start(self.kubectl.dir(), "kube-controller-manager", command)?;
        for target in ["deployment/web", "deployment/worker"] {
            let scaled = self.kubectl.wait_for_replicas(target, 4).await;
            scaled.with_context(|| {
                let [manager, adapter] = [&manager, &self.adapter].map(|one| one.tail(20, ""));
                format!("kube-controller-manager:\n{manager}\nhpa adapter:\n{adapter}")
            })?;
        }
        Ok(())
    }
}

/// Creates a running pod on a node, with its namespace and Deployment. Writes the kubeconfigs of
/// [`ADMIN`] and [`VISITOR`].
async fn create_workload(server: &KubeApiserver, kubectl: &Kubectl) -> Result<()> {
    let dir = kubectl.dir();
    std::fs::write(dir.join("admin.kubeconfig"), server.kubeconfig(ADMIN).to_string())?;
    kubectl.apply("workload.yaml", WORKLOAD).await?;
    let visitor = server.create_service_account_token("shop", VISITOR).await?;
    std::fs::write(dir.join("visitor.kubeconfig"), server.kubeconfig(&visitor).to_string())?;
    kubectl.patch_status("pod/web-0", READY_POD_STATUS).await?;
    let size = r#"{"status":{"allocatable":{"cpu":"4","memory":"8Gi"}}}"#;
    kubectl.patch_status("node/node-0", size).await
}

#[derive(Deserialize)]
struct Parameters {
    #[serde(default)]
    query: String,
    #[serde(default, rename = "match[]")]
    selector: String,
}

/// Serves a Prometheus with a web pod, a node and a queue, and returns its URL.
async fn serve_prometheus() -> String {
    let series = async |Form(parameters): Form<Parameters>| {
        let name = parameters.selector.split('{').next().unwrap_or_default().to_owned();
        let labels =
            json!({ "__name__": name, "namespace": "shop", "pod": "web-0", "queue": "mail" });
        Json(json!({ "status": "success", "data": [labels] }))
    };
    let query = async |Form(parameters): Form<Parameters>| {
        let value = match parameters.query.as_str() {
            query if query.contains("http_requests_total") => "20",
            query if query.contains("container_cpu") => "0.25",
            query if query.contains("container_memory") => "67108864",
            query if query.contains("skipper_serve_host") => "30",
            _ => "1",
        };
        let labels = json!({
            "namespace": "shop", "pod": "web-0", "container": "web", "node": "node-0",
            "queue": "mail",
        });
        let now = jiff::Timestamp::now().as_second();
        let result = json!([{ "metric": labels, "value": [now, value] }]);
        let data = json!({ "resultType": "vector", "result": result });
        Json(json!({ "status": "success", "data": data }))
    };
    let router =
        Router::new().route("/api/v1/series", post(series)).route("/api/v1/query", post(query));
    format!("http://{}", hpa_tests::harness::serve(router).await)
}
