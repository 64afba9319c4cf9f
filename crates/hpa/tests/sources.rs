//! `hpa explain`, `hpa dashboard` and `hpa lint` on metrics that the controller reads in its
//! process: by collectors and from scaling schedules.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

mod dashboard_session;

use std::{net::SocketAddr, process::Stdio};

use axum::{
    Json, Router,
    routing::{any, get},
};
use hpa_testbed::{Config, Testbed};
use hpa_tests::harness::{
    NAMESPACE, ServedTestbed, TestbedExt, objects, prometheus_success, serve,
};
use serde_json::{Value, json};

use crate::dashboard_session::DashboardSession;

/// Each autoscaler with its metric, and the text about the metric's value.
const CASES: [(&str, &str, &str); 4] = [
    ("web", "rps", "rps is at 30 per pod, target 10"),
    ("mail", "mails", "mails is at 15 per pod, target 10"),
    ("orders", "waiting", "waiting of Service/jobs is at 20 per pod, target 10"),
    ("night", "scheduled", "scheduled of ScalingSchedule/evening is at 25 per pod, target 10"),
];

/// Serves a JSON document and the query API of Prometheus.
async fn serve_documents() -> SocketAddr {
    let samples =
        json!({ "resultType": "vector", "result": [{ "metric": {}, "value": [1.0, "40"] }] });
    let router = Router::new()
        .route("/metrics", get(async || Json(json!({ "stats": { "rps": 30 } }))))
        .route("/api/v1/query", any(async move || prometheus_success(samples.clone())));
    serve(router).await
}

