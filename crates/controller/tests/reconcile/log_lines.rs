//! The log lines of reconciles.

use std::{
    io,
    sync::{Arc, LazyLock},
};

use async_trait::async_trait;
use hpa_calc::{
    HorizontalPodAutoscaler, MilliValue,
    readings::{MetricQuery, MetricsApi, ReadError, Reading},
    selector::Selector,
};
use hpa_controller::{cache::Origin, reconcile::Reconciler};
use hpa_metrics::MetricsClient;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::{Dispatch, Level};

use crate::{
    fixture::{hpa, key, reconciler, server, usage},
    server::Server,
};

#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl io::Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// tracing caches whether a log line is enabled. While only one subscriber exists, the thread that
/// first reaches the line decides for all. If that thread runs a test without a subscriber, the
/// line stays disabled. With two subscribers, tracing asks both.
static OTHER_SUBSCRIBER: LazyLock<Dispatch> =
    LazyLock::new(|| Dispatch::new(tracing_subscriber::registry()));

/// The lines that a reconcile logs, without timestamps.
async fn log_lines_of(reconciler: &Reconciler, level: Level) -> Vec<String> {
    LazyLock::force(&OTHER_SUBSCRIBER);
    let lines = LogBuffer::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    reconciler.reconcile(&key()).await;
    drop(guard);
    let text = String::from_utf8(lines.0.lock().clone()).expect("text");
    text.lines().map(|line| line.trim_start().to_owned()).collect()
}

async fn info_lines_of(server: Server, metrics: impl MetricsClient + 'static) -> Vec<String> {
    let server = Arc::new(Mutex::new(server));
    let metrics = Arc::new(metrics);
    log_lines_of(&Reconciler { metrics, ..reconciler(&server) }, Level::INFO).await
}

