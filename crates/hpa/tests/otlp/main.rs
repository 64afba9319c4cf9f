//! Traces of the real binary, as a collector gets them, and what it does without one.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may stop where it was misled"
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
    cluster::{LIMIT, Running},
    collector::{Collector, attribute, error},
};

/// Reconciles follow each other closely.
const OFTEN: &str = "--horizontal-pod-autoscaler-sync-period=100ms";
/// So do batches.
const AT_ONCE: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "50");

/// The first reconcile of an autoscaler: its span, and those of its steps.
fn first_trace<'a>(spans: &'a [Span], hpa: &str) -> (&'a Span, Vec<&'a Span>) {
    let of_hpa = |span: &&Span| attribute(&span.attributes, "hpa").as_deref() == Some(hpa);
    let root =
        spans.iter().filter(of_hpa).min_by_key(|span| span.start_time_unix_nano).expect("a trace");
    let is_step = |span: &&Span| span.trace_id == root.trace_id && span.span_id != root.span_id;
    (root, spans.iter().filter(is_step).collect())
}

fn get(span: &Span, name: &str) -> String {
    attribute(&span.attributes, name).unwrap_or_else(|| panic!("{name} of {span:?}"))
}

fn names<'a>(steps: &[&'a Span]) -> Vec<&'a str> {
    let mut steps = steps.to_vec();
    steps.sort_by_key(|step| step.start_time_unix_nano);
    let mut names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    names.dedup();
    names
}

#[tokio::test]
async fn scaling_is_a_trace_with_a_span_for_each_step() {
    let collector = Collector::start().await;
    let mut running = Running::start(&["--otlp-endpoint", &collector.url()], &[]).await;
    running.has_written(2).await;
    let (log, replicas) = running.stop().await;
    assert_eq!(replicas, 2, "{log}");

    // A batch is due only after seconds: it is sent at the end.
    let spans = collector.spans();
    let (root, steps) = first_trace(&spans, "shop/web");
    assert_eq!((root.name.as_str(), root.parent_span_id.len()), ("reconcile", 0));
    assert_eq!(
        (get(root, "outcome"), get(root, "desired_replicas")),
        ("scaled".into(), "2".into())
    );
    assert!(get(root, "decision").starts_with("1 -> 2: "), "{root:?}");
    assert!(root.events.iter().any(|event| event.name == "scaled"), "{root:?}");
    // One metric failed, the others sufficed.
    assert!(error(root).is_some_and(|error| error.contains("broken")), "{root:?}");
    assert_eq!(
        names(&steps),
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
            (get(step, "kind"), get(step, "api"), get(step, "metric"), error(step).is_some())
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
    assert_eq!((get(write, "name"), get(write, "replicas")), ("web".into(), "2".into()));
    assert_eq!(collector.sender("service.name").as_deref(), Some("hpa-controller"));
}

#[tokio::test]
async fn failure_is_the_status_of_the_spans_that_failed() {
    let collector = Collector::start().await;
    let mut running = Running::start(&["--otlp-endpoint", &collector.url()], &[]).await;
    running.has_written(2).await;
    running.stop().await;

    let spans = collector.spans();
    let (root, steps) = first_trace(&spans, "shop/lost");
    assert_eq!(
        (get(root, "outcome"), names(&steps)),
        ("failed".into(), vec!["read_target", "write_status"])
    );
    let told = error(root).unwrap();
    assert!(told.contains("deployments.apps \"lost\" not found"), "{told}");
    let read = steps.iter().find(|step| step.name == "read_target").unwrap();
    assert_eq!((get(read, "kind"), get(read, "name")), ("Deployment".into(), "lost".into()));
    assert!(error(read).is_some_and(|error| error.contains("not found")), "{read:?}");
    let write = steps.iter().find(|step| step.name == "write_status").unwrap();
    assert_eq!(error(write), None, "{write:?}");
}

#[tokio::test]
async fn environment_says_where_to_and_by_whom() {
    let collector = Collector::start().await;
    let endpoint = collector.url();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_SERVICE_NAME", "scaler"),
        ("OTEL_RESOURCE_ATTRIBUTES", "team=shop,service.name=other"),
        AT_ONCE,
    ];
    let running = Running::start(&[], &variables).await;
    // While it runs, too.
    let mut requests = collector.requests.subscribe();
    timeout(LIMIT, requests.wait_for(|requests| *requests > 0)).await.expect("in time").unwrap();
    running.stop().await;
    assert_eq!(collector.sender("service.name").as_deref(), Some("scaler"));
    assert_eq!(collector.sender("team").as_deref(), Some("shop"));
}

