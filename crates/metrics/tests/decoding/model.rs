//! Plain decoding of the lists of the metrics APIs. The fuzz target `metrics_list` also uses it.

use std::collections::{BTreeMap, BTreeSet};

use hpa_calc::{MilliValue, Quantity, api::ResourceName, selector::Labels};
use hpa_metrics::wire::{
    ExternalMetricValue, ItemLabels, MetricValue, PodMetrics, Usage, decode_list, parse_duration,
};
use hpa_testbed::decoder_tests::{Document, DocumentResult};
use jiff::{SignedDuration, Timestamp};
use serde::de::Error;

pub(crate) const POD_METRICS: [&str; 2] = [
    r#"{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[
        {"metadata":{"name":"web-1","namespace":"shop","labels":{"app":"web","tier":"a\"b"}},
         "timestamp":"2026-01-01T00:00:47Z","window":"1m0.5s","containers":[
            {"name":"app","usage":{"cpu":"4805m","memory":"817664381"}},
            {"name":"side","usage":{"cpu":2,"example.com/gpu":0.5}}]},
        {"metadata":{"name":"web-2","labels":{"app":"web","tier":"a\"b"}},
         "timestamp":"2026-01-01T00:00:47.5+01:00","window":"30s","containers":null}]}"#,
    r#"{"items":null,"message":"none"}"#,
];

pub(crate) const METRIC_VALUES: [&str; 2] = [
    r#"{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/v1beta2","metadata":{},
        "items":[{"describedObject":{"kind":"Pod","namespace":"shop","name":"web-1"},
            "metric":{"name":"m","selector":{"matchLabels":{"a":"b"}}},
            "timestamp":"2026-01-01T00:00:10Z","windowSeconds":30,"value":"500m"}]}"#,
    r#"{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/v1beta1","metadata":{},
        "items":[{"describedObject":{"name":"web-1"},"metricName":"m",
            "timestamp":null,"window":30,"value":1.5,"selector":null},
            {"windowSeconds":5,"window":6,"value":"2"}]}"#,
];

pub(crate) const EXTERNAL_METRICS: [&str; 1] = [r#"{"kind":"ExternalMetricValueList",
    "apiVersion":"external.metrics.k8s.io/v1beta1","metadata":{},"items":[
        {"metricName":"q","metricLabels":{"queue":"a","zone":"b"},
         "timestamp":"2026-01-01T00:00:00Z","value":"404m"},
        {"metricName":"q","metricLabels":null,"value":12}]}"#];

/// Decodes a list, and panics if the result differs from the tests' plain decoder. Returns
/// whether the list can be decoded.
pub(crate) fn check_pod_metrics(body: &[u8]) -> bool {
    let plain = list(body, "PodMetricsList", pod_metrics);
    assert_equal_results(body, decode_list::<PodMetrics>(body).ok(), plain, |item, plain| {
        item.metadata.name.as_ref() == plain.name
            && labels_eq(&item.metadata.labels, &plain.labels)
            && (item.timestamp, item.window) == (plain.timestamp, plain.window)
            && item.containers.len() == plain.containers.len()
            && item.containers.iter().zip(&plain.containers).all(|(container, (name, usage))| {
                container.name.as_ref() == name && usage_eq(&container.usage, usage)
            })
    })
}

/// Decodes a list, and panics if the result differs from the tests' plain decoder. Returns
/// whether the list can be decoded.
pub(crate) fn check_metric_values(body: &[u8]) -> bool {
    let plain = list(body, "MetricValueList", metric_value);
    assert_equal_results(body, decode_list::<MetricValue>(body).ok(), plain, MetricValue::eq)
}

/// Decodes a list, and panics if the result differs from the tests' plain decoder. Returns
/// whether the list can be decoded.
pub(crate) fn check_external_metrics(body: &[u8]) -> bool {
    let plain = list(body, "ExternalMetricValueList", external_metric);
    assert_equal_results(
        body,
        decode_list::<ExternalMetricValue>(body).ok(),
        plain,
        |item, plain| {
            labels_eq(&item.labels.clone().unwrap_or_default(), &plain.labels)
                && (item.timestamp, item.value) == (plain.timestamp, plain.value)
        },
    )
}

fn assert_equal_results<T: std::fmt::Debug, P: std::fmt::Debug>(
    body: &[u8],
    decoded: Option<Vec<T>>,
    plain: DocumentResult<Vec<P>>,
    is_equal: impl Fn(&T, &P) -> bool,
) -> bool {
    let same = match (&decoded, &plain) {
        (Some(items), Ok(plain)) => {
            items.len() == plain.len()
                && items.iter().zip(plain).all(|(item, plain)| is_equal(item, plain))
        }
        (None, Err(_)) => true,
        _ => false,
    };
    assert!(same, "{}\n{decoded:?}\n{plain:?}", String::from_utf8_lossy(body));
    decoded.is_some()
}

/// Decodes a list, with the same limit of its length as `wire/list.rs`.
fn list<'a, T>(
    body: &'a [u8],
    expected: &str,
    item: impl Fn(Document<'a>) -> DocumentResult<T>,
) -> DocumentResult<Vec<T>> {
    let [kind, message, items] = Document::parse(body)?.fields(["kind", "message", "items"])?;
    text(message)?;
    let kind = text(kind)?;
    if !kind.is_empty() && kind != expected {
        return Err(serde_json::Error::custom("another kind"));
    }
    let items = non_null(items).map_or(Ok(Vec::new()), Document::elements)?;
    if items.len() > (body.len() / 32).max(64) {
        return Err(serde_json::Error::custom("too many items"));
    }
    items.into_iter().map(item).collect()
}

