//! `hpa explain` against the testbed, in the situations that users ask about most. Some tests also
//! run other commands that report the same problem.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

mod controllers;
mod decisions;
mod errors;
mod files;

use std::{process::Stdio, sync::Arc, time::Duration};

use hpa_testbed::{Config, Testbed};
use hpa_tests::harness::{NAMESPACE, ServedTestbed, SettableMetrics, TestbedExt, objects};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{ChildStdout, Command},
    time::timeout,
};

/// The CPU usage of every pod at first, in percent of its request.
const CPU_PERCENT: i64 = 60;
/// The value of the custom and external metrics.
const VALUE: i64 = 40;

/// A testbed with objects, and a kubeconfig for the program.
struct Cluster {
    testbed: Testbed,
    metrics: Arc<SettableMetrics>,
    served: ServedTestbed,
}

impl Cluster {
    async fn new(objects: impl IntoIterator<Item = Value>) -> Self {
        let metrics = Arc::new(SettableMetrics::new(CPU_PERCENT, VALUE));
        let config = Config { metrics: Some(metrics.clone()), ..Config::default() };
        let testbed = Testbed::new(config);
        testbed.apply_all([objects::namespace()]);
        testbed.apply_all(objects);
        let served = ServedTestbed::new(&testbed).await;
        Self { testbed, metrics, served }
    }

    /// Runs a program. Returns standard output, standard error, and whether it succeeded.
    async fn run(&self, program: &str, arguments: &[&str]) -> (String, String, bool) {
        let output = self.served.command(program, arguments).output().await;
        let output = output.expect("the program runs");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (text(output.stdout), text(output.stderr), output.status.success())
    }

    /// Runs `hpa`, as [`Self::run`] does.
    async fn hpa(&self, arguments: &[&str]) -> (String, String, bool) {
        self.run(env!("CARGO_BIN_EXE_hpa"), arguments).await
    }

    async fn explain(&self, arguments: &[&str]) -> String {
        let arguments: Vec<_> = ["explain"].iter().chain(arguments).copied().collect();
        let (output, error, is_success) = self.hpa(&arguments).await;
        assert!(is_success, "{error}");
        output
    }

    /// Writes a file for `--filename`. Returns its path.
    fn write_dump(&self, items: Vec<Value>) -> String {
        let file = self.served.dir.path().join("dump.json");
        let list = json!({ "kind": "List", "items": items });
        std::fs::write(&file, list.to_string()).expect("a file");
        file.display().to_string()
    }

    /// Checks that the explanation of the autoscaler `web` contains the texts.
    async fn expect(&self, texts: &[&str]) {
        let output = self.explain(&[&format!("{NAMESPACE}/web")]).await;
        for text in texts {
            assert!(output.contains(text), "{text:?} is not in:\n{output}");
        }
    }
}

/// The positions of the objects of [`web`].
const DEPLOYMENT: usize = 0;
const AUTOSCALER: usize = 1;
const FIRST_POD: usize = 2;

/// The Deployment `web`, its autoscaler, and its pods.
fn web(replicas: i64, metrics: Vec<Value>) -> Vec<Value> {
    let mut all =
        vec![objects::running_deployment("web", replicas), objects::hpa("web", 2..=10, metrics)];
    all.extend((0..replicas).map(|index| objects::pod("web", index)));
    all
}

/// The controller's event that another client changes the replicas of the target of `web`.
fn overwritten_event(at: Timestamp) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "ReplicasOverwritten",
        "metadata": { "name": "web.1", "namespace": NAMESPACE },
        "involvedObject": {
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "name": "web", "namespace": NAMESPACE,
        },
        "lastTimestamp": format!("{at:.0}"),
    })
}

/// Sets the annotation of a setting.
fn annotate(hpa: &mut Value, setting: &str, value: &str) {
    hpa["metadata"]["annotations"][format!("autoscaling.hpa-rs.dev/{setting}")] = json!(value);
}

