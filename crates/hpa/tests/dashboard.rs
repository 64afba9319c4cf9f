//! `hpa dashboard` against the testbed. The page itself is tested in the crate `hpa-dashboard`.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

mod dashboard_session;

use std::{
    net::{Ipv4Addr, SocketAddr},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{Router, http::StatusCode, routing::any};
use hpa_testbed::{Action, Config, Effect, RequestInfo, Testbed};
use hpa_tests::{
    harness::{
        NAMESPACE, REQUEST_RULES, ServedTestbed, SettableMetrics, TestbedExt, objects,
        prometheus_success, serve,
    },
    kube_apiserver::free_ports,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::dashboard_session::{DashboardSession, TIMEOUT};

fn start(served: &ServedTestbed, arguments: &[&str]) -> Child {
    served
        .command(env!("CARGO_BIN_EXE_hpa"), &["dashboard", "--no-open"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs")
}

/// Starts a controller with a debug API. Returns the flag with its URL for other commands.
fn start_controller(served: &ServedTestbed) -> (Child, String) {
    let [port] = free_ports().expect("a port");
    let debug_port = format!("--debug-port={port}");
    let flags = ["--debug-bind-address=127.0.0.1", &debug_port, "--allow-other-controller"];
    let controller = served.start_hpa(env!("CARGO_BIN_EXE_hpa"), &flags, &[]);
    (controller, format!("--controller-url=http://127.0.0.1:{port}"))
}

/// A testbed with the Deployment `web`, its two pods and its autoscaler.
fn testbed_with_web(config: Config, metric: Value) -> Testbed {
    let testbed = Testbed::new(config);
    testbed.apply_all([objects::namespace(), objects::running_deployment("web", 2)]);
    testbed.apply_all((0..2).map(|index| objects::pod("web", index)));
    testbed.apply_all([objects::hpa("web", 1..=4, [metric])]);
    testbed
}

#[tokio::test]
async fn page_is_served_with_the_rights_of_the_kubeconfig_until_a_signal() {
    let testbed = Testbed::new(Config::default());
    testbed.apply_all([objects::namespace()]);
    testbed.apply_all([objects::hpa("web", 1..=4, [objects::cpu_metric(60)])]);
    let served = ServedTestbed::new(&testbed).await;
    let mut child = start(&served, &["-n", NAMESPACE]);
    let session = DashboardSession::log_in(&mut child).await;
    assert!(session.host.starts_with("127.0.0.1:"), "{}", session.host);
    session.read_until("/api/autoscalers", "\"id\":\"core/shop/web\"").await;
    session.read_until("/api/about", "\"namespace\":\"shop\"").await;
    let pid = Pid::from_raw(i32::try_from(child.id().expect("a process")).expect("a pid"));
    kill_process(pid.expect("a pid"), Signal::TERM).expect("the program is running");
    let status = timeout(TIMEOUT, child.wait()).await.expect("in time").expect("a status");
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn missing_namespace_is_an_error_at_the_start() {
    let testbed = Testbed::new(Config::default());
    testbed.apply_all([objects::namespace()]);
    let served = ServedTestbed::new(&testbed).await;
    let output = start(&served, &["-n", "elsewhere"]).wait_with_output();
    let output = timeout(TIMEOUT, output).await.expect("in time").expect("output");
    let errors = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(errors, "hpa: the namespace elsewhere doesn't exist\n");
    assert!(!output.status.success() && output.stdout.is_empty(), "{}", output.status);
}

#[tokio::test]
async fn dead_api_server_is_reported_on_the_terminal_and_the_page() {
    let dir = tempfile::tempdir().expect("a directory");
    let [port] = free_ports().expect("a port");
    let kubeconfig = dir.path().join("kubeconfig");
    let config = Testbed::kubeconfig((Ipv4Addr::LOCALHOST, port).into());
    std::fs::write(&kubeconfig, config).expect("a file");
    let mut child = Command::new(env!("CARGO_BIN_EXE_hpa"))
        .args(["dashboard", "--no-open", "--kubeconfig"])
        .arg(&kubeconfig)
        .env_clear()
        .kill_on_drop(true)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let session = DashboardSession::log_in(&mut child).await;
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let line = timeout(TIMEOUT, lines.next_line()).await.expect("in time").expect("UTF-8");
    let line = line.expect("a line");
    let start = format!("hpa: The API server at 127.0.0.1:{port} has been unreachable since ");
    assert!(line.starts_with(&start) && line.matches("refused").count() == 1, "{line}");
    let sentence = line.strip_prefix("hpa: ").expect("a sentence");
    session.read_until("/api/autoscalers", &format!("\"{sentence}.\"")).await;
}

#[tokio::test]
async fn history_is_read_from_the_debug_api() {
    let metrics = Arc::new(SettableMetrics::new(60, 1));
    let config = Config { metrics: Some(metrics), ..Config::default() };
    let testbed = testbed_with_web(config, objects::cpu_metric(60));
    let served = ServedTestbed::new(&testbed).await;
    let (_controller, url) = start_controller(&served);
    let path = "/api/autoscaler?id=core/shop/web";

    let mut without = start(&served, &[]);
    let session = DashboardSession::log_in(&mut without).await;
    let missing = "The controller's records can't be read: the status was stored by an hpa-rs \
                   without leader election";
    session.read_until(path, missing).await;

    let mut child = start(&served, &[&url]);
    let session = DashboardSession::log_in(&mut child).await;
    let view = session.read_until(path, "\"historyKnown\":true").await;
    assert!(view.contains("cpu is at 60% of requests, target 60%"), "{view}");
    session.read_until(path, "\"decisions\":[{\"from\":").await;
}

/// The controller may not patch statuses.
#[tokio::test]
async fn statuses_that_cannot_be_stored_are_reported() {
    let refuse_status_writes = |request: &RequestInfo| {
        if request.resource != "horizontalpodautoscalers" || request.subresource != "status" {
            return Action::Pass;
        }
        Effect::status(403, "Forbidden", "cannot patch").into()
    };
    let config = Config {
        metrics: Some(Arc::new(SettableMetrics::new(60, 1))),
        interceptor: Some(Arc::new(refuse_status_writes)),
        ..Config::default()
    };
    let testbed = testbed_with_web(config, objects::cpu_metric(60));
    let served = ServedTestbed::new(&testbed).await;
    let (_controller, url) = start_controller(&served);

    let mut child = start(&served, &[&url, "--horizontal-pod-autoscaler-sync-period=1s"]);
    let session = DashboardSession::log_in(&mut child).await;
    let old = "Statuses may be old: the controller can't store the status of 1 autoscaler: ";
    session.read_until("/api/autoscalers", old).await;
    let in_list = "\"sentence\":\"the controller can't store the status: ";
    session.read_until("/api/autoscalers", in_list).await;
    let on_page = "The controller can't store its status, so the conditions are old: ";
    session.read_until("/api/autoscaler?id=core/shop/web", on_page).await;
    let run = async |arguments: &[&str]| {
        let mut command = served.command(env!("CARGO_BIN_EXE_hpa"), arguments);
        let output = command.arg(&url).kill_on_drop(true).output();
        let output = timeout(TIMEOUT, output).await.expect("in time").expect("the program runs");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let status = run(&["status"]).await;
    let error = "\n× the controller can't store the status of 1 autoscaler: ";
    assert!(status.contains(error), "{status}");
    let all = run(&["explain", "-A"]).await;
    assert!(all.starts_with(old), "{all}");
    assert!(all.contains("shop/web  its status is not stored: "), "{all}");
    let one = run(&["explain", "shop/web"]).await;
    let first = one.lines().next().unwrap_or_default();
    assert!(first.ends_with("; the controller can't store its status"), "{one}");
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
    let session = DashboardSession::log_in(&mut child).await;
    let first = "\"sentence\":\"Maybe no controller acts on this autoscaler; ";
    session.read_until("/api/autoscaler?id=core/shop/web", first).await;
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
    let metric = objects::pods_metric("http_requests_per_second", "10");
    let testbed = testbed_with_web(Config::default(), metric);
    let served = ServedTestbed::new(&testbed).await;
    let rules = served.dir.path().join("rules.yaml");
    std::fs::write(&rules, REQUEST_RULES).expect("a file");
    let rules = rules.display().to_string();
    let path = "/api/autoscaler?id=core/shop/web";

    let mut without = start(&served, &[]);
    let session = DashboardSession::log_in(&mut without).await;
    session.read_until(path, "http_requests_per_second cannot be read").await;

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
    let session = DashboardSession::log_in(&mut child).await;
    let missing = "Metrics can't be read: unable to discover the series of rules[0]";
    let view = session.read_until(path, missing).await;
    assert!(view.contains("the metrics of rules are not discovered yet"), "{view}");
    is_available.store(true, Ordering::SeqCst);
    let sentence = "stays at 2: http_requests_per_second is at 10 per pod, target 10";
    session.read_until(path, sentence).await;
    // The view no longer reports missing metrics.
    let view = session.read_until(path, sentence).await;
    assert!(!view.contains("Metrics can't be read"), "{view}");
}

#[tokio::test]
async fn rules_without_a_server_are_an_error() {
    let testbed = Testbed::new(Config::default());
    let served = ServedTestbed::new(&testbed).await;
    let rules = served.dir.path().join("rules.yaml");
    std::fs::write(&rules, REQUEST_RULES).expect("a file");
    let child = start(&served, &["--metrics-config", &rules.display().to_string()]);
    let output =
        timeout(TIMEOUT, child.wait_with_output()).await.expect("in time").expect("output");
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
    let output =
        timeout(TIMEOUT, child.wait_with_output()).await.expect("in time").expect("output");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains(&format!("unable to listen on 127.0.0.1:{port}")), "{error}");
    assert_eq!(output.status.code(), Some(1));
}
