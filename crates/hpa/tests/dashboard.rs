//! `hpa dashboard` against the testbed. The page itself is tested in the crate `hpa-dashboard`.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

use std::{
    net::SocketAddr,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{Router, http::StatusCode, routing::any};
use hpa_testbed::{Config, Testbed};
use hpa_tests::harness::{
    NAMESPACE, REQUEST_RULES, ServedTestbed, SettableMetrics, TestbedExt, objects,
    prometheus_success, serve,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    process::{Child, Command},
    time::timeout,
};

/// Timeout of every wait, more than ten times the expected duration.
const LIMIT: Duration = Duration::from_secs(60);

fn start(served: &ServedTestbed, arguments: &[&str]) -> Child {
    served
        .command(env!("CARGO_BIN_EXE_hpa"), &["dashboard", "--no-open"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs")
}

/// Reads the address that the program prints. Returns host and token.
async fn printed_address(child: &mut Child) -> (String, String) {
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let line = timeout(LIMIT, lines.next_line()).await.expect("in time");
    let line = line.expect("UTF-8").expect("a line");
    let address = line.strip_prefix("The dashboard is at http://").expect("an address");
    let (host, token) = address.split_once("/?token=").expect("a token");
    (host.to_owned(), token.to_owned())
}

/// Sends a request and reads the response until it contains a text.
async fn read_until(host: &str, path: &str, cookie: &str, text: &str) -> String {
    let mut stream = TcpStream::connect(host).await.expect("a connection");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut response = String::new();
    let read = async {
        while !response.contains(text) {
            let mut buffer = [0; 4096];
            let length = stream.read(&mut buffer).await.expect("a response");
            assert!(length > 0, "{text:?} is not in {response}");
            response.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
    };
    timeout(LIMIT, read).await.unwrap_or_else(|_| panic!("no {text:?} in time"));
    response
}

/// Exchanges the token for a cookie.
async fn log_in(host: &str, token: &str) -> String {
    let granted = read_until(host, &format!("/?token={token}"), "", "\r\n\r\n").await;
    let cookie = granted.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    cookie.and_then(|cookie| cookie.split(';').next()).expect("a cookie").to_owned()
}

#[tokio::test]
async fn page_is_served_with_the_rights_of_the_kubeconfig_until_a_signal() {
    let testbed = Testbed::new(Config::default());
    testbed.apply_all([objects::namespace()]);
    testbed.apply_all([objects::hpa("web", 1..=4, [objects::cpu_metric(60)])]);
    let served = ServedTestbed::new(&testbed).await;
    let mut child = start(&served, &["-n", NAMESPACE]);
    let (host, token) = printed_address(&mut child).await;
    assert!(host.starts_with("127.0.0.1:"), "{host}");
    let cookie = log_in(&host, &token).await;
    read_until(&host, "/api/autoscalers", &cookie, "\"id\":\"core/shop/web\"").await;
    let pid = Pid::from_raw(i32::try_from(child.id().expect("a process")).expect("a pid"));
    kill_process(pid.expect("a pid"), Signal::TERM).expect("the program is running");
    let status = timeout(LIMIT, child.wait()).await.expect("in time").expect("a status");
    assert!(status.success(), "{status}");
}

/// A port that is free now.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

#[tokio::test]
async fn dead_api_server_is_reported_once_on_the_terminal() {
    let dir = tempfile::tempdir().expect("a directory");
    let (port, kubeconfig) = (free_port(), dir.path().join("kubeconfig"));
    let server = format!("http://127.0.0.1:{port}");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": server } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        "users": [{ "name": "u", "user": {} }],
    });
    std::fs::write(&kubeconfig, config.to_string()).expect("a file");
    let mut child = Command::new(env!("CARGO_BIN_EXE_hpa"))
        .args(["dashboard", "--no-open", "--kubeconfig"])
        .arg(&kubeconfig)
        .env_clear()
        .kill_on_drop(true)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let (host, token) = printed_address(&mut child).await;
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let line = timeout(LIMIT, lines.next_line()).await.expect("in time").expect("UTF-8");
    let line = line.expect("a line");
    let start = format!("hpa: The API server at 127.0.0.1:{port} has been unreachable since ");
    assert!(line.starts_with(&start) && line.matches("refused").count() == 1, "{line}");
    let cookie = log_in(&host, &token).await;
    let sentence = line.strip_prefix("hpa: ").expect("a sentence");
    read_until(&host, "/api/autoscalers", &cookie, &format!("\"{sentence}.\"")).await;
}

#[tokio::test]
async fn history_is_read_from_the_debug_api() {
    let metrics = Arc::new(SettableMetrics::new(60, 1));
    let testbed = Testbed::new(Config { metrics: Some(metrics), ..Config::default() });
    testbed.apply_all([objects::namespace(), objects::running_deployment("web", 2)]);
    testbed.apply_all((0..2).map(|index| objects::pod("web", index)));
    testbed.apply_all([objects::hpa("web", 1..=4, [objects::cpu_metric(60)])]);
    let served = ServedTestbed::new(&testbed).await;
    let port = format!("--debug-port={}", free_port());
    let flags = ["--debug-bind-address=127.0.0.1", &port, "--allow-other-controller"];
    let _controller = served.start_hpa(env!("CARGO_BIN_EXE_hpa"), &flags, &[]);
    let path = "/api/autoscaler?id=core/shop/web";

    let mut without = start(&served, &[]);
    let (host, token) = printed_address(&mut without).await;
    let cookie = log_in(&host, &token).await;
    // The controller has no lease.
    let missing =
        "The controller's records can't be read: there is no lease kube-system/hpa-controller";
    read_until(&host, path, &cookie, missing).await;

    let url = port.replace("--debug-port=", "http://127.0.0.1:");
    let mut child = start(&served, &["--controller-url", &url]);
    let (host, token) = printed_address(&mut child).await;
    let cookie = log_in(&host, &token).await;
    let view = read_until(&host, path, &cookie, "\"historyKnown\":true").await;
    assert!(view.contains("cpu is at 60% of requests, target 60%"), "{view}");
    read_until(&host, path, &cookie, "\"decisions\":[{\"from\":").await;
}

#[tokio::test]
async fn page_says_first_that_kube_controller_manager_is_dead() {
    let testbed = Testbed::new(Config::default());
    let mut web = objects::hpa("web", 1..=4, [objects::cpu_metric(60)]);
    web["metadata"]["managedFields"] = json!([{
        "manager": "kube-controller-manager", "operation": "Update", "subresource": "status",
        "apiVersion": "autoscaling/v2", "fieldsType": "FieldsV1", "fieldsV1": {},
        "time": "2026-01-01T00:00:00Z",
    }]);
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "kube-controller-manager", "namespace": "kube-system" },
        "spec": {
            "holderIdentity": "a_1", "leaseDurationSeconds": 15,
            "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    });
    testbed.apply_all([objects::namespace(), objects::running_deployment("web", 2), web, lease]);
    let served = ServedTestbed::new(&testbed).await;
    let mut child = start(&served, &[]);
    let (host, token) = printed_address(&mut child).await;
    let cookie = log_in(&host, &token).await;
    let first = "\"sentence\":\"No controller acts on this autoscaler; ";
    read_until(&host, "/api/autoscaler?id=core/shop/web", &cookie, first).await;
}

/// A fake Prometheus with ten requests per second for each pod. It refuses to list series until
/// `is_available`.
async fn fake_prometheus(is_available: Arc<AtomicBool>) -> SocketAddr {
    let series = json!([
        { "__name__": "http_requests_total", "namespace": NAMESPACE, "pod": "web-0" },
    ]);
    let sample = |pod: &str| json!({ "metric": { "pod": pod }, "value": [1.0, "10"] });
    let samples = json!({ "resultType": "vector", "result": [sample("web-0"), sample("web-1")] });
    let list = async move || {
        let is_available = is_available.load(Ordering::SeqCst);
        is_available
            .then(|| prometheus_success(series.clone()))
            .ok_or(StatusCode::SERVICE_UNAVAILABLE)
    };
    let router = Router::new()
        .route("/api/v1/series", any(list))
        .route("/api/v1/query", any(async move || prometheus_success(samples.clone())));
    serve(router).await
}

#[tokio::test]
async fn metrics_of_rules_are_shown_as_soon_as_prometheus_is_available() {
    let testbed = Testbed::new(Config::default());
    testbed.apply_all([objects::namespace(), objects::running_deployment("web", 2)]);
    testbed.apply_all((0..2).map(|index| objects::pod("web", index)));
    let metric = objects::pods_metric("http_requests_per_second", "10");
    testbed.apply_all([objects::hpa("web", 1..=4, [metric])]);
    let served = ServedTestbed::new(&testbed).await;
    let rules = served.dir.path().join("rules.yaml");
    std::fs::write(&rules, REQUEST_RULES).expect("a file");
    let rules = rules.display().to_string();
    let path = "/api/autoscaler?id=core/shop/web";

    let mut without = start(&served, &[]);
    let (host, token) = printed_address(&mut without).await;
    let cookie = log_in(&host, &token).await;
    read_until(&host, path, &cookie, "http_requests_per_second cannot be read").await;

    let is_available = Arc::new(AtomicBool::new(false));
    let url = format!("http://{}", fake_prometheus(is_available.clone()).await);
    let flags = [
        "--metrics-config",
        &rules,
        "--prometheus-url",
        &url,
        "--metrics-relist-interval=1s",
        "--horizontal-pod-autoscaler-sync-period=1s",
    ];
    let mut child = start(&served, &flags);
    let (host, token) = printed_address(&mut child).await;
    let cookie = log_in(&host, &token).await;
    let missing = "Metrics can't be read: unable to discover the series of rules[0]";
    let view = read_until(&host, path, &cookie, missing).await;
    assert!(view.contains("the metrics of rules and collectors are not discovered yet"), "{view}");
    is_available.store(true, Ordering::SeqCst);
    let sentence = "stays at 2: http_requests_per_second is at 10 per pod, target 10";
    read_until(&host, path, &cookie, sentence).await;
    // The view no longer reports missing metrics.
    let view = read_until(&host, path, &cookie, sentence).await;
    assert!(!view.contains("Metrics can't be read"), "{view}");
}

#[tokio::test]
async fn rules_without_a_server_are_an_error() {
    let testbed = Testbed::new(Config::default());
    let served = ServedTestbed::new(&testbed).await;
    let rules = served.dir.path().join("rules.yaml");
    std::fs::write(&rules, REQUEST_RULES).expect("a file");
    let child = start(&served, &["--metrics-config", &rules.display().to_string()]);
    let output = timeout(LIMIT, child.wait_with_output()).await.expect("in time").expect("output");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("rules.yaml needs a server: add --prometheus-url"), "{error}");
    assert_eq!(output.status.code(), Some(1));
}

#[tokio::test]
async fn port_in_use_is_an_error() {
    let testbed = Testbed::new(Config::default());
    let served = ServedTestbed::new(&testbed).await;
    let port = served.address.port().to_string();
    let child = start(&served, &["--port", &port]);
    let output = timeout(LIMIT, child.wait_with_output()).await.expect("in time").expect("output");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains(&format!("unable to listen on 127.0.0.1:{port}")), "{error}");
    assert_eq!(output.status.code(), Some(1));
}
