//! The usage of pods and nodes.

use std::time::Duration;

use hpa_calc::{Selector, api::ResourceName};
use hpa_metrics::{
    Catalog, FieldRequirement, MetricSource, ObjectKey, Objects, Query, query::MetadataField,
};
use serde_json::json;

use super::fake::{RULES, all_nodes, prometheus, request, source, source_with};
use crate::rules::Compat;

/// The usage of the selected pods, without web-1. An empty namespace stands for all namespaces.
fn pods_except_web_1(namespace: &str, selector: &str) -> Query {
    let except = FieldRequirement {
        field: MetadataField::Name,
        must_equal: false,
        value: "web-1".to_owned(),
    };
    Query::PodUsage {
        namespace: namespace.to_owned(),
        pods: Objects::Selected(Selector::parse(selector).unwrap()),
        fields: [except].into(),
    }
}

#[tokio::test]
async fn pods_are_read_by_namespace_and_a_failure_is_reported() {
    let server = prometheus();
    let source = source(&server, Compat::Off).await;
    let container = |pod: &str, time: u32, value: &str| {
        let labels = json!({ "pod": pod, "container": "app" });
        json!({ "metric": labels, "value": [time, value] })
    };
    server.set_vector(
        r#"cpu{namespace="shop",pod="web-0"}"#,
        &json!([container("web-0", 9, "0.25")]),
    );
    server.set_vector(
        r#"memory{namespace="shop",pod="web-0"}"#,
        &json!([container("web-0", 7, "1024")]),
    );
    server.fail(r#"cpu{namespace="other",pod="a"}"#);
    let query = pods_except_web_1("", "app in (web, other)");
    let usage = source.read(&query).await.unwrap().into_pods().unwrap();
    let [item] = &usage.items[..] else { panic!("{usage:?}") };
    assert_eq!(item.metadata.key(), ObjectKey::new("shop", "web-0"));
    assert_eq!(item.timestamp.as_second(), 7);
    assert_eq!(item.window.as_secs(), 180);
    let usage_of = |resource| item.containers[0].usage.get(&resource).unwrap().as_milli();
    assert_eq!((&*item.containers[0].name, usage_of(ResourceName::Cpu)), ("app", 250));
    assert_eq!(usage_of(ResourceName::Memory), 1_024_000);
    assert_eq!(usage.failures.len(), 1);
    assert_eq!(server.take_requests().len(), 4);
}

#[tokio::test]
async fn query_for_usage_without_a_result_is_named() {
    let server = prometheus();
    let source = source(&server, Compat::Off).await;
    let [cpu, memory] =
        ["cpu", "memory"].map(|name| format!(r#"{name}{{namespace="shop",pod="web-0"}}"#));
    let labels = json!({ "pod": "web-0", "container": "app" });
    let sample = json!([{ "metric": labels, "value": [9, "1"] }]);
    let query = pods_except_web_1("shop", "app=web");
    for (cpu_samples, memory_samples, expected) in [
        (json!([]), sample.clone(), Some(&cpu)),
        (sample.clone(), json!([]), Some(&memory)),
        (sample.clone(), sample.clone(), None),
    ] {
        server.set_vector(&cpu, &cpu_samples);
        server.set_vector(&memory, &memory_samples);
        let usage = source.read(&query).await.unwrap().into_pods().unwrap();
        assert_eq!(usage.query_without_result.as_ref(), expected);
        assert_eq!(usage.items.is_empty(), expected.is_some());
    }
}

#[tokio::test]
async fn usage_waits_for_the_compiled_rules_but_not_for_series() {
    let server = prometheus();
    for key in ["http_requests_total", "inflight", "queue_length"] {
        server.fail(key);
    }
    let source = source_with(&server, RULES, Compat::Off);
    let query = all_nodes();
    assert!(source.undiscovered(&query).is_some(), "not compiled yet");
    source.relist().await.unwrap_err();
    assert_eq!(source.undiscovered(&query), None);
    let node = json!([{ "metric": { "instance": "n0" }, "value": [5, "2"] }]);
    server.set_vector(r#"node_cpu{instance=~"n0|n1"}"#, &node);
    server.set_vector(r#"node_memory{instance=~"n0|n1"}"#, &node);
    let usage = source.read(&query).await.unwrap().into_nodes().unwrap();
    assert_eq!((usage.items.len(), usage.failures.len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn usage_is_read_while_series_are_read_or_without_series() {
    for only_compiles in [false, true] {
        let server = prometheus();
        server.hang("http_requests_total");
        let source = source_with(&server, RULES, Compat::Off);
        if only_compiles {
            source.compile().await.unwrap();
            assert_eq!(server.take_requests(), [""; 0]);
        } else {
            let relist = source.relist();
            tokio::time::timeout(Duration::from_secs(1), relist).await.expect_err("a series hangs");
        }
        let query = all_nodes();
        assert_eq!((source.undiscovered(&query), source.has_tried_discovery()), (None, false));
        let node = json!([{ "metric": { "instance": "n0" }, "value": [5, "2"] }]);
        server.set_vector(r#"node_cpu{instance=~"n0|n1"}"#, &node);
        server.set_vector(r#"node_memory{instance=~"n0|n1"}"#, &node);
        let usage = source.read(&query).await.unwrap().into_nodes().unwrap();
        assert_eq!((usage.items.len(), usage.failures.len()), (1, 0));
        let custom = request("http_requests_total").into();
        assert!(source.undiscovered(&custom).is_some(), "no series yet");
    }
}

#[tokio::test]
async fn nodes_are_read_together() {
    let server = prometheus();
    let source = source(&server, Compat::Off).await;
    let node = |value: &str| json!([{ "metric": { "instance": "n0" }, "value": [5, value] }]);
    server.set_vector(r#"node_cpu{instance=~"n0|n1"}"#, &node("2"));
    server.set_vector(r#"node_memory{instance=~"n0|n1"}"#, &node("2048"));
    let usage = source.read(&all_nodes()).await.unwrap().into_nodes().unwrap();
    assert_eq!((usage.items.len(), usage.failures.len()), (1, 0));
    let cpu = usage.items[0].usage.get(&ResourceName::Cpu).unwrap();
    assert_eq!((&*usage.items[0].metadata.name, cpu.as_milli()), ("n0", 2000));
}
