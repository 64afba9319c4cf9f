//! Installs the Helm charts on a real kube-apiserver. Instead of a kubelet, the test runs `hpa`
//! with the arguments, volumes and service accounts of the Deployments, and with the roles of the
//! charts.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use hpa_tests::{
    helm,
    kube_apiserver::{KubeApiserver, Options, Process, assets, free_ports},
    programs,
};
use serde_json::{Value, json};
use tokio::{
    process::Command,
    time::{interval, timeout},
};

use crate::{
    APIS, EXTERNAL_METRIC_PATH, PODS_METRIC_PATH, RULES, WAIT_TIMEOUT, create_workload,
    kubectl::Kubectl, serve_prometheus,
};

const NAMESPACE: &str = "autoscaling-system";
/// The time limit for a kind to appear in discovery.
const DISCOVERY_TIMEOUT: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread")]
async fn installed_charts_serve_metrics_and_scale() -> Result<()> {
    let Some((assets, helm)) = find_programs() else { return Ok(()) };
    let cluster = ChartCluster::start(&assets, helm).await?;
    let url = serve_prometheus().await;
    cluster.check_adapter(&url).await.context("hpa-adapter")?;
    cluster.check_controller(&url).await.context("hpa-controller")
}

/// Finds the directory of kube-apiserver and kubectl, and helm. If one is missing, reports the test
/// as skipped.
pub(crate) fn find_programs() -> Option<(PathBuf, PathBuf)> {
    let assets = assets::find_or_skip()?;
    let helm = helm::find().map_err(|missing| programs::skip("helm", missing)).ok()?;
    Some((assets, helm))
}

/// A cluster in which the charts are installed.
pub(crate) struct ChartCluster {
    pub(crate) kubectl: Kubectl,
    helm: PathBuf,
    pub(crate) server: KubeApiserver,
}

impl ChartCluster {
    pub(crate) async fn start(assets: &Path, helm: PathBuf) -> Result<Self> {
        let kubectl = Kubectl::new(assets, "hpa-charts-")?;
        let server = KubeApiserver::start(Options::new(assets), kubectl.dir()).await?;
        create_workload(&server, &kubectl).await?;
        Ok(Self { kubectl, helm, server })
    }

    /// Waits until discovery has a kind. The API server serves an aggregated API before discovery
    /// lists it.
    pub(crate) async fn wait_for_kind(&self, group: &str, kind: &str) -> Result<()> {
        let arguments = ["api-resources", "--api-group", group];
        let mut polls = interval(Duration::from_millis(100));
        let discovered = async {
            while !self.kubectl.run(&arguments).await.unwrap_or_default().contains(kind) {
                polls.tick().await;
            }
        };
        timeout(DISCOVERY_TIMEOUT, discovered)
            .await
            .with_context(|| format!("no {kind} in {group}"))
    }