#[derive(Debug)]
struct PlainPodMetrics {
    name: String,
    labels: BTreeMap<String, String>,
    timestamp: Timestamp,
    window: SignedDuration,
    containers: Vec<(String, BTreeMap<String, MilliValue>)>,
}

fn pod_metrics(document: Document<'_>) -> DocumentResult<PlainPodMetrics> {
    let [metadata, time, window, containers] =
        document.fields(["metadata", "timestamp", "window", "containers"])?;
    let [name, labels] =
        non_null(metadata).map_or(Ok([None; 2]), |metadata| metadata.fields(["name", "labels"]))?;
    let container = |document: Document<'_>| {
        let [name, usage] = document.fields(["name", "usage"])?;
        let mut amounts = BTreeMap::new();
        for (resource, amount) in members(usage)? {
            // The last of equal names counts, as in a Go map.
            amounts.insert(resource, quantity(Some(amount))?);
        }
        Ok((text(name)?, amounts))
    };
    let containers = non_null(containers).map_or(Ok(Vec::new()), Document::elements)?;
    Ok(PlainPodMetrics {
        name: text(name)?,
        labels: label_map(labels)?,
        timestamp: timestamp(time)?,
        window: match window {
            None => SignedDuration::ZERO,
            // `null` stands for the empty text, which is not a duration.
            Some(_) => parse_duration(&text(window)?).map_err(serde_json::Error::custom)?,
        },
        containers: containers.into_iter().map(container).collect::<DocumentResult<_>>()?,
    })
}

fn metric_value(document: Document<'_>) -> DocumentResult<MetricValue> {
    let [object, time, seconds, window, value] =
        document.fields(["describedObject", "timestamp", "windowSeconds", "window", "value"])?;
    let [name] = non_null(object).map_or(Ok([None]), |object| object.fields(["name"]))?;
    let (seconds, window) = (number(seconds)?, number(window)?);
    Ok(MetricValue {
        object: text(name)?.into(),
        timestamp: timestamp(time)?,
        window_seconds: seconds.or(window),
        value: quantity(value)?,
    })
}

#[derive(Debug)]
struct PlainExternalMetric {
    labels: BTreeMap<String, String>,
    timestamp: Timestamp,
    value: MilliValue,
}

fn external_metric(document: Document<'_>) -> DocumentResult<PlainExternalMetric> {
    let [labels, time, value] = document.fields(["metricLabels", "timestamp", "value"])?;
    Ok(PlainExternalMetric {
        labels: label_map(labels)?,
        timestamp: timestamp(time)?,
        value: quantity(value)?,
    })
}

fn non_null(document: Option<Document<'_>>) -> Option<Document<'_>> {
    document.filter(|document| !document.is_null())
}

fn members(document: Option<Document<'_>>) -> DocumentResult<Vec<(String, Document<'_>)>> {
    non_null(document).map_or(Ok(Vec::new()), Document::members)
}

fn text(document: Option<Document<'_>>) -> DocumentResult<String> {
    non_null(document).map_or(Ok(String::new()), Document::decode)
}

fn number(document: Option<Document<'_>>) -> DocumentResult<Option<i64>> {
    document.map_or(Ok(None), Document::decode)
}

fn quantity(document: Option<Document<'_>>) -> DocumentResult<MilliValue> {
    let quantity: DocumentResult<Quantity> =
        non_null(document).map_or(Ok(Quantity::default()), Document::decode);
    quantity.map(|quantity| quantity.milli_value())
}

/// Decodes a time. An absent time or `null` is Go's zero time.
fn timestamp(document: Option<Document<'_>>) -> DocumentResult<Timestamp> {
    let time: Option<String> = document.map_or(Ok(None), Document::decode)?;
    let time = time.unwrap_or_else(|| "0001-01-01T00:00:00Z".to_owned());
    time.parse().map_err(serde_json::Error::custom)
}

/// Decodes labels. The last of equal names counts, as in a Go map. Labels with NUL are skipped.
fn label_map(document: Option<Document<'_>>) -> DocumentResult<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    for (name, value) in members(document)? {
        let value = text(Some(value))?;
        if !name.contains('\0') && !value.contains('\0') {
            labels.insert(name, value);
        }
    }
    Ok(labels)
}

fn labels_eq(labels: &ItemLabels, plain: &BTreeMap<String, String>) -> bool {
    labels.is_empty() == plain.is_empty()
        && labels.pairs().map(|(name, _)| name).collect::<BTreeSet<_>>()
            == plain.keys().map(String::as_str).collect()
        && plain.iter().all(|(name, value)| labels.label(name) == Some(value))
}

fn usage_eq(usage: &Usage, plain: &BTreeMap<String, MilliValue>) -> bool {
    // `Usage` can't be listed. These names occur in the inputs, so a resource that only `usage` has
    // is found.
    let names = ["cpu", "memory", "example.com/gpu", "a", "b", "x", "name", ""];
    let names = names.into_iter().chain(plain.keys().map(String::as_str));
    names.into_iter().all(|name| usage.get(&ResourceName::from(name)) == plain.get(name).copied())
}