/// A metrics API that fails with this message.
struct FailingMetrics(&'static str);

const UNAVAILABLE: FailingMetrics =
    FailingMetrics("the server is currently unable to handle the request");

#[async_trait]
impl MetricsClient for FailingMetrics {
    async fn read(&self, _: &str, _: &Selector, _: &MetricQuery) -> Result<Reading, ReadError> {
        Err(ReadError::Fetch { api: MetricsApi::Resource, message: self.0.to_owned() })
    }
}

#[tokio::test]
async fn scaling_is_logged_with_a_sentence() {
    assert_eq!(
        info_lines_of(server(), usage(100)).await,
        ["INFO reconcile{hpa=shop/web}: scaled current=2 desired=4 \
          decision=cpu is at 100% of requests, target 50%"]
    );
}

#[tokio::test]
async fn failed_metric_is_logged_without_repeating_its_cause() {
    let lines = info_lines_of(server(), UNAVAILABLE).await;
    assert_eq!(
        lines,
        ["WARN reconcile{hpa=shop/web}: reconcile failed error=cpu cannot be read: the \
          server is currently unable to handle the request"]
    );
}

#[tokio::test]
async fn cause_of_a_failure_is_escaped_once() {
    let metrics = FailingMetrics("no result of sum(\n up{job=\"a\"})");
    let lines = info_lines_of(server(), metrics).await;
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    let expected = r#" error=cpu cannot be read: no result of sum(\n up{job="a"})"#;
    assert!(line.ends_with(expected), "{line}");
}

/// The autoscaler with one External metric instead of its metrics.
fn hpa_with_external_metric(name: &str) -> HorizontalPodAutoscaler {
    hpa_with(json!({ "metrics": [] }), &[name])
}

/// Serves the value 4 of any External metric.
struct ExternalMetrics;

#[async_trait]
impl MetricsClient for ExternalMetrics {
    async fn read(&self, _: &str, _: &Selector, _: &MetricQuery) -> Result<Reading, ReadError> {
        Ok(Reading::External(vec![MilliValue::from_milli(4000)].into()))
    }
}

#[tokio::test]
async fn decision_is_escaped_once() {
    let hpa = hpa_with_external_metric("a\u{1b}[31m\u{202e}");
    let metrics = serde_json::to_value(&hpa.spec.metrics).expect("JSON");
    let server = Arc::new(Mutex::new(Server { metrics: Some(metrics), ..server() }));
    let metrics = Arc::new(ExternalMetrics);
    let reconciler = Reconciler { metrics, ..reconciler(&server) };
    reconciler.autoscalers.apply(&key(), hpa, Origin::List);
    let lines = log_lines_of(&reconciler, Level::INFO).await;
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert!(line.contains(r" decision=a\u{1b}[31m\u{202e} is at "), "{line}");
}

#[tokio::test]
async fn long_names_are_shortened_in_the_log() {
    let server = Arc::new(Mutex::new(server()));
    let reconciler = Reconciler { metrics: Arc::new(UNAVAILABLE), ..reconciler(&server) };
    let hpa = hpa_with_external_metric(&"n".repeat(200_000));
    reconciler.autoscalers.apply(&key(), hpa, Origin::List);
    let lines = log_lines_of(&reconciler, Level::INFO).await;
    let [line] = lines.as_slice() else { panic!("{} lines", lines.len()) };
    assert!(line.contains(" error=nnn") && line.ends_with("n…") && line.len() < 2200, "{line}");
}

#[tokio::test]
async fn failed_read_of_the_scale_is_logged_without_repeating_its_cause() {
    let lines = info_lines_of(Server { scale_is_served: false, ..server() }, usage(100)).await;
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    let prefix = "WARN reconcile{hpa=shop/web}: reconcile failed error=failed to query scale \
                  subresource for Deployment/shop/web: ";
    let cause = line.strip_prefix(prefix).expect("the error");
    assert!(!cause.contains("failed to query") && !line.contains("decision"), "{line}");
}

/// Serves CPU usage. All other metrics fail.
struct OnlyCpu {
    milli: i64,
}

#[async_trait]
impl MetricsClient for OnlyCpu {
    async fn read(
        &self,
        namespace: &str,
        selector: &Selector,
        query: &MetricQuery,
    ) -> Result<Reading, ReadError> {
        match query {
            MetricQuery::Resource { .. } => {
                usage(self.milli).read(namespace, selector, query).await
            }
            _ => UNAVAILABLE.read(namespace, selector, query).await,
        }
    }
}

/// The autoscaler with these fields in its spec, and additional External metrics.
fn hpa_with(spec: Value, external_metrics: &[&str]) -> HorizontalPodAutoscaler {
    let mut hpa = serde_json::to_value(hpa()).expect("JSON");
    for (name, value) in spec.as_object().into_iter().flatten() {
        hpa["spec"][name] = value.clone();
    }
    let metrics = hpa["spec"]["metrics"].as_array_mut().expect("metrics");
    metrics.extend(external_metrics.iter().map(|name| {
        json!({ "type": "External", "external": {
            "metric": { "name": name }, "target": { "type": "AverageValue", "averageValue": "1" },
        } })
    }));
    serde_json::from_value(hpa).expect("an autoscaler")
}

/// The debug level logs all details.
#[tokio::test]
async fn no_line_repeats_its_cause_or_has_an_empty_reason() {
    let (none, external): (&[&str], &[&str]) = (&[], &["queue", "rate"]);
    let disabled = json!({ "behavior": { "scaleUp": {
        "selectPolicy": "Disabled", "stabilizationWindowSeconds": 0,
    } } });
    let paused =
        Server { annotations: json!({ "autoscaling.hpa-rs.dev/pause": "true" }), ..server() };
    let at_zero = Server { replicas: 0, ..server() };
    let situations: Vec<(&str, Server, Value, &[&str], i64)> = vec![
        ("scaled", server(), json!({}), none, 100),
        ("stabilized", server(), json!({}), none, 10),
        ("at the bound", server(), json!({ "maxReplicas": 2 }), none, 100),
        ("above the bound", server(), json!({ "maxReplicas": 1 }), none, 100),
        ("policy", server(), disabled, none, 100),
        ("paused", paused, json!({}), none, 100),
        ("disabled at zero replicas", at_zero, json!({}), none, 100),
        ("no scale", Server { scale_is_served: false, ..server() }, json!({}), none, 100),
        ("External metrics fail", server(), json!({}), external, 100),
        ("failed metrics block the scale-down", server(), json!({}), external, 10),
    ];
    for (name, server, spec, external_metrics, milli) in situations {
        let server = Arc::new(Mutex::new(server));
        let metrics = Arc::new(OnlyCpu { milli });
        let reconciler = Reconciler { metrics, ..reconciler(&server) };
        let hpa = hpa_with(spec, external_metrics);
        reconciler.autoscalers.apply(&key(), hpa, Origin::List);
        // The second reconcile logs a failure that continues.
        for _ in 0..2 {
            let lines = log_lines_of(&reconciler, Level::DEBUG).await;
            let lines: Vec<_> =
                lines.iter().filter(|line| line.contains("reconcile{hpa=shop/web}")).collect();
            assert!(
                lines.iter().any(|line| line.contains(" decided details=")),
                "{name}: {lines:?}"
            );
            for line in lines {
                check_line(line).unwrap_or_else(|error| panic!("{name}: {error}: {line}"));
            }
        }
    }
}

/// A line must not repeat five words, or have an empty value or an empty reason.
fn check_line(line: &str) -> Result<(), String> {
    let empty = ["=\"\"", ": ;", ":;", ": \"", ";\"", "; \""];
    if let Some(empty) = empty.into_iter().find(|empty| line.contains(empty)) {
        return Err(format!("{empty:?}"));
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut seen = std::collections::HashSet::new();
    let repeated = words.windows(5).find(|words| !seen.insert(words.join(" ")));
    repeated.map_or(Ok(()), |words| Err(format!("{:?} twice", words.join(" "))))
}