#[tokio::test]
async fn collector_with_tls_has_to_be_trusted() {
    let (collector, certificate) = Collector::start_with_tls().await;
    let folder = tempfile::tempdir().unwrap();
    let trusted = folder.path().join("ca.crt").display().to_string();
    fs::write(&trusted, certificate).unwrap();
    let endpoint = format!("https://localhost:{}", collector.address.port());
    for (variables, arrives) in [(vec![], false), (vec![("SSL_CERT_FILE", trusted.as_str())], true)]
    {
        let mut running = Running::start(&["--otlp-endpoint", &endpoint], &variables).await;
        running.has_written(2).await;
        let (log, replicas) = running.stop().await;
        assert_eq!((log.contains("traces are lost"), replicas), (!arrives, 2), "{log}");
        assert_eq!(!collector.spans().is_empty(), arrives, "{log}");
    }
}

#[tokio::test]
async fn nothing_is_sent_that_is_not_sampled() {
    for variable in [("OTEL_TRACES_SAMPLER", "always_off"), ("OTEL_SDK_DISABLED", "true")] {
        let collector = Collector::start().await;
        let flags = ["--otlp-endpoint", &collector.url(), OFTEN];
        let mut running = Running::start(&flags, &[variable, AT_ONCE]).await;
        running.has_looked(5).await;
        let (log, replicas) = running.stop().await;
        assert_eq!((*collector.requests.borrow(), replicas), (0, 2), "{log}");
    }
}

#[tokio::test]
async fn ratio_samples_whole_traces() {
    let collector = Collector::start().await;
    let flags = ["--otlp-endpoint", &collector.url(), OFTEN];
    let variables = [("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0.5")];
    let mut running = Running::start(&flags, &variables).await;
    running.has_looked(40).await;
    let looks = running.looks.clone();
    running.stop().await;
    let spans = collector.spans();
    let roots: Vec<_> = spans
        .iter()
        .filter(|span| attribute(&span.attributes, "hpa").as_deref() == Some("shop/web"))
        .collect();
    // One of the looks was no reconcile. One in 2^38 such runs has all sampled, or none.
    assert!(
        (1..*looks.borrow() - 1).contains(&roots.len()),
        "{} of {}",
        roots.len(),
        *looks.borrow()
    );
    for root in roots {
        let of_trace = |name: &str| {
            spans.iter().any(|span| span.name == name && span.trace_id == root.trace_id)
        };
        assert!(of_trace("read_target"), "{root:?}");
    }
}

#[tokio::test]
async fn sampler_that_is_unknown_is_refused() {
    let flags = ["--otlp-endpoint", "http://127.0.0.1:9"];
    let mut running = Running::start(&flags, &[("OTEL_TRACES_SAMPLER", "sometimes")]).await;
    let (status, log) = running.end().await;
    assert_eq!(
        (status.code(), log.as_str()),
        (Some(1), "hpa: OTEL_TRACES_SAMPLER sometimes is not supported\n")
    );
}

#[tokio::test]
async fn collector_that_refuses_is_told_of_once() {
    let collector = Collector::start().await;
    collector.answer.send_replace(StatusCode::BAD_REQUEST);
    let mut requests = collector.requests.subscribe();
    let mut has_asked = async |times: usize| {
        timeout(LIMIT, requests.wait_for(|requests| *requests >= times))
            .await
            .expect("in time")
            .unwrap();
    };
    let flags = ["--otlp-endpoint", &collector.url(), OFTEN];
    let running = Running::start(&flags, &[AT_ONCE]).await;
    has_asked(5).await;
    collector.answer.send_replace(StatusCode::OK);
    let so_far = *collector.requests.borrow();
    has_asked(so_far + 3).await;
    let (log, replicas) = running.stop().await;
    assert_eq!(replicas, 2);
    let told = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!(
        told("traces are lost: the collector does not take them error=\"400 Bad Request\""),
        1,
        "{log}"
    );
    assert_eq!((told("the collector takes traces again"), told("trace")), (1, 2), "{log}");
}

#[tokio::test]
async fn collector_that_is_not_there_changes_nothing() {
    // A port that nobody listens on.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let flags = ["--otlp-endpoint", &format!("http://{address}"), OFTEN];
    let mut running = Running::start(&flags, &[AT_ONCE]).await;
    running.has_looked(50).await;
    let (log, replicas) = running.stop().await;
    assert_eq!(replicas, 2);
    let told: Vec<_> = log.lines().filter(|line| line.contains("trace")).collect();
    assert!(matches!(told[..], [line] if line.contains("Connection refused")), "{log}");
}

#[tokio::test]
async fn collector_that_does_not_answer_holds_up_nothing() {
    // It accepts, and that is all.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let flags = ["--otlp-endpoint", &format!("http://{}", listener.local_addr().unwrap()), OFTEN];
    // There is no room for what waits.
    let variables =
        [AT_ONCE, ("OTEL_BSP_MAX_QUEUE_SIZE", "8"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "8")];
    let mut running = Running::start(&flags, &variables).await;
    running.has_looked(50).await;
    let begun = Instant::now();
    let (log, replicas) = running.stop().await;
    // The deadline of a request is 10 s.
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert_eq!(replicas, 2);
    assert_eq!(log.lines().filter(|line| line.contains("traces are lost")).count(), 1, "{log}");
}
