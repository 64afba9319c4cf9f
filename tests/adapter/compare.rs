//! `hpa rules compare` between `hpa adapter` and a prometheus-adapter that serves the metrics APIs
//! of a cluster, with a real Prometheus. `PROMETHEUS_ADAPTER` is the path of prometheus-adapter.
//! The test is skipped if the variable is not set, or kube-apiserver or Prometheus is not found.

use std::{
    env,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::Output,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use hpa_prometheus::client::{Client, InstantQuery, Settings, TimeoutParameter};
use hpa_prometheus::rules::results::QueryResult;
use hpa_tests::harness::objects;
use hpa_tests::kube_apiserver::{KubeApiserver, Options, Process, assets, free_ports};
use hpa_tests::programs;
use serde_json::{Value, json};
use tokio::{
    process::Command,
    time::{interval, timeout},
};

use crate::{WAIT_TIMEOUT, create_workload, kubectl::Kubectl};

const RULES: &str = include_str!("compare-rules.yaml");
const TIMEOUT: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_adapter_and_hpa_adapter_have_the_same_metrics() -> Result<()> {
    let Some(prometheus_adapter) =
        env::var_os("PROMETHEUS_ADAPTER").filter(|path| !path.is_empty())
    else {
        programs::skip("prometheus-adapter", "PROMETHEUS_ADAPTER is not set");
        return Ok(());
    };
    let Some(assets) = assets::find_or_skip() else { return Ok(()) };
    if hpa_tests::find_in_path("prometheus").is_none() {
        programs::skip("prometheus", "there is no prometheus in PATH");
        return Ok(());
    }
    let cluster = ReferenceCluster::start(&assets, Path::new(&prometheus_adapter)).await?;

    // The only difference is intended: prometheus-adapter reports NaN as 0.
    let (adapter, port) = cluster.start_adapter(&[]).await?;
    let (code, report) = cluster.compare(port).await?;
    println!("{report}");
    for expected in [
        "custom.metrics.k8s.io/v1beta1: both list ",
        " metrics, only left 0, only right 0\n",
        "external.metrics.k8s.io/v1beta1: both list 1 metric, only left 0, only right 0\n",
        "5 requests for the metrics of 2 autoscalers, 4 values: differences in 1 request\n",
        "pod web-0: left 0, right has no value (prometheus-adapter reports NaN as 0)\n",
    ] {
        ensure!(report.contains(expected), "no {expected:?}: {report}{}", adapter.tail(20, ""));
    }
    ensure!(code == Some(1), "exit status {code:?}");
    drop(adapter);

    let (adapter, port) = cluster.start_adapter(&["--compat=prometheus-adapter"]).await?;
    let (code, report) = cluster.compare(port).await?;
    ensure!(code == Some(0), "exit status {code:?}: {report}{}", adapter.tail(20, ""));
    ensure!(report.contains(" 4 values: differences in 0 requests\n"), "{report}");
    Ok(())
}

/// A cluster whose metrics APIs prometheus-adapter serves.
struct ReferenceCluster {
    kubectl: Kubectl,
    prometheus_url: String,
    // The fields are dropped in this order.
    _adapter: Process,
    _prometheus: Process,
    _server: KubeApiserver,
}

impl ReferenceCluster {
    async fn start(assets: &Path, prometheus_adapter: &Path) -> Result<Self> {
        let kubectl = Kubectl::new(assets, "hpa-compare-")?;
        let dir = kubectl.dir();
        let server = KubeApiserver::start(Options::new(assets), dir).await?;
        create_workload(&server, &kubectl).await?;
        std::fs::write(dir.join("rules.yaml"), RULES)?;
        let (prometheus, prometheus_url) = start_prometheus(dir).await?;
        let [port] = free_ports()?;
        let mut command = Command::new(prometheus_adapter);
        command.args(flags(dir, &prometheus_url, port, "left-certificate"));
        let adapter = Process::start(dir, "prometheus-adapter", command)?;
        kubectl.apply("objects.json", &compared_objects(port).to_string()).await?;
        for api in ["custom.metrics", "external.metrics"] {
            let name = format!("apiservice/v1beta1.{api}.k8s.io");
            let wait = ["wait", "--for=condition=Available", WAIT_TIMEOUT, &name];
            kubectl.run(&wait).await.with_context(|| adapter.tail(20, ""))?;
        }
        let token =
            server.create_service_account_token("kube-system", "horizontal-pod-autoscaler").await?;
        std::fs::write(dir.join("token"), token)?;
        Ok(Self {
            kubectl,
            prometheus_url,
            _adapter: adapter,
            _prometheus: prometheus,
            _server: server,
        })
    }

    /// Starts `hpa adapter` with the flags of prometheus-adapter and additional ones. No
    /// `APIService` refers to it.
    async fn start_adapter(&self, extra_flags: &[&str]) -> Result<(Process, u16)> {
        let [port] = free_ports()?;
        let mut command = Command::new(hpa_tests::harness::hpa_binary());
        command.arg("adapter");
        command.args(flags(self.kubectl.dir(), &self.prometheus_url, port, "right-certificate"));
        command.args(extra_flags);
        let adapter = Process::start(self.kubectl.dir(), "hpa-adapter", command)?;
        // Without an APIService, the adapter is ready once its port accepts connections.
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut polls = interval(Duration::from_millis(100));
        let listening = async {
            while tokio::net::TcpStream::connect(address).await.is_err() {
                polls.tick().await;
            }
        };
        timeout(TIMEOUT, listening).await.with_context(|| adapter.tail(20, ""))?;
        Ok((adapter, port))
    }

    /// Repeats the comparison until both adapters list the same metrics: each of them lists again
    /// every five seconds, and Prometheus has more metrics after its second scrape. Returns the
    /// last exit status and report.
    async fn compare(&self, port: u16) -> Result<(Option<i32>, String)> {
        let mut polls = interval(Duration::from_secs(1));
        let mut last = (None, String::new());
        let compared = async {
            loop {
                polls.tick().await;
                let Output { status, stdout, stderr } = self.run_compare(port).await?;
                last = (status.code(), String::from_utf8([stdout, stderr].concat())?);
                if last.0 != Some(2) && last.1.lines().all(has_equal_list) {
                    return Ok(());
                }
            }
        };
        let result: Result<Result<()>, _> = timeout(TIMEOUT, compared).await;
        result.with_context(|| format!("the lists differ: {}", last.1))??;
        Ok(last)
    }

    async fn run_compare(&self, port: u16) -> Result<Output> {
        let mut command = Command::new(hpa_tests::harness::hpa_binary());
        command.args(["rules", "compare", "--right-insecure-skip-tls-verify"]);
        command.arg(format!("--right=https://127.0.0.1:{port}"));
        command.arg("--kubeconfig").arg(self.kubectl.dir().join("admin.kubeconfig"));
        command.arg("--right-token-file").arg(self.kubectl.dir().join("token"));
        Ok(command.output().await?)
    }
}

/// Whether a line `…: both list …` reports the same metrics on both sides, and at least one. Other
/// lines have no lists, and pass.
fn has_equal_list(line: &str) -> bool {
    let Some((_, lists)) = line.split_once("both list ") else { return true };
    !lists.starts_with("0 ") && lists.ends_with("only left 0, only right 0")
}

/// The flags of both adapters.
fn flags(dir: &Path, url: &str, port: u16, certificates: &str) -> Vec<String> {
    let kubeconfig = dir.join("admin.kubeconfig");
    let kubeconfig = kubeconfig.display();
    vec![
        format!("--config={}", dir.join("rules.yaml").display()),
        format!("--prometheus-url={url}"),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", dir.join(certificates).display()),
        format!("--lister-kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        "--metrics-relist-interval=5s".to_owned(),
        "--metrics-max-age=1m".to_owned(),
    ]
}

/// Starts a Prometheus that scrapes itself, and waits for its first samples.
async fn start_prometheus(dir: &Path) -> Result<(Process, String)> {
    let [port] = free_ports()?;
    let labels = "{namespace: shop, pod: web-0}";
    let config = format!(
        "global: {{scrape_interval: 1s}}\n\
         scrape_configs:\n\
         - job_name: self\n\
         \x20 static_configs: [{{targets: ['127.0.0.1:{port}'], labels: {labels}}}]\n"
    );
    let path = dir.join("prometheus.yaml");
    std::fs::write(&path, config)?;
    let mut command = Command::new("prometheus");
    command
        .arg(format!("--config.file={}", path.display()))
        .arg(format!("--storage.tsdb.path={}", dir.join("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let process = Process::start(dir, "prometheus", command)?;
    let url = format!("http://127.0.0.1:{port}");
    let client = Client::new(Settings::new("prometheus", &url)?, Arc::new(()))?;
    let query = InstantQuery {
        query: "prometheus_build_info".to_owned(),
        timeout: TimeoutParameter::default(),
    };
    let mut polls = interval(Duration::from_millis(100));
    let scraped = async {
        loop {
            polls.tick().await;
            let result = client.query(&query).await;
            if let Ok(QueryResult::Vector(Some(samples))) = result.as_deref()
                && !samples.is_empty()
            {
                return;
            }
        }
    };
    timeout(TIMEOUT, scraped).await.with_context(|| process.tail(20, ""))?;
    Ok((process, url))
}

/// The Service and `APIServices` of prometheus-adapter, and an autoscaler with custom and external
/// metrics.
fn compared_objects(port: u16) -> Value {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "prometheus-adapter", "namespace": "kube-system" },
        // The only type of Service that may refer to a loopback address.
        "spec": { "type": "ExternalName", "externalName": "localhost" },
    });
    let api = |group: &str| {
        json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": { "name": format!("v1beta1.{group}") },
            "spec": {
                "group": group, "version": "v1beta1",
                "groupPriorityMinimum": 100, "versionPriority": 100,
                "insecureSkipTLSVerify": true,
                "service": {
                    "namespace": "kube-system", "name": "prometheus-adapter", "port": port,
                },
            },
        })
    };
    let target = json!({ "type": "Value", "value": "1" });
    let described = json!({ "apiVersion": "v1", "kind": "Pod", "name": "web-0" });
    let metric = json!({ "name": "go_info" });
    let metrics = [
        objects::pods_metric("prometheus_build_info", "1"),
        objects::pods_metric("not_a_number", "1"),
        objects::external_metric("go_info", "1"),
        json!({
            "type": "Object",
            "object": { "describedObject": described, "metric": metric, "target": target },
        }),
    ];
    let items = [
        service,
        api("custom.metrics.k8s.io"),
        api("external.metrics.k8s.io"),
        objects::hpa("compared", 1..=9, metrics),
    ];
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}
