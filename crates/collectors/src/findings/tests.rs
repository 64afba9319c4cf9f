use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn external(name: &str, labels: &Value) -> Value {
    json!({ "type": "External", "external": {
        "metric": { "name": name, "selector": { "matchLabels": labels } },
        "target": { "type": "AverageValue", "averageValue": "1" },
    } })
}

fn texts_of(metrics: &[Value], annotations: &[(&str, &str)]) -> Vec<String> {
    let annotations: serde_json::Map<_, _> = annotations
        .iter()
        .map(|(name, value)| (format!("metric-config.{name}"), json!(value)))
        .collect();
    let hpa = serde_json::from_value(json!({
        "metadata": { "namespace": "shop", "name": "web", "annotations": annotations },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "maxReplicas": 9,
            "metrics": metrics,
        },
    }));
    let hpa: HorizontalPodAutoscaler = hpa.unwrap();
    let found = findings(&hpa, &Environment::default());
    found.iter().map(|finding| format!("{}: {}", finding.subject, finding.message)).collect()
}

fn texts(annotations: &[(&str, &str)]) -> Vec<String> {
    let queue = external("queue", &json!({ "type": "prometheus" }));
    texts_of(&[queue, external("jobs", &json!({ "type": "json-path" }))], annotations)
}

const QUERY: (&str, &str) = ("external.queue.prometheus/query", "sum(x)");
const KEY: (&str, &str) = ("external.jobs.json-path/json-key", "$.x");
const ENDPOINT: (&str, &str) = ("external.jobs.json-path/endpoint", "http://a/");

#[test]
fn valid_annotations_have_no_finding() {
    assert_eq!(texts(&[QUERY, KEY, ENDPOINT]), [""; 0]);
}

#[rstest]
#[case::missing_key(
    &[QUERY, ENDPOINT],
    "annotations metric-config.external.jobs.json-path/*: config value json-key or json-eval \
     not found"
)]
#[case::unknown_key(
    &[QUERY, KEY, ENDPOINT, ("external.jobs.json-path/intervall", "30s")],
    "annotations metric-config.external.jobs.json-path/*: the collector http has no setting \
     intervall: did you mean interval?"
)]
#[case::dissimilar_key(
    &[QUERY, KEY, ENDPOINT, ("external.jobs.json-path/zone", "a")],
    "annotations metric-config.external.jobs.json-path/*: the collector http has no setting zone"
)]
#[case::other_collector(
    &[("external.queue.promtheus/query", "x"), KEY, ENDPOINT],
    "annotations metric-config.external.queue.promtheus/*: the annotations name promtheus, but \
     the type of the metric is prometheus"
)]
#[case::unbalanced(
    &[("external.queue.prometheus/query", "sum(x"), KEY, ENDPOINT],
    "annotations metric-config.external.queue.prometheus/*: query: the query \
     ends where `,` or `)` is expected"
)]
#[case::range_vector(
    &[("external.queue.prometheus/query", "x[5m]"), KEY, ENDPOINT],
    "annotations metric-config.external.queue.prometheus/*: query: the result is a range vector, \
     which has no current value: use a function, such as rate"
)]
#[case::no_metric(
    &[QUERY, KEY, ENDPOINT, ("pods.rps.json-path/path", "/")],
    "annotations metric-config.pods.rps.json-path/*: spec.metrics has no metric rps of the \
     type Pods"
)]
#[case::grammar(
    &[QUERY, KEY, ENDPOINT, ("external.jobs/interval", "30s")],
    "annotation metric-config.external.jobs/interval: the key is not \
     metric-config.TYPE.METRIC.COLLECTOR/NAME"
)]
#[case::interval(
    &[QUERY, KEY, ENDPOINT, ("external.jobs.json-path/interval", "soon")],
    "annotation metric-config.external.jobs.json-path/interval: failed to parse interval value \
     soon for {External jobs}: time: invalid duration \"soon\""
)]
#[case::unknown_type(
    &[QUERY, KEY, ENDPOINT, ("pod.rps.json-path/json-key", "$"), ("pod.rps.json-path/path", "/")],
    "annotations metric-config.pod.rps.json-path/*: `pod` is not pods, object or external"
)]
#[case::unknown_type_of_a_metric(
    &[("extern.queue.prometheus/query", "sum(x)"), KEY, ENDPOINT],
    "annotations metric-config.extern.queue.prometheus/*: `extern` is not pods, object or \
     external, and counts as external"
)]
#[case::other_type(
    &[QUERY, KEY, ENDPOINT, ("pods.queue.json-path/path", "/")],
    "annotations metric-config.pods.queue.json-path/*: spec.metrics has queue with the type \
     External, not Pods"
)]
fn mistake_is_reported_once(#[case] annotations: &[(&str, &str)], #[case] expected: &str) {
    assert_eq!(texts(annotations), [expected]);
}

