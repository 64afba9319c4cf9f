//! The traces of the binary as a collector receives them, and a collector that fails.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests may panic"
)]

mod cluster;
mod collector;

use std::{
    collections::BTreeSet,
    fs,
    net::TcpListener,
    time::{Duration, Instant},
};

use axum::http::StatusCode;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::time::timeout;

use crate::{
    cluster::{ControllerProcess, LIMIT},
    collector::{Collector, attribute, span_error},
};

const FAST_RECONCILES: &str = "--horizontal-pod-autoscaler-sync-period=100ms";
const FAST_BATCHES: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "50");

/// The spans of the first reconcile of an autoscaler: the root, and its steps.
fn first_trace<'a>(spans: &'a [Span], hpa: &str) -> (&'a Span, Vec<&'a Span>) {
    let is_of_hpa = |span: &&Span| attribute(&span.attributes, "hpa").as_deref() == Some(hpa);
    let root = spans
        .iter()
        .filter(is_of_hpa)
        .min_by_key(|span| span.start_time_unix_nano)
        .expect("a trace");
    let is_step = |span: &&Span| span.trace_id == root.trace_id && span.span_id != root.span_id;
    (root, spans.iter().filter(is_step).collect())
}

fn attribute_of(span: &Span, name: &str) -> String {
    attribute(&span.attributes, name).unwrap_or_else(|| panic!("{name} of {span:?}"))
}

fn step_names<'a>(steps: &[&'a Span]) -> Vec<&'a str> {
    let mut steps = steps.to_vec();
    steps.sort_by_key(|step| step.start_time_unix_nano);
    let mut names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    names.dedup();
    names
}

#[tokio::test]
async fn reconcile_that_scales_has_a_span_per_step() {
    let collector = Collector::start().await;
    let mut controller =
        ControllerProcess::start(&["--otlp-endpoint", &collector.url()], &[]).await;
    controller.wait_for_status_writes(2).await;
    let (log, replicas) = controller.stop().await;
    assert_eq!(replicas, 2, "{log}");

    // Batches are sent every few seconds, and at exit.
    let spans = collector.spans();
    let (root, steps) = first_trace(&spans, "shop/web");
    assert_eq!((root.name.as_str(), root.parent_span_id.len()), ("reconcile", 0));
    assert_eq!(
        (attribute_of(root, "outcome"), attribute_of(root, "desired_replicas")),
        ("scaled".into(), "2".into())
    );
    assert!(attribute_of(root, "decision").starts_with("1 -> 2; "), "{root:?}");
    assert!(root.events.iter().any(|event| event.name == "scaled"), "{root:?}");
    // One metric failed. The others were sufficient to decide.
    assert!(span_error(root).is_some_and(|error| error.contains("broken")), "{root:?}");
    assert_eq!(
        step_names(&steps),
        ["read_target", "read_metric", "read_autoscaler", "write_scale", "write_status"]
    );
    for step in &steps {
        assert_eq!(step.parent_span_id, root.span_id, "{step:?}");
        let is_within = root.start_time_unix_nano <= step.start_time_unix_nano
            && step.start_time_unix_nano < step.end_time_unix_nano
            && step.end_time_unix_nano <= root.end_time_unix_nano;
        assert!(is_within, "{step:?} {root:?}");
    }
    let metrics: BTreeSet<_> = steps
        .iter()
        .filter(|step| step.name == "read_metric")
        .map(|step| {
            (
                attribute_of(step, "kind"),
                attribute_of(step, "api"),
                attribute_of(step, "metric"),
                span_error(step).is_some(),
            )
        })
        .collect();
    let expected = [
        ("ContainerResource", "metrics.k8s.io", "cpu", false),
        ("External", "external.metrics.k8s.io", "broken", true),
        ("External", "external.metrics.k8s.io", "jobs", false),
        ("Object", "custom.metrics.k8s.io", "hits", false),
        ("Pods", "custom.metrics.k8s.io", "requests", false),
        ("Resource", "metrics.k8s.io", "cpu", false),
    ];
    let expected =
        expected.map(|(kind, api, metric, fails)| (kind.into(), api.into(), metric.into(), fails));
    assert_eq!(metrics, BTreeSet::from(expected));
    let write = steps.iter().find(|step| step.name == "write_scale").unwrap();
    assert_eq!(
        (attribute_of(write, "name"), attribute_of(write, "replicas")),
        ("web".into(), "2".into())
    );
    assert_eq!(collector.resource_attribute("service.name").as_deref(), Some("hpa-controller"));
}

