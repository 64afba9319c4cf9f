//! The reasons why no rule has a metric.

use std::{io, sync::Arc};

use async_trait::async_trait;
use hpa_metrics::{
    Catalog, CustomQuery, MetricSource, Query, ResourceMapper, describe,
    mapper::MapperError,
    resource::{ApiResources, GroupResource},
};
use serde_json::{Value, json};

use super::fake::{
    Prometheus, RULES, all_nodes, create_source, external, objects, prometheus, request,
    source_with,
};
use crate::{
    rules::Compat,
    source::{PrometheusSettings, PrometheusSource},
};

const NAMED_AND_OTHER: &str = r#"
rules:
- seriesQuery: '{__name__="jobs_total",pod!=""}'
  resources:
    overrides: &overrides
      namespace: {resource: namespace}
      pod: {resource: pod}
  name: {matches: ^(.*)_total$, as: $1}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
- seriesQuery: '{__name__=~"^queue_.*"}'
  resources:
    overrides: *overrides
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
"#;
const NAMED_SERIES: &str = r#"{__name__="jobs_total",pod!=""}"#;

/// The reason why the rules don't have a metric of pods.
async fn absence(server: &Prometheus, metric: &str) -> String {
    let source = source_with(server, NAMED_AND_OTHER, Compat::Off);
    _ = source.relist().await;
    let query: Query = CustomQuery { resource: GroupResource::pods(), ..request(metric) }.into();
    assert!(!source.has(&query));
    source.absence(&query).unwrap()
}

#[tokio::test]
async fn rule_that_names_the_series_of_a_metric_is_reported() {
    let server = Prometheus::default();
    let expected =
        "rules[0] of --metrics-config describes jobs, but found no series when last listed";
    assert_eq!(absence(&server, "jobs").await, expected);
    server.set_series(NAMED_SERIES, &json!([{ "__name__": "jobs_total", "namespace": "shop" }]));
    let expected = "rules[0] of --metrics-config describes jobs, but not for pods";
    assert_eq!(absence(&server, "jobs").await, expected);
    server.fail(NAMED_SERIES);
    let expected = "rules[0] of --metrics-config describes jobs, but its series could not be read";
    assert_eq!(absence(&server, "jobs").await, expected);
}

