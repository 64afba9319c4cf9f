//! Values of custom and external metrics.

use std::sync::Arc;

use hpa_calc::{Quantity, Selector};
use hpa_metrics::{
    ExternalQuery, FixedMapper, MetricError, MetricSource, NotFound, test_doubles::resources,
};
use serde_json::{Value, json};

use super::fake::{RULES, create_source, external, objects, prometheus, request, sample, source};
use crate::{
    client::RuleQueryFailure,
    rules::{Compat, Config},
    source::{PrometheusSettings, PrometheusSource, Servers},
};

#[tokio::test]
async fn selected_objects_have_values_in_the_order_of_the_list() {
    let server = prometheus();
    let source = source(&server, Compat::Off).await;
    let query = r#"max(inflight{namespace="shop",pod=~"web-1|web-0"}) by (pod)"#;
    server.set_vector(
        query,
        &json!([sample("web-0", "2.5"), sample("web-1", "NaN"), sample("x", "1")]),
    );
    let web = Selector::parse("app=web").unwrap();
    let values = source.read_custom(request("inflight").selected(&web)).await.unwrap();
    assert_eq!(server.take_requests(), [query]);
    assert_eq!(values.object_kind.kind, "Pod");
    assert_eq!(values.origin.rule, "rules[1]");
    let [item] = &values.items[..] else { panic!("{values:?}") };
    assert_eq!(
        (item.object.to_string(), Quantity::from(item.value).to_string()),
        ("web-0".into(), "2500m".into())
    );
    assert_eq!(item.timestamp.as_millisecond(), 1_700_000_000_500);
    assert_eq!(values.omitted[0].subject, "web-1");

    let nothing = Selector::parse("app=none").unwrap();
    let error = source.read_custom(request("inflight").selected(&nothing)).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    assert_eq!(server.take_requests(), [""; 0]);
}

#[tokio::test]
async fn rules_of_the_file_are_counted_without_the_default_rules() {
    let server = prometheus();
    let config = Config { default_rule_count: 1, ..Config::parse(RULES).unwrap() };
    let servers = Servers::new(Some(server.client("main", Compat::Off)), Arc::new(()));
    let (mapper, objects) = (Arc::new(FixedMapper(resources())), Arc::new(objects()));
    let settings = PrometheusSettings::default();
    let source = PrometheusSource::new(config, servers, settings, mapper, objects).unwrap();
    source.relist().await.unwrap();
    let query = r#"max(inflight{namespace="shop",pod="web-0"}) by (pod)"#;
    server.set_vector(query, &json!([sample("web-0", "1")]));
    let values = source.read_custom(request("inflight").named("web-0")).await.unwrap();
    assert_eq!(values.origin.rule, "rules[0]");
    assert_eq!(source.query_counts()[0].rule, "rules[0]");
}

#[tokio::test]
async fn unknown_metric_needs_no_list_without_compatibility() {
    let server = prometheus();
    let everything = Selector::everything();
    for (compat, lists) in [(Compat::Off, 0), (Compat::Reference, 1)] {
        let settings = PrometheusSettings { compat, ..PrometheusSettings::default() };
        let (mapper, objects) = (Arc::new(FixedMapper(resources())), Arc::new(objects()));
        let source = create_source(&server, RULES, settings, mapper, objects.clone());
        source.relist().await.unwrap();
        let error = source.read_custom(request("none").selected(&everything)).await.unwrap_err();
        assert!(error.is_not_found(), "{error}");
        assert_eq!(objects.lists.lock().len(), lists);
    }
}

#[tokio::test]
async fn named_object_without_a_value_has_a_reason() {
    let server = prometheus();
    let source = source(&server, Compat::Off).await;
    let query = r#"max(inflight{namespace="shop",pod="web-0"}) by (pod)"#;
    let read = async |samples: Value| {
        server.set_vector(query, &samples);
        source.read_custom(request("inflight").named("web-0")).await
    };
    let reason = |result: Result<_, MetricError>| match result {
        Err(MetricError::NoValueForObject(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert!(read(json!([sample("web-0", "1")])).await.is_ok());
    assert!(matches!(reason(read(json!([])).await), NotFound::NoResult { .. }));
    assert!(matches!(reason(read(Value::Null).await), NotFound::NoResult { .. }));
    let others = read(json!([sample("web-1", "1")])).await;
    assert!(matches!(reason(others), NotFound::OtherObjects { results: 1, .. }));
    let nan = read(json!([sample("web-0", "NaN")])).await;
    assert!(matches!(reason(nan), NotFound::UnusableSample { .. }));
}

#[tokio::test]
async fn failed_query_is_an_error_and_not_a_missing_metric() {
    let server = prometheus();
    let source = source(&server, Compat::Off).await;
    server.fail(r#"max(inflight{namespace="shop",pod="web-0"}) by (pod)"#);
    let error = source.read_custom(request("inflight").named("web-0")).await.unwrap_err();
    assert!(matches!(error, MetricError::Fetch(_)), "{error}");
    assert_eq!(hpa_metrics::describe(&error), "unable to fetch metrics: execution: boom");
}

#[tokio::test]
async fn error_about_a_response_names_the_server_once() {
    let server = prometheus();
    let source = source(&server, Compat::Off).await;
    let query = "sum(queue_length{})";
    server.set_answer(query, 200, json!("a login page"));
    let error = source.read_external(external("queue_length")).await.unwrap_err();
    let text = hpa_metrics::describe(&error);
    let expected = "unable to fetch metrics: Prometheus at http://main: the response isn't a \
                    response of Prometheus: ";
    assert!(text.starts_with(expected) && text.matches("http://").count() == 1, "{text}");
    assert!(!RuleQueryFailure::is_logged_outage(&error));
    server.set_answer(query, 502, json!(""));
    let error = source.read_external(external("queue_length")).await.unwrap_err();
    assert!(RuleQueryFailure::is_logged_outage(&error), "the client logs it");
    let expected = "unable to fetch metrics: Prometheus at http://main: unknown response code 502";
    assert_eq!(hpa_metrics::describe(&error), expected);
    let down = json!({ "status": "error", "errorType": "unavailable", "error": "store down" });
    server.set_answer(query, 503, down);
    let error = source.read_external(external("queue_length")).await.unwrap_err();
    let expected = "unable to fetch metrics: Prometheus at http://main: unavailable: store down";
    assert_eq!(hpa_metrics::describe(&error), expected);
}

#[tokio::test]
async fn external_metric_has_the_labels_of_its_series() {
    let server = prometheus();
    let source = source(&server, Compat::Off).await;
    let query = r#"sum(queue_length{queue="mail"})"#;
    let series = json!({ "metric": { "queue": "mail" }, "value": [5, "7"] });
    let infinite = json!({ "metric": {}, "value": [5, "+Inf"] });
    server.set_vector(query, &json!([series, infinite]));
    let metric_selector = Selector::parse("queue=mail").unwrap();
    let external = ExternalQuery { metric_selector, ..external("queue_length") };
    let values = source.read_external(external).await.unwrap();
    let labels: Vec<_> = values.items[0].labels.as_ref().unwrap().pairs().collect();
    assert_eq!(labels, [("queue", "mail")]);
    assert_eq!(Quantity::from(values.items[0].value).to_string(), "7");
    assert_eq!((values.items.len(), values.omitted.len()), (1, 1));
}