#[tokio::test]
async fn failed_step_sets_the_status_of_its_span_and_the_root() {
    let collector = Collector::start().await;
    let mut controller =
        ControllerProcess::start(&["--otlp-endpoint", &collector.url()], &[]).await;
    controller.wait_for_status_writes(2).await;
    controller.stop().await;

    let spans = collector.spans();
    let (root, steps) = first_trace(&spans, "shop/lost");
    assert_eq!(
        (attribute_of(root, "outcome"), step_names(&steps)),
        ("failed".into(), vec!["read_target", "write_status"])
    );
    let message = span_error(root).unwrap();
    assert!(message.contains("deployments.apps \"lost\" not found"), "{message}");
    let read = steps.iter().find(|step| step.name == "read_target").unwrap();
    assert_eq!(
        (attribute_of(read, "kind"), attribute_of(read, "name")),
        ("Deployment".into(), "lost".into())
    );
    assert!(span_error(read).is_some_and(|error| error.contains("not found")), "{read:?}");
    let write = steps.iter().find(|step| step.name == "write_status").unwrap();
    assert_eq!(span_error(write), None, "{write:?}");
}

#[tokio::test]
async fn environment_sets_endpoint_and_resource() {
    let collector = Collector::start().await;
    let endpoint = collector.url();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_SERVICE_NAME", "scaler"),
        ("OTEL_RESOURCE_ATTRIBUTES", "team=shop,service.name=other"),
        FAST_BATCHES,
    ];
    let controller = ControllerProcess::start(&[], &variables).await;
    // Traces are sent while the controller runs, not only at exit.
    let mut requests = collector.requests.subscribe();
    timeout(LIMIT, requests.wait_for(|requests| *requests > 0)).await.expect("in time").unwrap();
    controller.stop().await;
    assert_eq!(collector.resource_attribute("service.name").as_deref(), Some("scaler"));
    assert_eq!(collector.resource_attribute("team").as_deref(), Some("shop"));
}

#[tokio::test]
async fn certificate_of_the_collector_is_verified() {
    let (collector, certificate) = Collector::start_with_tls().await;
    let dir = tempfile::tempdir().unwrap();
    let trusted = dir.path().join("ca.crt").display().to_string();
    fs::write(&trusted, certificate).unwrap();
    let endpoint = format!("https://localhost:{}", collector.address.port());
    for (variables, arrives) in [(vec![], false), (vec![("SSL_CERT_FILE", trusted.as_str())], true)]
    {
        let mut controller =
            ControllerProcess::start(&["--otlp-endpoint", &endpoint], &variables).await;
        controller.wait_for_status_writes(2).await;
        let (log, replicas) = controller.stop().await;
        assert_eq!((log.contains("dropping traces"), replicas), (!arrives, 2), "{log}");
        assert_eq!(!collector.spans().is_empty(), arrives, "{log}");
    }
}

#[tokio::test]
async fn unsampled_or_disabled_traces_are_not_sent() {
    for variable in [("OTEL_TRACES_SAMPLER", "always_off"), ("OTEL_SDK_DISABLED", "true")] {
        let collector = Collector::start().await;
        let flags = ["--otlp-endpoint", &collector.url(), FAST_RECONCILES];
        let mut controller = ControllerProcess::start(&flags, &[variable, FAST_BATCHES]).await;
        controller.wait_for_scale_requests(5).await;
        let (log, replicas) = controller.stop().await;
        assert_eq!((*collector.requests.borrow(), replicas), (0, 2), "{log}");
    }
}

