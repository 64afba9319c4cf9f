//! `hpa rules check` with a server and a cluster: labels must contain the names of its objects.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use hpa_tests::kube_apiserver::{ADMIN, KubeApiserver, Options, assets};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, api::PostParams};
use serde_json::json;
use tokio::process::Command;

const RULES: &str = "
resourceRules:
  cpu: &usage
    containerQuery: sum(container_memory_working_set_bytes{<<.LabelMatchers>>}) by (<<.GroupBy>>)
    nodeQuery: sum(rabbitmq_queue_messages_ready{<<.LabelMatchers>>}) by (<<.GroupBy>>)
    resources:
      overrides: {namespace: {resource: namespace}, pod: {resource: pod}, node: {resource: node}}
    containerLabel: container
  memory: *usage
  window: 2m
";

/// A kube-apiserver to which the test adds nodes and pods.
struct Cluster(KubeApiserver);

impl Cluster {
    async fn create_node(&self, name: &str) -> Result<()> {
        let node: Node = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
        Api::all(self.0.client()).create(&PostParams::default(), &node).await?;
        Ok(())
    }

    async fn create_pod(&self, name: &str) -> Result<()> {
        let container = json!({ "name": "app", "image": "app" });
        let pod = json!({ "metadata": { "name": name }, "spec": { "containers": [container] } });
        let pod: Pod = serde_json::from_value(pod)?;
        let pods = Api::<Pod>::namespaced(self.0.client(), "default");
        pods.create(&PostParams::default(), &pod).await?;
        Ok(())
    }
}

/// Compares labels with nodes and pods. `None` if there is no API server.
pub(crate) async fn check(binary: &Path, url: &str) -> Option<Result<()>> {
    let assets = assets::find_or_skip()?;
    Some(compare(&assets, binary, url).await)
}

async fn compare(assets: &Path, binary: &Path, url: &str) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let options = Options::new(assets).without_admission_plugins(&["ServiceAccount"]);
    let cluster = Cluster(KubeApiserver::start(options, dir.path()).await?);
    let kubeconfig = dir.path().join("kubeconfig.json");
    std::fs::write(&kubeconfig, cluster.0.kubeconfig(ADMIN).to_string())?;
    let rules = dir.path().join("rules.yaml");
    std::fs::write(&rules, RULES)?;
    let run = async || {
        let mut command = Command::new(binary);
        command.args(["rules", "check", "--prometheus-url", url]).env_clear();
        command.arg("--kubeconfig").arg(&kubeconfig).arg(&rules);
        let output = command.output().await.context("hpa rules check")?;
        let text = String::from_utf8([output.stdout, output.stderr].concat())?;
        anyhow::Ok((text, output.status.success()))
    };
    cluster.create_node("node-a").await?;
    cluster.create_pod("other-0").await?;
    let (text, is_success) = run().await?;
    ensure!(!is_success, "{text}");
    for expected in [
        "cpu.nodeQuery: `node` is rabbit-1, but the nodes of the cluster have names such as node-a",
        "cpu.containerQuery: `pod` is web-1, but the pods of the cluster have names such as \
         other-0",
    ] {
        ensure!(text.contains(expected), "no {expected:?} in: {text}");
    }
    cluster.create_node("rabbit-2").await?;
    cluster.create_pod("web-1").await?;
    let (text, is_success) = run().await?;
    ensure!(is_success && text.contains("cpu.nodeQuery: nodes: 2, such as rabbit-1"), "{text}");
    Ok(())
}
