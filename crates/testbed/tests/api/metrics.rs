use std::{collections::BTreeMap, sync::Arc};

use hpa_testbed::{
    ApiError, Config, CustomMetric, CustomMetricQuery, ExternalMetric, ExternalMetricQuery,
    MetricsProvider, PodMetrics, PodMetricsQuery, Testbed,
};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{at, get, pod};

/// Provides values that show the query.
struct QueryEcho;

impl MetricsProvider for QueryEcho {
    fn pods(&self, query: &PodMetricsQuery) -> Result<Vec<PodMetrics>, ApiError> {
        let usage = BTreeMap::from([("cpu".to_owned(), "100m".to_owned())]);
        let containers = BTreeMap::from([("main".to_owned(), usage)]);
        let usage_of = |(namespace, name): &(String, String)| PodMetrics {
            namespace: namespace.clone(),
            name: name.clone(),
            window: "30s".to_owned(),
            containers: containers.clone(),
            ..PodMetrics::default()
        };
        Ok(query.pods.iter().map(usage_of).collect())
    }

    fn custom(&self, query: &CustomMetricQuery) -> Result<Vec<CustomMetric>, ApiError> {
        let text = format!(
            "{}/{}/{} {}",
            query.namespace, query.resource, query.name, query.metric_selector
        );
        let object = json!({ "kind": text, "name": query.pods.len() });
        Ok(vec![CustomMetric {
            described_object: object,
            value: "7".to_owned(),
            ..CustomMetric::default()
        }])
    }

    fn external(&self, query: &ExternalMetricQuery) -> Result<Vec<ExternalMetric>, ApiError> {
        if query.metric == "none" {
            return Err(ApiError::service_unavailable());
        }
        let (metric_name, value) = (query.metric.clone(), "9".to_owned());
        Ok(vec![ExternalMetric { metric_name, value, ..ExternalMetric::default() }])
    }
}

fn testbed() -> Testbed {
    let testbed = Testbed::new(Config { metrics: Some(Arc::new(QueryEcho)), ..Config::default() });
    testbed.apply(pod("a", json!({ "app": "web" }))).unwrap();
    testbed.apply(pod("b", json!({ "app": "db" }))).unwrap();
    testbed
}

#[rstest]
#[case::pods("metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=app%3Dweb",
    "/items/0/containers/0/usage/cpu", json!("100m"))]
#[case::pods_v1("metrics.k8s.io/v1/pods", "/items/1/metadata/name", json!("b"))]
#[case::pod("metrics.k8s.io/v1beta1/namespaces/default/pods/a", "/window", json!("30s"))]
#[case::custom_pods(
    "custom.metrics.k8s.io/v1beta2/namespaces/default/pods/%2A/rps?metricLabelSelector=a%3Db",
    "/items/0/describedObject", json!({ "kind": "default/pods/* a=b", "name": 2 }))]
#[case::custom_object("custom.metrics.k8s.io/v1beta2/namespaces/default/deployments.apps/web/rps",
    "/items/0/describedObject/kind", json!("default/deployments.apps/web "))]
#[case::custom_metric("custom.metrics.k8s.io/v1beta2/namespaces/default/services/web/rps",
    "/items/0/metric/name", json!("rps"))]
#[case::custom_namespace("custom.metrics.k8s.io/v1beta2/namespaces/default/metrics/rps",
    "/items/0/describedObject/kind", json!("default/namespaces/default "))]
#[case::external(
    "external.metrics.k8s.io/v1beta1/namespaces/default/queue",
    "/items/0/value",
    json!("9")
)]
#[case::discovery("metrics.k8s.io/v1beta1", "/resources/0/kind", json!("PodMetrics"))]
#[tokio::test]
async fn metrics_api_returns_the_provided_metrics(
    #[case] path: &str,
    #[case] pointer: &str,
    #[case] expected: Value,
) {
    let (code, response) = get(&testbed(), &format!("/apis/{path}")).await;
    assert_eq!((code, at(&response, pointer)), (200, &expected), "{response}");
}

#[tokio::test]
async fn errors_of_the_provider_are_returned() {
    let (code, status) =
        get(&testbed(), "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/none").await;
    assert_eq!((code, at(&status, "/reason")), (503, &json!("ServiceUnavailable")));
    let (code, _) =
        get(&testbed(), "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/none").await;
    assert_eq!(code, 404);
}