    async fn get(&self, kind: &str, name: &str) -> Result<Value> {
        let text = self.kubectl.run(&["-n", NAMESPACE, "get", kind, name, "-o", "json"]).await?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Installs a chart under its own name.
    async fn install(&self, chart: &str, values: &Value) -> Result<()> {
        let path = hpa_tests::repository_path("charts").join(chart);
        let file = self.kubectl.dir().join(format!("{chart}.values.json"));
        std::fs::write(&file, values.to_string())?;
        let mut command = Command::new(&self.helm);
        command.args([
            "install",
            chart,
            "--namespace",
            NAMESPACE,
            "--create-namespace",
            "--values",
        ]);
        command.arg(file).arg(path).env("HOME", self.kubectl.dir());
        command.env("KUBECONFIG", self.kubectl.dir().join("admin.kubeconfig"));
        let output = timeout(Duration::from_secs(180), command.output());
        let output = output.await.context("helm hangs")??;
        if !output.status.success() {
            bail!("helm install: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    /// Runs the container of a Deployment with additional arguments.
    async fn run_deployment(&self, name: &str, extra_arguments: &[&str]) -> Result<Process> {
        let deployment = self.get("deployment", name).await?;
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let account = pod["serviceAccountName"].as_str().context("no service account")?;
        // The service account must exist.
        self.get("serviceaccount", account).await?;
        let token = self.server.create_service_account_token(NAMESPACE, account).await?;
        let kubeconfig = self.kubectl.dir().join(format!("{name}.kubeconfig"));
        std::fs::write(&kubeconfig, self.server.kubeconfig(&token).to_string())?;

        let mut arguments = strings(&container["args"]);
        for mount in container["volumeMounts"].as_array().into_iter().flatten() {
            let files = self.write_mounted_files(pod, mount).await?;
            let path = mount["mountPath"].as_str().context("no mountPath")?;
            for argument in &mut arguments {
                *argument = argument.replace(path, &files.display().to_string());
            }
        }
        for argument in &mut arguments {
            if argument == "--in-cluster" {
                *argument = format!("--kubeconfig={}", kubeconfig.display());
            }
        }
        arguments.extend(extra_arguments.iter().map(ToString::to_string));
        let mut command = Command::new(hpa_tests::harness::hpa_binary());
        // A kubeconfig replaces the mounted service account.
        command.args(arguments).env("KUBECONFIG", kubeconfig);
        Process::start(self.kubectl.dir(), name, command)
    }

    /// Writes the files of a volume that a container mounts, and returns their directory.
    async fn write_mounted_files(&self, pod: &Value, mount: &Value) -> Result<PathBuf> {
        let volumes = pod["volumes"].as_array().context("no volumes")?;
        let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]);
        let map = volume.and_then(|volume| volume["configMap"]["name"].as_str());
        let map = map.with_context(|| format!("{} is no ConfigMap", mount["name"]))?;
        let files = self.kubectl.dir().join(map);
        std::fs::create_dir_all(&files)?;
        let data = self.get("configmap", map).await?["data"].take();
        for (file, content) in data.as_object().context("no data")? {
            std::fs::write(files.join(file), content.as_str().unwrap_or_default())?;
        }
        Ok(files)
    }

    /// Installs and runs the adapter, and waits until its APIs are available.
    pub(crate) async fn run_adapter(&self, values: &Value) -> Result<Process> {
        self.install("hpa-adapter", values).await?;
        // The only type of Service that may refer to a loopback address.
        let local = r#"{"spec":{"type":"ExternalName","externalName":"localhost"}}"#;
        self.kubectl
            .run(&["-n", NAMESPACE, "patch", "service", "hpa-adapter", "-p", local])
            .await?;
        let adapter = self.run_deployment("hpa-adapter", &[]).await?;
        for api in APIS {
            let name = format!("apiservice/{api}.metrics.k8s.io");
            let available = ["wait", "--for=condition=Available", WAIT_TIMEOUT, &name];
            self.kubectl.run(&available).await.with_context(|| adapter.tail(20, ""))?;
        }
        Ok(adapter)
    }

    /// Installs and runs the controller.
    pub(crate) async fn run_controller(&self, values: &Value) -> Result<Process> {
        self.install("hpa-controller", values).await?;
        // A pod reads the namespace from a file, which doesn't exist here.
        let namespace = format!("--leader-elect-resource-namespace={NAMESPACE}");
        self.run_deployment("hpa-controller", &[&namespace]).await
    }

    /// kubectl reads metrics of all APIs through the adapter.
    async fn check_adapter(&self, url: &str) -> Result<()> {
        let adapter = self.run_adapter(&adapter_values(url)?).await?;
        let log = || adapter.tail(20, "");
        self.wait_for_kind("metrics.k8s.io", "PodMetrics").await.with_context(log)?;
        for (arguments, expected) in [
            (
                &["get", "--raw", PODS_METRIC_PATH][..],
                &[r#""name":"web-0""#, r#""value":"20""#][..],
            ),
            (&["get", "--raw", EXTERNAL_METRIC_PATH], &[r#""queue":"mail""#]),
            (&["get", "podmetrics", "-n", "shop"], &["web-0", "250m"]),
            (&["top", "pods", "-n", "shop"], &["web-0", "250m", "64Mi"]),
            (&["top", "nodes"], &["node-0", "25%"]),
        ] {
            let text = self.kubectl.run(arguments).await.with_context(log)?;
            for part in expected {
                ensure!(text.contains(part), "kubectl {}: {text}\n{}", arguments.join(" "), log());
            }
        }
        self.kubectl.check_visitor_is_refused().await
    }

    /// The controller scales by a metric of Prometheus (20 per pod, with a target of 5), after the
    /// adapter has stopped.
    async fn check_controller(&self, url: &str) -> Result<()> {
        let ([port], rules) = (free_ports()?, rules()?);
        let prometheus = json!({ "url": url, "rules": rules });
        let values = json!({ "metrics": { "port": port, "prometheus": prometheus } });
        let controller = self.run_controller(&values).await?;
        let scaled = self.kubectl.wait_for_replicas("deployment/web", 4).await;
        scaled.with_context(|| controller.tail(20, ""))
    }
}

/// Values of the adapter's chart: the rules, with this Prometheus.
pub(crate) fn adapter_values(url: &str) -> Result<Value> {
    let [port, health_port] = free_ports()?;
    let mut rules = rules()?;
    rules["default"] = json!(false);
    Ok(json!({
        "prometheus": { "url": url, "port": null },
        "rules": rules,
        // kube-apiserver must reach the process at the port of the APIServices.
        "listenPort": port,
        "service": { "port": port },
        "healthPort": health_port,
    }))
}

/// The rules in the form of the charts' values.
fn rules() -> Result<Value> {
    let file: Value = serde_saphyr::from_str(RULES)?;
    Ok(json!({
        "custom": file["rules"],
        "external": file["externalRules"],
        "resource": file["resourceRules"],
    }))
}

fn strings(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}
