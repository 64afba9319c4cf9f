//! `hpa adapter` behind a real kube-apiserver: kubectl and kube-controller-manager read metrics
//! through the aggregation layer, from Prometheus and from collectors. Also installs the Helm
//! charts. If a program is missing, its tests are reported as skipped.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed step fails the test"
)]

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
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

const MANIFESTS: &str = include_str!("manifests.yaml");
const WORKLOAD: &str = include_str!("workload.yaml");
const RULES: &str = include_str!("rules.yaml");

/// The path of a metric of the pods of `web`.
const PODS_METRIC_PATH: &str = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/*/\
                                http_requests_per_second?labelSelector=app%3Dweb";
const EXTERNAL_METRIC_PATH: &str =
    "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue_length";

/// The ServiceAccount without roles.
const VISITOR: &str = "visitor";

/// The time limit of `kubectl wait`, long enough for a busy machine.
const WAIT_TIMEOUT: &str = "--timeout=120s";

#[tokio::test(flavor = "multi_thread")]
async fn metrics_reach_kubectl_and_kube_controller_manager() -> Result<()> {
    let Some(assets) = assets::find_or_skip() else { return Ok(()) };
    let cluster = Cluster::start(&assets).await?;
    let apis = ["v1beta1.custom", "v1beta2.custom", "v1beta1.external", "v1beta1"];
    for api in apis {
        if api == "v1beta1" {
            // The running adapter must read the changed file, and then serve metrics.k8s.io.
            std::fs::write(cluster.dir.path().join("rules.yaml"), RULES)?;
        }
        let name = format!("apiservice/{api}.metrics.k8s.io");
        cluster.kubectl(&["wait", "--for=condition=Available", WAIT_TIMEOUT, &name]).await?;
    }
    cluster.check_ca_bundle().await?;
    cluster.check_requests().await?;
    collectors::check_requests(&cluster).await.context("collectors")?;
    check_visitor_is_refused(&assets, cluster.dir.path()).await?;
    cluster.check_scaling().await
}

/// An API server with an adapter in front of a Prometheus.
struct Cluster {
    assets: PathBuf,
    dir: tempfile::TempDir,
    _server: KubeApiserver,
    adapter: Process,
}

impl Cluster {
    async fn start(assets: &Path) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("hpa-adapter-").tempdir()?;
        let server = KubeApiserver::start(Options::new(assets), dir.path()).await?;
        let write = |name: &str, text: &str| -> Result<PathBuf> {
            let path = dir.path().join(name);
            std::fs::write(&path, text)?;
            Ok(path)
        };
        let [port] = free_ports()?;
        create_workload(&server, assets, dir.path()).await?;
        let manifests = MANIFESTS.replace("PORT", &port.to_string());
        let manifests = write("manifests.yaml", &manifests)?.display().to_string();
        kubectl(assets, dir.path(), ADMIN, &["apply", "-f", &manifests]).await?;
        collectors::create_workload(assets, dir.path()).await?;

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
        let adapter = Process::start(dir.path(), "hpa-adapter", command)?;
        Ok(Self { assets: assets.to_owned(), dir, _server: server, adapter })
    }

    /// Runs kubectl as an administrator.
    async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let output = kubectl(&self.assets, self.dir.path(), ADMIN, arguments).await;
        output.with_context(|| format!("hpa adapter:\n{}", self.adapter.tail(20, "")))
    }

    async fn get_raw(&self, path: &str) -> Result<Value> {
        let text = self.kubectl(&["get", "--raw", path]).await?;
        serde_json::from_str(&text).with_context(|| format!("{path}: {text}"))
    }

    /// The `caBundle` of an `APIService` is restored if another program removes it or recreates the
    /// `APIService`.
    async fn check_ca_bundle(&self) -> Result<()> {
        let name = "v1beta1.external.metrics.k8s.io";
        let bundle = ["get", "apiservice", name, "-o", "jsonpath={.spec.caBundle}"];
        let authorities = self.kubectl(&bundle).await?;
        ensure!(!authorities.is_empty(), "no caBundle");
        let has_bundle =
            ["wait", "--for=jsonpath={.spec.caBundle}", WAIT_TIMEOUT, "apiservice", name];
        let remove = ["patch", "apiservice", name, "--type=merge", "-p"];
        let remove = [&remove[..], &[r#"{"spec":{"caBundle":null}}"#]].concat();
        self.kubectl(&remove).await?;
        self.kubectl(&has_bundle).await?;
        ensure!(self.kubectl(&bundle).await? == authorities, "another caBundle");
        self.kubectl(&["delete", "apiservice", name]).await?;
        let manifests = self.dir.path().join("manifests.yaml");
        self.kubectl(&["apply", "-f", &manifests.display().to_string()]).await?;
        self.kubectl(&has_bundle).await?;
        self.kubectl(&["wait", "--for=condition=Available", WAIT_TIMEOUT, "apiservice", name])
            .await?;
        Ok(())
    }

    async fn check_requests(&self) -> Result<()> {
        let list = self.get_raw(PODS_METRIC_PATH).await?;
        ensure!(list["items"][0]["value"] == "20", "{list}");
        let list = self.get_raw(EXTERNAL_METRIC_PATH).await?;
        ensure!(list["items"][0]["metricLabels"]["queue"] == "mail", "{list}");
        let table = self.kubectl(&["get", "podmetrics", "-n", "shop"]).await?;
        ensure!(table.contains("web-0") && table.contains("250m"), "{table}");
        let top = self.kubectl(&["top", "pods", "-n", "shop", "--containers"]).await?;
        ensure!(top.contains("web-0") && top.contains("64Mi"), "{top}");
        let resources =
            self.kubectl(&["api-resources", "--api-group=metrics.k8s.io", "--no-headers"]).await?;
        ensure!(resources.contains("PodMetrics"), "{resources}");
        Ok(())
    }

    /// kube-controller-manager scales by a metric of the adapter: 20 per pod, with a target of 5.
    async fn check_scaling(&self) -> Result<()> {
        let binary = self.assets.join("kube-controller-manager");
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
        let kubeconfig = self.dir.path().join("admin.kubeconfig");
        command.arg(format!("--kubeconfig={}", kubeconfig.display()));
        let manager = Process::start(self.dir.path(), "kube-controller-manager", command)?;
        let scaled = [
            "wait",
            "-n",
            "shop",
            "--for=jsonpath={.spec.replicas}=4",
            WAIT_TIMEOUT,
            "deployment/web",
        ];
        self.kubectl(&scaled)
            .await
            .with_context(|| format!("kube-controller-manager:\n{}", manager.tail(20, "")))?;
        collectors::check_scaling(self)
            .await
            .with_context(|| format!("kube-controller-manager:\n{}", manager.tail(20, "")))
    }
}

/// The adapter refuses a user without rights.
async fn check_visitor_is_refused(assets: &Path, dir: &Path) -> Result<()> {
    let read = kubectl(assets, dir, VISITOR, &["get", "--raw", EXTERNAL_METRIC_PATH]).await;
    let error = read.err().context("a ServiceAccount without roles read the metric")?.to_string();
    ensure!(error.contains("cannot list resource"), "{error}");
    Ok(())
}

/// Creates a running pod on a node, with its namespace and Deployment. Writes the kubeconfigs of
/// [`ADMIN`] and [`VISITOR`].
async fn create_workload(server: &KubeApiserver, assets: &Path, dir: &Path) -> Result<()> {
    std::fs::write(dir.join("admin.kubeconfig"), server.kubeconfig(ADMIN).to_string())?;
    let file = dir.join("workload.yaml");
    std::fs::write(&file, WORKLOAD)?;
    let file = file.display().to_string();
    kubectl(assets, dir, ADMIN, &["apply", "-f", &file]).await?;
    let visitor = server.create_service_account_token("shop", VISITOR).await?;
    std::fs::write(dir.join("visitor.kubeconfig"), server.kubeconfig(&visitor).to_string())?;
    let running = r#"{"status":{"phase":"Running","conditions":[
        {"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;
    let size = r#"{"status":{"allocatable":{"cpu":"4","memory":"8Gi"}}}"#;
    for (object, status) in [("pod/web-0", running), ("node/node-0", size)] {
        let patch = ["-n", "shop", "patch", object, "--subresource=status", "-p", status];
        kubectl(assets, dir, ADMIN, &patch).await?;
    }
    Ok(())
}

/// Runs kubectl with the kubeconfig of a user. An error contains its output.
async fn kubectl(assets: &Path, dir: &Path, user: &str, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(assets.join("kubectl"));
    command.env("KUBECONFIG", dir.join(format!("{user}.kubeconfig"))).env("HOME", dir);
    let output = tokio::time::timeout(Duration::from_secs(180), command.args(arguments).output());
    let output = output.await.context("kubectl hangs")??;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("kubectl {}: {stdout}{stderr}", arguments.join(" "));
    }
    Ok(stdout)
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