#[tokio::test]
async fn rules_without_series_that_may_have_the_metric_are_listed() {
    let server = Prometheus::default();
    // The name of the series in rules[0] excludes the metric.
    let expected = "no rule of --metrics-config has waiting now (rules[1] found no series)";
    assert_eq!(absence(&server, "waiting").await, expected);
    let series = |name: &str| json!([{ "__name__": name, "namespace": "shop", "pod": "web-0" }]);
    server.set_series(NAMED_SERIES, &series("jobs_total"));
    server.set_series(r#"{__name__=~"^queue_.*"}"#, &series("queue_length"));
    assert_eq!(absence(&server, "waiting").await, "no rule of --metrics-config has waiting");
    let source = source_with(&server, NAMED_AND_OTHER, Compat::Off);
    let external = source.absence(&external("jobs").into()).unwrap();
    assert_eq!(external, "no rule of --metrics-config has jobs");
    assert_eq!(source.absence(&all_nodes()), None);
}

#[tokio::test]
async fn only_metrics_that_unread_rules_may_have_are_undiscovered() {
    let server = prometheus();
    let fail = |key: &str| server.set_answer(key, 404, Value::Null);
    for key in ["http_requests_total", "inflight", "queue_length"] {
        fail(key);
    }
    let source = source_with(&server, RULES, Compat::Off);
    let text = "the metrics of rules are not discovered yet: Prometheus at http://main: unknown \
                response code 404: check the path of the URL";
    let undiscovered = |query: Query| source.undiscovered(&query);
    let not_compiled = undiscovered(external("orders").into());
    assert!(not_compiled.is_some_and(|text| text.ends_with("no discovery has succeeded yet")));
    source.relist().await.unwrap_err();
    assert_eq!(undiscovered(external("queue_length").into()).as_deref(), Some(text));
    assert_eq!(undiscovered(external("orders").into()), None);
    assert_eq!(undiscovered(external("inflight").into()), None, "a rule of custom metrics");
    assert_eq!(undiscovered(request("inflight").into()).as_deref(), Some(text));
    assert_eq!(undiscovered(request("orders").into()), None);

    server.copy_answers(&prometheus());
    fail("queue_length");
    source.relist().await.unwrap_err();
    assert_eq!(undiscovered(request("other").into()), None);
    assert!(undiscovered(external("queue_length").into()).is_some());

    // The names of these series are open, and so are those of the metrics.
    let rules = RULES.replace("seriesQuery: queue_length", "seriesQuery: '{queue!=\"\"}'");
    fail("{queue!=\"\"}");
    let source = source_with(&server, &rules, Compat::Off);
    source.relist().await.unwrap_err();
    assert!(source.undiscovered(&external("orders").into()).is_some());
}

#[tokio::test]
async fn metric_that_an_unread_rule_may_have_is_not_called_unknown() {
    let server = prometheus();
    let read = async |source: &PrometheusSource, metric: &str| {
        let error = source.read_custom(request(metric)).await.unwrap_err();
        describe(&error)
    };
    let unknown = |metric| format!("no such metric: metric {metric} is not registered for pod");
    server.set_answer("inflight", 404, Value::Null);
    let source = source_with(&server, RULES, Compat::Off);
    source.relist().await.unwrap_err();
    // The rule of http_requests_total was read, and has the only name of its series.
    let unread = "no such metric: the series of the rules that may have inflight have not been \
                  read yet: Prometheus at http://main: unknown response code 404: check the path \
                  of the URL";
    assert_eq!(read(&source, "inflight").await, unread);
    // The failures of other rules are not named, even if no rule was read.
    let failing = prometheus();
    failing.set_answer("inflight", 404, Value::Null);
    failing.fail("http_requests_total");
    let without_series = source_with(&failing, RULES, Compat::Off);
    without_series.relist().await.unwrap_err();
    assert_eq!(read(&without_series, "inflight").await, unread);
    assert_eq!(read(&source, "orders").await, unknown("orders"));
    let reference = source_with(&server, RULES, Compat::Reference);
    reference.relist().await.unwrap_err();
    let text = "no such metric: the metrics have not been discovered yet";
    assert_eq!(read(&reference, "inflight").await, text);

    // Once the series were read, they are known, even if they are gone.
    server.set_series("inflight", &json!([]));
    source.relist().await.unwrap();
    assert_eq!(read(&source, "inflight").await, unknown("inflight"));
    server.fail("inflight");
    source.relist().await.unwrap_err();
    assert_eq!(read(&source, "inflight").await, unknown("inflight"));
}

/// An API server whose discovery can't be read.
struct NoDiscovery;

#[async_trait]
impl ResourceMapper for NoDiscovery {
    async fn load(&self) -> Result<ApiResources, MapperError> {
        Err(MapperError(Arc::new(io::Error::other("refused"))))
    }
}

#[tokio::test]
async fn only_metrics_that_rules_may_have_wait_for_the_resources_of_the_api_server() {
    let (mapper, objects) = (Arc::new(NoDiscovery), Arc::new(objects()));
    let settings = PrometheusSettings::default();
    let source = create_source(&prometheus(), RULES, settings, mapper, objects);
    let undiscovered = |query: Query| source.undiscovered(&query);
    source.relist().await.unwrap_err();
    let text = "the metrics of rules are not discovered yet: no discovery has succeeded yet: \
                unable to read the resources of the API server: refused";
    assert_eq!(undiscovered(external("queue_length").into()).as_deref(), Some(text));
    assert_eq!(undiscovered(request("inflight").into()).as_deref(), Some(text));
    assert_eq!(undiscovered(all_nodes()).as_deref(), Some(text));
    assert_eq!(undiscovered(external("orders").into()), None);
    assert_eq!(undiscovered(external("inflight").into()), None, "a rule of custom metrics");
    assert_eq!(undiscovered(request("orders").into()), None);
    assert_eq!(source.readiness(), Err(vec!["no discovery has succeeded yet".to_owned()]));

    source.reload(&RULES.replace("seriesQuery: queue_length", "seriesQuery: orders")).unwrap();
    source.relist().await.unwrap_err();
    assert_eq!(undiscovered(external("orders").into()).as_deref(), Some(text));
    assert_eq!(undiscovered(external("queue_length").into()), None);
}