#[tokio::test]
async fn ratio_samples_whole_traces() {
    let collector = Collector::start().await;
    let flags = ["--otlp-endpoint", &collector.url(), FAST_RECONCILES];
    let variables = [("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0.5")];
    let mut controller = ControllerProcess::start(&flags, &variables).await;
    controller.wait_for_scale_requests(40).await;
    let scale_requests = controller.scale_requests.clone();
    controller.stop().await;
    let spans = collector.spans();
    let roots: Vec<_> = spans
        .iter()
        .filter(|span| attribute(&span.attributes, "hpa").as_deref() == Some("shop/web"))
        .collect();
    // One of the requests was the write. One in 2^38 such runs samples all reconciles, or none.
    let reconciles = *scale_requests.borrow() - 1;
    assert!((1..reconciles).contains(&roots.len()), "{} of {reconciles}", roots.len());
    for root in roots {
        let has_step = |name: &str| {
            spans.iter().any(|span| span.name == name && span.trace_id == root.trace_id)
        };
        assert!(has_step("read_target"), "{root:?}");
    }
}

#[tokio::test]
async fn unknown_sampler_is_rejected() {
    let flags = ["--otlp-endpoint", "http://127.0.0.1:9"];
    let mut controller =
        ControllerProcess::start(&flags, &[("OTEL_TRACES_SAMPLER", "sometimes")]).await;
    let (status, log) = controller.wait_for_exit().await;
    assert_eq!(
        (status.code(), log.as_str()),
        (Some(1), "hpa: OTEL_TRACES_SAMPLER sometimes is not supported\n")
    );
}

#[tokio::test]
async fn rejecting_collector_is_logged_once_and_when_it_accepts_again() {
    let collector = Collector::start().await;
    collector.status.send_replace(StatusCode::BAD_REQUEST);
    let mut requests = collector.requests.subscribe();
    let mut wait_for_requests = async |count: usize| {
        timeout(LIMIT, requests.wait_for(|requests| *requests >= count))
            .await
            .expect("in time")
            .unwrap();
    };
    let flags = ["--otlp-endpoint", &collector.url(), FAST_RECONCILES];
    let controller = ControllerProcess::start(&flags, &[FAST_BATCHES]).await;
    wait_for_requests(5).await;
    collector.status.send_replace(StatusCode::OK);
    let rejected = *collector.requests.borrow();
    wait_for_requests(rejected + 3).await;
    let (log, replicas) = controller.stop().await;
    assert_eq!(replicas, 2);
    let count = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!(
        count("dropping traces: unable to send them to the collector error=\"400 Bad Request\""),
        1,
        "{log}"
    );
    assert_eq!((count("sending traces to the collector again"), count("trace")), (1, 2), "{log}");
}

#[tokio::test]
async fn unreachable_collector_does_not_affect_reconciles() {
    // A port that nothing listens on.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let flags = ["--otlp-endpoint", &format!("http://{address}"), FAST_RECONCILES];
    let mut controller = ControllerProcess::start(&flags, &[FAST_BATCHES]).await;
    controller.wait_for_scale_requests(50).await;
    let (log, replicas) = controller.stop().await;
    assert_eq!(replicas, 2);
    let lines: Vec<_> = log.lines().filter(|line| line.contains("trace")).collect();
    assert!(matches!(lines[..], [line] if line.contains("Connection refused")), "{log}");
}

#[tokio::test]
async fn unresponsive_collector_does_not_delay_reconciles_or_exit() {
    // Connections are accepted by the kernel, but nothing reads from them.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let flags =
        ["--otlp-endpoint", &format!("http://{}", listener.local_addr().unwrap()), FAST_RECONCILES];
    // The queue is full almost at once.
    let variables =
        [FAST_BATCHES, ("OTEL_BSP_MAX_QUEUE_SIZE", "8"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "8")];
    let mut controller = ControllerProcess::start(&flags, &variables).await;
    controller.wait_for_scale_requests(50).await;
    let start = Instant::now();
    let (log, replicas) = controller.stop().await;
    // The timeout of a request is 10 s.
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    assert_eq!(replicas, 2);
    assert_eq!(log.lines().filter(|line| line.contains("dropping traces")).count(), 1, "{log}");
}