/// An autoscaler with `current` as the current metric in its status.
fn autoscaler(name: &str, metric: &Value, current: &Value, annotations: &[(&str, &str)]) -> Value {
    let hpa = objects::hpa(name, 1..=9, [metric.clone()]);
    let mut hpa = objects::with_collector_annotations(hpa, annotations);
    hpa["status"] = json!({
        "currentReplicas": 2, "desiredReplicas": 2, "currentMetrics": [current],
        "conditions": [{
            "type": "ScalingActive", "status": "True", "reason": "ValidMetricFound",
            "message": "found", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    });
    hpa
}

/// An object metric, and its entry in the status.
fn object_metric(api_version: &str, kind: &str, name: &str, metric: &str) -> (Value, Value) {
    let described = json!({ "apiVersion": api_version, "kind": kind, "name": name });
    let metric = json!({ "name": metric });
    let member = |name: &str, value: Value| {
        json!({ "type": "Object",
            "object": { "describedObject": described, "metric": metric, name: value } })
    };
    (
        member("target", json!({ "type": "AverageValue", "averageValue": "10" })),
        member("current", json!({ "averageValue": "11" })),
    )
}

fn cluster(address: SocketAddr) -> Testbed {
    let testbed = Testbed::new(Config::default());
    testbed.apply_all(
        hpa_collectors::schedules::definition::schedule_definitions().expect("definitions"),
    );
    testbed.apply_all([objects::namespace()]);
    for (name, _, _) in CASES {
        let pods = (0..2).map(|index| {
            let mut pod = objects::pod(name, index);
            pod["status"]["podIP"] = "127.0.0.1".into();
            pod
        });
        testbed.apply_all([objects::running_deployment(name, 2)]);
        testbed.apply_all(pods);
    }
    let current = |kind: &str, name: &str| {
        json!({ "type": kind, kind.to_lowercase():
            { "metric": { "name": name }, "current": { "averageValue": "11" } } })
    };
    let mut mails = objects::external_metric("mails", "10");
    mails["external"]["metric"]["selector"]["matchLabels"]["type"] = "json-path".into();
    let (waiting, waiting_now) = object_metric("v1", "Service", "jobs", "waiting");
    let (scheduled, scheduled_now) =
        object_metric("zalando.org/v1", "ScalingSchedule", "evening", "scheduled");
    let (port, endpoint) = (address.port().to_string(), format!("http://{address}/metrics"));
    testbed.apply_all([
        autoscaler(
            "web",
            &objects::pods_metric("rps", "10"),
            &current("Pods", "rps"),
            &[
                ("pods.rps.json-path/json-key", "$.stats.rps"),
                ("pods.rps.json-path/path", "/metrics"),
                ("pods.rps.json-path/port", &port),
            ],
        ),
        autoscaler(
            "mail",
            &mails,
            &current("External", "mails"),
            &[
                ("external.mails.json-path/json-key", "$.stats.rps"),
                ("external.mails.json-path/endpoint", &endpoint),
            ],
        ),
        autoscaler(
            "orders",
            &waiting,
            &waiting_now,
            &[("object.waiting.prometheus/query", "sum(jobs_waiting)")],
        ),
        autoscaler("night", &scheduled, &scheduled_now, &[]),
    ]);
    let entry = json!({
        "type": "OneTime", "date": "2020-01-01T00:00:00Z", "durationMinutes": 99_999_999,
        "value": 50,
    });
    testbed.apply_all([json!({
        "apiVersion": "zalando.org/v1", "kind": "ScalingSchedule",
        "metadata": { "name": "evening", "namespace": NAMESPACE },
        "spec": { "scalingWindowDurationMinutes": 0, "schedules": [entry] },
    })]);
    testbed
}

/// Removes the statuses of all autoscalers, as if no controller had read their metrics yet.
fn clear_statuses(testbed: &Testbed) {
    for (name, _, _) in CASES {
        let mut hpa = testbed.hpa(name).expect("an autoscaler");
        hpa["status"] = json!({});
        testbed.apply_all([hpa]);
    }
}

/// The flags with which the controller reads all metrics of [`CASES`].
fn flags(address: SocketAddr) -> Vec<String> {
    let prometheus = format!("--prometheus-url=http://{address}");
    let flags = ["--collectors", "--collector-address=127.0.0.1", "--scaling-schedule"];
    flags.iter().map(|flag| (*flag).to_owned()).chain([prometheus]).collect()
}

/// Runs a command, which must not write to standard error. Returns its standard output.
async fn run(served: &ServedTestbed, arguments: &[&str], flags: &[String]) -> String {
    let flags = flags.iter().map(String::as_str);
    let arguments: Vec<_> = arguments.iter().copied().chain(flags).collect();
    let output = served.command(env!("CARGO_BIN_EXE_hpa"), &arguments).output().await;
    let output = output.expect("the program runs");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_reads_the_sources_that_the_flags_configure() {
    let address = serve_documents().await;
    let served = ServedTestbed::new(&cluster(address)).await;
    let flags = flags(address);
    for (name, metric, expected) in CASES {
        let name = format!("{NAMESPACE}/{name}");
        let output = run(&served, &["explain", &name], &[]).await;
        let first = output.lines().next().unwrap_or_default();
        assert!(
            first.starts_with(&format!("{name} has 2 replicas, 2 desired: {metric}"))
                && first.contains("as the controller last reported; this can't be read here: "),
            "{first}"
        );
        let flag = if name.ends_with("night") { "--scaling-schedule" } else { "--collectors" };
        let rest = if name.ends_with("orders") { ", with --prometheus-url or" } else { "." };
        let advice = format!("If the controller runs with {flag}, use its flags here{rest}");
        assert!(output.contains(&advice), "{output}");
        let output = run(&served, &["explain", &name], &flags).await;
        let first = output.lines().next().unwrap_or_default();
        assert!(first.starts_with(&format!("{name} would scale from 2 to ")), "{output}");
        assert!(first.contains(expected), "{output}");
        assert!(first.contains("; the controller last desired 2 with "), "{output}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_reports_why_a_source_cannot_be_read() {
    let address = serve_documents().await;
    let served = ServedTestbed::new(&cluster(address)).await;
    // The loopback address is not allowed.
    let output = run(&served, &["explain", "shop/mail"], &["--collectors".to_owned()]).await;
    let expected =
        "this can't be read here: unable to fetch metrics: the request to http://127.0.0.1:";
    assert!(output.contains(expected), "{output}");
    assert!(output.contains("127.0.0.1 is a loopback address"), "{output}");
    let expected = "The controller had a value of mails in its last status. The collector \
                    json-path may not read the address in the message: correct the annotations";
    assert!(output.contains(expected), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn advice_names_the_failing_collector() {
    let address = serve_documents().await;
    let testbed = cluster(address);
    clear_statuses(&testbed);
    let served = ServedTestbed::new(&testbed).await;
    let collectors_on = ["--collectors".to_owned()];
    let mails = "annotations metric-config.external.mails.json-path/*";
    let explain = async |name: &str, flags: &[String], expected: &str| {
        let output = run(&served, &["explain", &format!("{NAMESPACE}/{name}")], flags).await;
        assert!(output.contains(expected), "{expected:?} is not in {output}");
        for other in ["kubectl get apiservices", "get --raw", "the log of its adapter"] {
            assert!(!output.contains(other), "{output}");
        }
    };
    // The loopback address is not allowed.
    let refused = "The collector json-path may not read the address in the message: correct the ";
    let expected = format!("{refused}{mails}. If it should read that address, add --collector-");
    explain("mail", &collectors_on, &expected).await;
    explain("web", &collectors_on, refused).await;
    let expected = "waiting needs the collector prometheus (annotations \
                    metric-config.object.waiting.prometheus/*), which is off: add --prometheus-url";
    explain("orders", &collectors_on, expected).await;
    let expected = "scheduled is the value of ScalingSchedule evening. If the controller runs with \
                    --scaling-schedule";
    explain("night", &collectors_on, expected).await;
    let expected =
        format!("The {mails} are settings of the collector json-path. If the controller runs");
    explain("mail", &[], &expected).await;

    let mut mail = testbed.hpa("mail").expect("an autoscaler");
    let annotations = mail["metadata"]["annotations"].as_object_mut().expect("annotations");
    annotations.remove("metric-config.external.mails.json-path/json-key").expect("a key");
    testbed.apply_all([mail]);
    let invalid = |controller: &str| {
        format!(
            "Correct the {mails}: config value json-key or json-eval not found. No collector reads \
             the metric until then, and {controller} reports it as an event: kubectl get events \
             --namespace shop --field-selector reason=CreateNewMetricsCollector,\
             involvedObject.name=mail"
        )
    };
    explain("mail", &collectors_on, &invalid("the controller")).await;
    explain("mail", &[], &invalid("the controller, if it has --collectors,")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lint_accepts_the_sources_that_the_flags_configure() {
    let address = serve_documents().await;
    let testbed = cluster(address);
    clear_statuses(&testbed);
    let served = ServedTestbed::new(&testbed).await;
    let output = run(&served, &["lint", "-A"], &[]).await;
    for (name, _, _) in CASES {
        let flag = if name == "night" { "--scaling-schedule" } else { "--collectors" };
        let finding = format!("shop/{name}: spec.metrics[0]: ");
        let line = output.lines().find(|line| line.contains(&finding)).expect(&output);
        assert!(line.contains(": the cluster has no API "), "{line}");
        let hint = format!("if the controller runs with {flag}, add it here");
        assert!(line.contains(&hint), "{line}");
    }
    let output = run(&served, &["lint", "-A"], &flags(address)).await;
    assert!(!output.contains("has no API"), "{output}");
    // Without the URL of Prometheus, the collector `prometheus` is off.
    let output = run(&served, &["lint", "-A"], &flags(address)[..3]).await;
    assert_eq!(output.matches("has no API").count(), 1, "{output}");
    assert!(output.contains("shop/orders: spec.metrics[0]: "), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dashboard_reads_the_sources_that_the_flags_configure() {
    let address = serve_documents().await;
    let served = ServedTestbed::new(&cluster(address)).await;
    let flags = flags(address);
    let arguments: Vec<&str> =
        ["dashboard", "--no-open"].into_iter().chain(flags.iter().map(String::as_str)).collect();
    let mut command = served.command(env!("CARGO_BIN_EXE_hpa"), &arguments);
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("a process");
    let session = DashboardSession::log_in(&mut child).await;
    for (name, _, expected) in CASES {
        let path = format!("/api/autoscaler?id=core/shop/{name}");
        session.read_until(&path, expected).await;
    }
}
