//! `hpa adapter`: its log at the start, and its probes.

#![allow(clippy::expect_used, clippy::panic, reason = "a test may fail")]

use std::{net::Ipv4Addr, process::Stdio, time::Duration};

use axum::{Router, routing::any};
use hpa_testbed::{Config, Testbed};
use hpa_tests::{
    harness::{REQUEST_RULES, ServedTestbed, http_get, prometheus_success, serve},
    kube_apiserver::free_ports,
};
use rstest::rstest;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    net::TcpStream,
    process::{Child, ChildStderr, Command},
    time::timeout,
};

const TIMEOUT: Duration = Duration::from_secs(100);

/// A running adapter.
struct Adapter {
    log: String,
    lines: Lines<BufReader<ChildStderr>>,
    _process: Child,
    _served: ServedTestbed,
}

impl Adapter {
    /// Starts the adapter with a flag and a Prometheus without series, and waits until it serves.
    async fn start(flag: &str) -> Self {
        let router = Router::new()
            .route("/api/v1/series", any(async || prometheus_success(json!([]))))
            .route("/api/v1/query", any(async || prometheus_success(json!({}))));
        let prometheus = serve(router).await;
        Self::start_with(&[&format!("--prometheus-url=http://{prometheus}"), flag]).await
    }

    /// Starts the adapter with these flags, and waits until it serves.
    async fn start_with(flags: &[&str]) -> Self {
        let mut adapter = Self::spawn(REQUEST_RULES, flags).await;
        adapter.wait_for_line(|line| line.contains(" groups=") && line.contains("serving")).await;
        adapter
    }

    async fn spawn(rules_file: &str, flags: &[&str]) -> Self {
        let served = ServedTestbed::new(&Testbed::new(Config::default())).await;
        let rules = served.dir.path().join("rules.yaml");
        std::fs::write(&rules, rules_file).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_hpa"));
        command.current_dir(served.dir.path()).env_clear().kill_on_drop(true).args([
            "adapter",
            "--secure-port=0",
            "--bind-address=127.0.0.1",
            "--cert-dir=certificates",
            "--authentication-skip-lookup",
            "--config=rules.yaml",
        ]);
        command.arg(format!("--lister-kubeconfig={}", served.kubeconfig.display()));
        command.args(flags);
        let mut process = command.stderr(Stdio::piped()).spawn().expect("the program runs");
        let lines = BufReader::new(process.stderr.take().expect("a log")).lines();
        Self { log: String::new(), lines, _process: process, _served: served }
    }

    async fn wait_for_line(&mut self, is_expected: impl Fn(&str) -> bool) -> String {
        let read = async {
            while let Some(line) = self.lines.next_line().await.expect("UTF-8") {
                self.log += &(line.clone() + "\n");
                if is_expected(&line) {
                    return line;
                }
            }
            panic!("ended: {}", self.log);
        };
        timeout(TIMEOUT, read).await.expect("in time")
    }

    /// Returns the port of the metrics APIs, as logged.
    fn port(&self) -> u16 {
        let line = self.log.lines().find(|line| line.contains(" groups=")).expect("a line");
        let (_, rest) = line.split_once("127.0.0.1:").expect("an address");
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().expect("a port")
    }
}

/// prometheus-adapter starts with each of these values too.
#[rstest]
#[case::client_go_default("--client-qps=0", Some("--client-qps=0 means 5 requests a second"))]
#[case::no_limit("--client-qps=-1", None)]
#[case::limit("--client-qps=0.5", None)]
#[case::no_interval(
    "--metrics-relist-interval=0s",
    Some("--metrics-relist-interval is too short; using 1s")
)]
#[case::interval("--metrics-relist-interval=1s", None)]
#[tokio::test(flavor = "multi_thread")]
async fn flag_with_a_replaced_value_is_a_warning(
    #[case] flag: &str,
    #[case] warning: Option<&str>,
) {
    let Adapter { log, .. } = Adapter::start(flag).await;
    let name = flag.split('=').next().unwrap_or_default();
    match warning {
        Some(warning) => assert!(log.contains(warning), "{log}"),
        None => assert!(!log.contains(name), "{log}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn log_reports_whether_prometheus_is_reachable() {
    let mut adapter = Adapter::start_with(&["--prometheus-url=http://127.0.0.1:1"]).await;
    let refused = "Prometheus can't be read, retrying";
    let line = adapter.wait_for_line(|line| line.contains(refused)).await;
    assert!(line.contains(" WARN ") && line.contains("http://127.0.0.1:1"), "{line}");
    let mut adapter = Adapter::start("--metrics-relist-interval=1h").await;
    let line = adapter.wait_for_line(|line| line.contains("Prometheus is reachable")).await;
    assert!(line.contains(" INFO ") && line.contains("rules=1"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_because_of_an_invalid_rule_has_its_cause() {
    let rules = REQUEST_RULES.replace("pod: {resource: pod}", "pod: {resource: pood}");
    let flags = ["--compat=prometheus-adapter", "--prometheus-url=http://127.0.0.1:1"];
    let mut adapter = Adapter::spawn(&rules, &flags).await;
    let line = adapter.wait_for_line(|line| line.contains("exiting")).await;
    let field = "rules[0].resources.overrides.pod: ";
    assert!(line.contains(field) && line.contains("no matches for"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_clients_do_not_block_the_port_of_the_probes() {
    let [port] = free_ports().expect("a port");
    let adapter = Adapter::start(&format!("--health-port={port}")).await;
    let mut idle = Vec::new();
    // More than the adapter keeps open for unknown clients.
    for _ in 0..600 {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, adapter.port())).await;
        idle.push(stream.expect("a connection"));
    }
    for path in ["/livez", "/healthz", "/readyz"] {
        let response = http_get(port, path).await;
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {response}");
    }
    // Nothing else is served without TLS and authentication.
    for path in ["/metrics", "/apis", "/apis/custom.metrics.k8s.io/v1beta2", "/"] {
        let response = http_get(port, path).await;
        assert!(response.starts_with("HTTP/1.1 404 Not Found\r\n"), "{path}: {response}");
    }
}
