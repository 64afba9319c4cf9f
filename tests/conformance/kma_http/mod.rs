//! `kma_http`: autoscalers, the collected values, and requests to the adapter.
//!
//! `hpa-collectors` collects over real connections to pods and Prometheus, the model of
//! kube-metrics-adapter's store keeps the values, and `hpa-adapter` serves them. Irrelevant
//! differences between responses are ignored: see [`normalize`].

mod collect;
mod metric_source;
pub(crate) mod objects;

use std::sync::Arc;

use hpa_adapter::{Adapter, AdapterOptions, Version};
use hpa_metrics::ApiGroups;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::{collect::CollectedMetrics, metric_source::StoredMetrics, objects::Objects};
use crate::{
    adapter::{
        cluster::Cluster,
        http::{new_adapter, send},
        normalize::replace_volatile_parts,
        prometheus::Prometheus,
    },
    compare::ensure_equal,
};

const PORT: u16 = 443;

/// Compares a line: the queries and events for a cluster's autoscalers, and the responses to
/// requests.
pub(crate) async fn check(line: &Value) -> Result<(), String> {
    let prometheus = Prometheus::start().await.map_err(|error| error.to_string())?;
    prometheus.expect(&exchanges(line));
    let pod_port = objects::serve_documents(&line["podDocuments"]).await;
    let now = Timestamp::now();
    let line = line
        .to_string()
        .replace("PODPORT", &pod_port.to_string())
        .replace("\"NOW\"", &json!(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()).to_string());
    let line: Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
    let objects = Arc::new(Objects::new(&line["objects"]));
    let collected = collect::collect(&line, &objects, &prometheus, now).await?;
    ensure_equal(
        "collected",
        &queries(&exchanges(&line)),
        &queries(&json!(prometheus.received())),
    )?;
    check_events(&line, &collected)?;
    let cluster = Cluster::new(&json!({"kinds": []}), &json!([]))?;
    let options = AdapterOptions {
        groups: watch::channel(ApiGroups { custom: true, external: true, resource: false }).1,
        compat: hpa_prometheus::rules::Compat::Off,
        port: PORT,
        version: Version::default(),
        stop: CancellationToken::new(),
    };
    let source = Arc::new(StoredMetrics { store: collected.store });
    let adapter = new_adapter(source, &cluster, options, &[])?;
    for (index, recorded) in line["requests"].as_array().into_iter().flatten().enumerate() {
        check_request(&adapter, &cluster, recorded)
            .await
            .map_err(|difference| format!("request {index} {}: {difference}", recorded["path"]))?;
    }
    Ok(())
}

/// The recorded queries and responses, in the form that [`Prometheus::expect`] takes.
fn exchanges(line: &Value) -> Value {
    let recorded = line["collected"].as_array().into_iter().flatten();
    let exchange = |one: &Value| {
        json!({
            "method": "POST", "path": one["path"], "params": [["query", one["query"]]],
            "response": one["response"],
        })
    };
    recorded.map(exchange).collect()
}

/// The distinct queries, sorted.
fn queries(exchanges: &Value) -> Value {
    let params = |one: &Value| one["params"].as_array().cloned().unwrap_or_default();
    let params = exchanges.as_array().into_iter().flatten().flat_map(params);
    let queries = params.filter(|pair| pair[0] == "query").map(|pair| pair[1].to_string());
    let queries: std::collections::BTreeSet<String> = queries.collect();
    json!(queries)
}

/// Compares events, ignoring their order and repetitions.
fn check_events(line: &Value, collected: &CollectedMetrics) -> Result<(), String> {
    let sorted = |mut events: Vec<String>| {
        events.sort();
        events.dedup();
        json!(events)
    };
    let recorded = line["events"].as_array().into_iter().flatten();
    let recorded = recorded.map(|event| {
        let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        format!("{} {} {} {}", text("object"), text("type"), text("reason"), text("message"))
    });
    let found = collected
        .events
        .iter()
        .map(|(object, message)| format!("{object} Warning CreateNewMetricsCollector {message}"));
    ensure_equal("events", &sorted(recorded.collect()), &sorted(found.collect()))
}

async fn check_request(
    adapter: &Adapter,
    cluster: &Cluster,
    recorded: &Value,
) -> Result<(), String> {
    let body = send(adapter, recorded).await?;
    let mut found =
        serde_json::from_slice(&body).map_err(|error| format!("the body is not JSON: {error}"))?;
    let mut expected = recorded["body"].clone();
    normalize(&mut expected);
    normalize(&mut found);
    ensure_equal("body", &expected, &found)?;
    let access = cluster.take_requests().accesses;
    ensure_equal("authorization", &recorded["authorization"], &json!(access.first()))
}

/// Removes differences from kube-metrics-adapter that don't matter to clients:
///
/// - A list without items may be `null` or empty.
/// - Items repeat the selector of the request. In kube-metrics-adapter, they repeat the stored one.
/// - The version of the core group is `/v1`, as in prometheus-adapter. In kube-metrics-adapter, it
///   is `v1`.
/// - In a list of all namespaces, items have no namespace. In kube-metrics-adapter, they have one.
fn normalize(value: &mut Value) {
    replace_volatile_parts(value, PORT);
    let is_list = value["kind"] == "MetricValueList" || value["kind"] == "ExternalMetricValueList";
    if is_list && value["items"].is_null() {
        value["items"] = json!([]);
    }
    for item in value["items"].as_array_mut().into_iter().flatten() {
        if let Some(item) = item.as_object_mut() {
            item.remove("selector");
        }
        if let Some(metric) = item.get_mut("metric").and_then(Value::as_object_mut) {
            metric.remove("selector");
        }
        if let Some(object) = item.get_mut("describedObject").and_then(Value::as_object_mut) {
            object.remove("namespace");
            let version = object["apiVersion"].as_str().unwrap_or_default();
            object["apiVersion"] = json!(version.trim_start_matches('/'));
        }
    }
    if let Some(items) = value["items"].as_array_mut() {
        items.sort_by_key(ToString::to_string);
    }
}