/// Sets the status of an autoscaler. A condition is a type, status, reason and message.
fn set_status(hpa: &mut Value, replicas: i64, conditions: &[[&str; 4]]) {
    let condition = |[condition_type, status, reason, message]: &[&str; 4]| {
        json!({
            "type": condition_type, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    hpa["status"] = json!({
        "currentReplicas": replicas, "desiredReplicas": replicas, "conditions": conditions,
    });
}

/// The `CustomResourceDefinition` of the custom API.
fn custom_api_definition() -> Value {
    serde_json::to_value(hpa_calc::crd::definition().expect("a definition")).expect("JSON")
}

/// The objects of [`web`] with a change.
fn web_with(replicas: i64, metric: Value, change: impl FnOnce(&mut Vec<Value>)) -> Vec<Value> {
    let mut all = web(replicas, vec![metric]);
    change(&mut all);
    all
}

#[tokio::test]
async fn hpa_explains_as_a_kubectl_plugin() {
    let cluster = Cluster::new(web(4, vec![objects::cpu_metric(60)])).await;
    let plugin = cluster.served.dir.path().join("kubectl-hpa");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_hpa"), &plugin).expect("a link");
    let plugin = plugin.display().to_string();
    let (output, error, is_success) = cluster.run(&plugin, &["explain", "shop/web"]).await;
    assert!(is_success && output.starts_with("shop/web stays at 4"), "{output}{error}");
    let (_, error, is_success) = cluster.run(&plugin, &["explain"]).await;
    assert!(!is_success && error.contains("Usage: kubectl hpa explain"), "{error}");
}

#[tokio::test]
async fn kubectl_plugin_completes_flags() {
    let dir = tempfile::tempdir().expect("a directory");
    let completer = dir.path().join("kubectl_complete-hpa");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_hpa"), &completer).expect("a link");
    let output = Command::new(completer).args(["explain", "web", "--watc"]).output().await;
    let output = String::from_utf8(output.expect("the program runs").stdout).expect("UTF-8");
    let (candidates, directive) = output.split_once('\n').expect("a candidate");
    assert!(
        candidates.starts_with("--watch\tExplain again whenever the first sentence changes"),
        "{output}"
    );
    assert_eq!(directive, ":4\n");
}

#[tokio::test]
async fn rules_that_have_no_metric_of_the_autoscaler_are_not_waited_for() {
    let cluster = Cluster::new(web(4, vec![objects::cpu_metric(60)])).await;
    let rules = cluster.served.dir.path().join("rules.yaml");
    let text = "externalRules:\n- {seriesQuery: jobs, metricsQuery: sum(jobs)}\n";
    std::fs::write(&rules, text).expect("a file");
    // This server never answers.
    let prometheus = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    prometheus.set_nonblocking(true).expect("a socket");
    let address = prometheus.local_addr().expect("an address");
    let arguments = [
        format!("--metrics-config={}", rules.display()),
        format!("--prometheus-url=http://{address}"),
    ];
    let output = cluster.explain(&["shop/web", &arguments[0], &arguments[1]]).await;
    assert!(output.starts_with("shop/web stays at 4: cpu is at 60%"), "{output}");
    assert!(prometheus.accept().is_err(), "the program must not connect");
}

/// Waits for the first line of the next report.
async fn next_sentence(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    let sentence = async {
        loop {
            let line = lines.next_line().await.expect("output").expect("the program runs");
            if line.starts_with("shop/web ") {
                return line;
            }
        }
    };
    timeout(Duration::from_secs(100), sentence).await.expect("a report")
}

#[tokio::test]
async fn watch_prints_again_when_the_sentence_changes() {
    let cluster = Cluster::new(web(4, vec![objects::cpu_metric(60)])).await;
    let arguments =
        ["explain", "shop/web", "--watch", "--horizontal-pod-autoscaler-sync-period=1s"];
    let mut command = cluster.served.command(env!("CARGO_BIN_EXE_hpa"), &arguments);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let first = next_sentence(&mut lines).await;
    assert!(first.starts_with("shop/web stays at 4: cpu is at 60%"), "{first}");
    cluster.metrics.set_cpu_percent(120);
    let second = next_sentence(&mut lines).await;
    assert!(second.starts_with("shop/web would scale from 4 to 8: cpu is at 120%"), "{second}");
}