const LEGACY: &str = "annotations metric-config.external.prometheus-query.prometheus/*";

/// An autoscaler with two metrics in the legacy form, whose annotations have the queries `errors`
/// and `latency-average`.
fn legacy_texts(query_name: &str, query: &str) -> Vec<String> {
    let metric = |name: &str| external("prometheus-query", &json!({ "query-name": name }));
    let annotations = [
        ("external.prometheus-query.prometheus/errors", "sum(x)"),
        ("external.prometheus-query.prometheus/latency-average", query),
    ];
    texts_of(&[metric("errors"), metric(query_name)], &annotations)
}

#[test]
fn metrics_in_the_legacy_form_share_annotations() {
    assert_eq!(legacy_texts("latency-average", "sum(x)"), [""; 0]);
}

#[test]
fn query_in_the_legacy_form_is_parsed() {
    let expected =
        format!("{LEGACY}: latency-average: the query ends where `,` or `)` is expected");
    assert_eq!(legacy_texts("latency-average", "sum(x"), [expected]);
}

#[test]
fn query_name_without_an_annotation_is_reported_with_a_similar_one() {
    let expected = format!(
        "{LEGACY}: query-name latency-averag names no annotation, similar: latency-average \
         (no prometheus query defined for metric)"
    );
    assert_eq!(legacy_texts("latency-averag", "sum(x)"), [expected]);
}

/// No other annotation can be meant, although the names differ much.
#[test]
fn single_query_is_suggested_for_a_wrong_query_name() {
    let metric = external("prometheus-query", &json!({ "query-name": "latency-avg" }));
    let annotation = ("external.prometheus-query.prometheus/latency-average", "sum(x)");
    let expected = format!(
        "{LEGACY}: query-name latency-avg names no annotation, similar: latency-average (no \
         prometheus query defined for metric)"
    );
    assert_eq!(texts_of(&[metric], &[annotation]), [expected]);
}

#[rstest]
#[case::value("Value", &[])]
#[case::average("AverageValue", &[DIVIDED_TWICE])]
fn value_that_is_divided_twice_is_reported(#[case] target: &str, #[case] expected: &[&str]) {
    let field = if target == "Value" { "value" } else { "averageValue" };
    let metric = json!({ "type": "Object", "object": {
        "describedObject": { "apiVersion": "v1", "kind": "Service", "name": "jobs" },
        "metric": { "name": "jobs" },
        "target": { "type": target, field: "4" },
    } });
    let annotations =
        [("object.jobs.prometheus/query", "x"), ("object.jobs.prometheus/per-replica", "true")];
    let subject = "annotations metric-config.object.jobs.prometheus/*";
    let expected: Vec<_> = expected.iter().map(|text| format!("{subject}: {text}")).collect();
    assert_eq!(texts_of(&[metric], &annotations), expected);
}

/// The label `type` of an Object metric may be that of another metric source.
#[rstest]
#[case::other_source("gateway", &[])]
#[case::collector("prometheus", &["no prometheus query defined"])]
fn labels_of_an_object_metric_are_not_reported_as_annotations(
    #[case] label: &str,
    #[case] expected: &[&str],
) {
    let metric = json!({ "type": "Object", "object": {
        "describedObject": { "apiVersion": "v1", "kind": "Service", "name": "jobs" },
        "metric": { "name": "jobs", "selector": { "matchLabels": { "type": label } } },
        "target": { "type": "Value", "value": "4" },
    } });
    let subject = format!("metric Object/jobs {{type={label}}}");
    let expected: Vec<_> = expected.iter().map(|text| format!("{subject}: {text}")).collect();
    assert_eq!(texts_of(&[metric], &[]), expected);
}

#[test]
fn thousands_of_annotations_and_metrics_are_compared_quickly() {
    let pods = json!({"type": "Pods", "pods": {
        "metric": {"name": "x"}, "target": {"type": "AverageValue", "averageValue": "1"},
    }});
    let annotation = |index| (format!("metric-config.pods.m{index}.json-path/path"), json!("/"));
    let annotations: serde_json::Map<_, _> = (0..40_000).map(annotation).collect();
    let hpa: HorizontalPodAutoscaler = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web", "annotations": annotations},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 9, "metrics": vec![pods; 60_000],
        },
    }))
    .unwrap();
    let parsed = Annotations::parse(&hpa.metadata.annotations);
    let start = std::time::Instant::now();
    assert_eq!(annotation_findings(&hpa, &parsed).len(), 40_000);
    assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
}
