//! The source against a fake Prometheus.

mod absence;
mod fake;
mod safety;

use std::{sync::Arc, time::Duration};

use hpa_calc::{Quantity, Selector, api::ResourceName};
use hpa_metrics::{
    Catalog, ExternalQuery, FieldRequirement, FixedMapper, MetricError, MetricSource, NotFound,
    ObjectKey, Objects, Query, query::MetadataField, resource::GroupResource,
    test_doubles::FixedObjects,
};
use serde_json::{Value, json};

pub(super) use self::fake::{Prometheus, RULES, prometheus, request, resources, sample};
use self::fake::{external, has_custom, objects, source, source_with};
use super::{PrometheusSettings, PrometheusSource, RelistError, RulesFile, Servers};
use crate::rules::{Compat, Config, config::Server};

#[tokio::test]
async fn discovery_lists_the_metrics_of_all_rules() {
    let server = prometheus();
    let source = source_with(&server, RULES, Compat::Off);
    let not_yet = vec!["no discovery has succeeded yet".to_owned()];
    assert_eq!(source.readiness(), Err(not_yet));
    let error = source.read_custom(request("inflight").named("web-0")).await.unwrap_err();
    assert!(matches!(error, MetricError::UnknownMetric(NotFound::NotDiscovered)), "{error}");

    source.relist().await.unwrap();
    assert_eq!(source.readiness(), Ok(()));
    let mut requests = server.take_requests();
    requests.sort();
    assert_eq!(requests, ["http_requests_total", "inflight", "queue_length"]);
    let custom = source.custom_metrics();
    let custom: Vec<_> =
        custom.iter().map(|metric| format!("{}/{}", metric.resource, metric.metric)).collect();
    assert_eq!(
        custom,
        [
            "namespaces/http_requests_total",
            "pods/http_requests_total",
            "namespaces/inflight",
            "pods/inflight",
        ]
    );
    assert!(!source.external_metrics()[0].is_namespaced);
    assert!(has_custom(&source, &GroupResource::new("", "Pod"), true, "inflight"));
    assert!(!has_custom(&source, &GroupResource::pods(), false, "inflight"));
    let has_external = |metric| source.has(&external(metric).into());
    assert!(has_external("queue_length") && !has_external("inflight"));
    let status = source.rule_status();
    assert_eq!(
        (&*status[1].rule, status[1].series_count, status[1].metric_count),
        ("rules[1]", 1, 1)
    );
    assert!(status[1].last_success.is_some());
}

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
async fn unknown_metric_needs_no_list_without_compatibility() {
    let server = prometheus();
    let everything = Selector::everything();
    for (compat, lists) in [(Compat::Off, 0), (Compat::Reference, 1)] {
        let settings = PrometheusSettings { compat, ..PrometheusSettings::default() };
        let servers = Servers::new(Some(server.client("main", compat)), Arc::new(()));
        let objects = Arc::new(objects());
        let mapper = Arc::new(FixedMapper(resources()));
        let config = Config::parse(RULES).unwrap();
        let source =
            PrometheusSource::new(config, servers, settings, mapper, objects.clone()).unwrap();
        source.relist().await.unwrap();
        let error = source.read_custom(request("none").selected(&everything)).await.unwrap_err();
        assert!(error.is_not_found(), "{error}");
        assert_eq!(objects.lists.lock().len(), lists);
    }
}

#[tokio::test]
async fn unsynced_cache_fails_the_readiness_of_resource_rules_only() {
    let server = prometheus();
    let unsynced = vec!["the cache of pods has not synced yet".to_owned()];
    let (without_resource_rules, _) = RULES.split_once("resourceRules").unwrap();
    for (rules, expected) in [(RULES, Err(unsynced.clone())), (without_resource_rules, Ok(()))] {
        let servers = Servers::new(Some(server.client("main", Compat::Off)), Arc::new(()));
        let objects = FixedObjects { unsynced: unsynced.clone(), ..objects() };
        let (config, mapper) = (Config::parse(rules).unwrap(), Arc::new(FixedMapper(resources())));
        let settings = PrometheusSettings::default();
        let source = PrometheusSource::new(config, servers, settings, mapper, Arc::new(objects));
        let source = source.unwrap();
        source.relist().await.unwrap();
        assert_eq!(source.readiness(), expected);
        assert_eq!(source.undiscovered(&request("none").into()), None);
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

#[tokio::test]
async fn failed_rule_keeps_its_series_and_blocks_others_only_with_compatibility() {
    let new_series = json!([
        { "__name__": "inflight", "namespace": "shop", "pod": "web-0" },
        { "__name__": "inflight_new", "namespace": "shop", "pod": "web-0" },
    ]);
    for (compat, has_new) in [(Compat::Off, true), (Compat::Reference, false)] {
        let server = prometheus();
        let source = source(&server, compat).await;
        server.fail("http_requests_total");
        server.set_series("inflight", &new_series);
        let error = source.relist().await.unwrap_err();
        assert_eq!(error.to_string(), "unable to discover the series of rules[0]: execution: boom");
        assert!(has_custom(&source, &GroupResource::pods(), true, "http_requests_total"));
        assert_eq!(has_custom(&source, &GroupResource::pods(), true, "inflight_new"), has_new);
        assert_eq!(source.readiness(), Ok(()));
        assert_eq!(source.problems(), ["rules[0]: execution: boom"]);
        assert_eq!(source.rule_status()[0].failures, 1);
    }
}

#[tokio::test]
async fn invalid_rule_disables_all_rules_only_with_compatibility() {
    let rules =
        RULES.replace("seriesQuery: inflight", "seriesQuery: inflight\n  name: {matches: '('}");
    let server = prometheus();
    let source = source_with(&server, &rules, Compat::Off);
    assert!(matches!(source.relist().await, Err(RelistError::Rules(_))));
    assert!(has_custom(&source, &GroupResource::pods(), true, "http_requests_total"));
    assert!(
        source.problems()[0].starts_with("rules[1]: line 10, column "),
        "{:?}",
        source.problems()
    );

    let source = source_with(&server, &rules, Compat::Reference);
    assert!(matches!(source.relist().await, Err(RelistError::InvalidRule(_))));
    assert!(!has_custom(&source, &GroupResource::pods(), true, "http_requests_total"));
}

#[tokio::test(start_paused = true)]
async fn server_failed_if_no_valid_rule_gets_a_response() {
    let rules = RULES.replacen("seriesQuery: http", "name: {matches: '('}\n  seriesQuery: http", 1);
    let server = prometheus();
    let source = source_with(&server, &rules, Compat::Off);
    server.hang("inflight");
    assert!(matches!(source.relist().await, Err(RelistError::Rules(_))), "another rule is read");
    server.hang("queue_length");
    let Err(RelistError::ServersFailed { failures, causes }) = source.relist().await else {
        panic!("no failure of the server");
    };
    assert_eq!(failures.len(), 2, "with the invalid rule: {failures:?}");
    assert!(failures[1].starts_with("rules[1], externalRules[0]: no response"), "{failures:?}");
    assert_eq!(causes.len(), 1, "{causes:?}");
    assert!(causes[0].starts_with("no response from Prometheus"), "{causes:?}");
    let expected = format!(
        "the metrics of rules are not discovered yet: rules[0]: the rule is invalid; {}",
        causes[0]
    );
    assert_eq!(source.undiscovered(&request("inflight").into()), Some(expected));
}

#[tokio::test]
async fn server_failed_unless_an_error_is_about_a_rule() {
    let server = prometheus();
    let answer = |key: &str, status| {
        let body = json!({ "status": "error", "errorType": "bad_data", "error": "boom" });
        server.answers.lock().insert(key.to_owned(), (status, body));
    };
    for (key, status) in [("http_requests_total", 500), ("inflight", 429), ("queue_length", 404)] {
        answer(key, status);
    }
    let source = source_with(&server, RULES, Compat::Off);
    let Err(RelistError::ServersFailed { causes, .. }) = source.relist().await else {
        panic!("no failure of the server");
    };
    let expected = [
        "Prometheus at http://main: unknown response code 500",
        "Prometheus at http://main: unknown response code 429",
        "Prometheus at http://main: unknown response code 404: check the path of the URL",
    ];
    assert_eq!(causes, expected);
    let failures = source.inspect_custom().into_iter().map(|rule| rule.server_failure);
    let named = [expected[0], expected[1]].map(|failure| Some(failure.to_owned()));
    assert_eq!(failures.collect::<Vec<_>>(), named);

    answer("inflight", 400);
    assert!(matches!(source.relist().await, Err(RelistError::Rules(_))), "the query is rejected");
    assert_eq!(source.inspect_custom()[1].server_failure, None);
}

#[tokio::test]
async fn invalid_resource_rules_are_named_beside_unread_series() {
    let server = prometheus();
    for selector in ["http_requests_total", "inflight", "queue_length"] {
        server.fail(selector);
    }
    let query = "containerQuery: cpu{<<.LabelMatchers>>}";
    let rules = RULES.replace(query, "containerQuery: cpu{<<.LabelMatchers}");
    let source = source_with(&server, &rules, Compat::Off);
    source.relist().await.unwrap_err();
    let text = source.undiscovered(&request("inflight").into()).unwrap();
    let expected = "the metrics of rules are not discovered yet: rules[0], rules[1], \
                    externalRules[0]: Prometheus reported execution; resourceRules: the rule is \
                    invalid";
    assert_eq!(text, expected);
}

#[tokio::test]
async fn rule_reads_from_the_server_that_it_names() {
    let (main, other) = (prometheus(), Prometheus::default());
    let definition =
        Server { name: "eu".to_owned(), url: "http://eu".to_owned(), ..Server::default() };
    let mut servers = Servers::new(Some(main.client("main", Compat::Off)), Arc::new(()));
    let client = other.client("eu", Compat::Off);
    servers.named.insert("eu".to_owned(), (definition, client));
    let rules = RULES.replace("seriesQuery: inflight", "seriesQuery: inflight\n  server: eu")
        + "servers: [{name: eu, url: 'http://eu'}]";
    let source = PrometheusSource::new(
        Config::parse(&rules).unwrap(),
        servers,
        PrometheusSettings::default(),
        Arc::new(FixedMapper(resources())),
        Arc::new(objects()),
    );
    other
        .set_series("inflight", &json!([{ "__name__": "inflight", "pod": "p", "namespace": "n" }]));
    let source = source.unwrap();
    source.relist().await.unwrap();
    assert_eq!(other.take_requests(), ["inflight"]);
    let query = r#"max(inflight{namespace="shop",pod="web-0"}) by (pod)"#;
    other.set_vector(query, &json!([sample("web-0", "1")]));
    let values = source.read_custom(request("inflight").named("web-0")).await.unwrap();
    assert_eq!(values.origin.server, "eu");
    assert_eq!(other.take_requests(), [query]);
    let status = source.rule_status();
    assert_eq!((&*status[1].server, &*status[1].server_url), ("eu", "http://eu"));
    assert_eq!((&*status[0].server, &*status[0].server_url), ("main", "http://main"));
}

#[test]
fn unknown_server_is_reported_with_its_position() {
    let config = Config::parse("rules:\n- {seriesQuery: up, server: eu}\n").unwrap();
    let error = Servers::new(None, Arc::new(())).with_config(&config, Compat::Off).err().unwrap();
    assert_eq!(
        error.to_string(),
        r#"line 2, column 29: rules[0].server: there is no server "eu" in `servers`"#
    );
    let config = Config::parse("externalRules:\n- {seriesQuery: up}\n").unwrap();
    let error = Servers::new(None, Arc::new(())).with_config(&config, Compat::Off).err().unwrap();
    assert!(error.to_string().contains("names no `server`"), "{error}");
}

#[tokio::test]
async fn pods_are_read_by_namespace_and_a_failure_is_reported() {
    let server = prometheus();
    let source = source(&server, Compat::Off).await;
    let container = |pod: &str, time: u32, value: &str| json!({ "metric": { "pod": pod, "container": "app" }, "value": [time, value] });
    server.set_vector(
        r#"cpu{namespace="shop",pod="web-0"}"#,
        &json!([container("web-0", 9, "0.25")]),
    );
    server.set_vector(
        r#"memory{namespace="shop",pod="web-0"}"#,
        &json!([container("web-0", 7, "1024")]),
    );
    server.fail(r#"cpu{namespace="other",pod="a"}"#);
    let query = Query::PodUsage {
        namespace: String::new(),
        pods: Objects::Selected(Selector::parse("app in (web, other)").unwrap()),
        fields: [FieldRequirement {
            field: MetadataField::Name,
            must_equal: false,
            value: "web-1".to_owned(),
        }]
        .into(),
    };
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
async fn nodes_are_read_together() {
    let server = prometheus();
    let source = source(&server, Compat::Off).await;
    let node = |value: &str| json!([{ "metric": { "instance": "n0" }, "value": [5, value] }]);
    server.set_vector(r#"node_cpu{instance=~"n0|n1"}"#, &node("2"));
    server.set_vector(r#"node_memory{instance=~"n0|n1"}"#, &node("2048"));
    let query = Query::NodeUsage {
        nodes: Objects::Selected(Selector::everything()),
        fields: Box::default(),
    };
    let usage = source.read(&query).await.unwrap().into_nodes().unwrap();
    assert_eq!((usage.items.len(), usage.failures.len()), (1, 0));
    let cpu = usage.items[0].usage.get(&ResourceName::Cpu).unwrap();
    assert_eq!((&*usage.items[0].metadata.name, cpu.as_milli()), ("n0", 2000));
}

#[tokio::test(start_paused = true)]
async fn valid_change_of_the_file_is_used_and_an_invalid_one_refused() {
    let server = prometheus();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rules.yaml");
    std::fs::write(&path, RULES).unwrap();
    let file = RulesFile::read(path.clone()).unwrap();
    let source = Arc::new(source_with(&server, RULES, Compat::Off));
    let task = tokio::spawn({
        let source = source.clone();
        async move { source.run(Some(file)).await }
    });
    let wait_until = async |condition: &dyn Fn() -> bool| {
        let start = tokio::time::Instant::now();
        while !condition() {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(start.elapsed() < Duration::from_secs(60), "not within a minute");
        }
    };
    wait_until(&|| has_custom(&source, &GroupResource::pods(), true, "inflight")).await;

    std::fs::write(&path, "rules: [{seriesQueries: x}]").unwrap();
    wait_until(&|| !source.problems().is_empty()).await;
    assert!(
        source.problems()[0].contains("unknown field `seriesQueries`"),
        "{:?}",
        source.problems()
    );
    assert!(has_custom(&source, &GroupResource::pods(), true, "inflight"));

    let renamed =
        RULES.replace("seriesQuery: inflight", "seriesQuery: inflight\n  name: {as: busy}");
    std::fs::write(&path, renamed).unwrap();
    wait_until(&|| has_custom(&source, &GroupResource::pods(), true, "busy")).await;
    assert!(!has_custom(&source, &GroupResource::pods(), true, "inflight"));
    assert_eq!(source.problems(), [""; 0]);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn failed_discovery_is_repeated_before_the_interval_ends() {
    let server = prometheus();
    for selector in ["http_requests_total", "inflight", "queue_length"] {
        server.fail(selector);
    }
    let source = Arc::new(source_with(&server, RULES, Compat::Off));
    let task = tokio::spawn({
        let source = source.clone();
        async move { source.run(None).await }
    });
    while server.requests.lock().len() < 3 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(source.readiness().is_err());
    let working = prometheus();
    *server.answers.lock() = working.answers.lock().clone();
    let start = tokio::time::Instant::now();
    while source.readiness().is_err() {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    task.abort();
}

#[tokio::test]
async fn mistakes_that_compile_are_found_after_discovery() {
    let server = prometheus();
    let source = source_with(&server, RULES, Compat::Off);
    source.relist().await.unwrap();
    assert_eq!(source.state().mistakes(), [""; 0]);
    let query = "max(<<.Series>>{<<.LabelMatchers>>}) by";
    let rules = RULES.replace(query, &query.replace(") by", " by"));
    let source = source_with(&server, &rules, Compat::Off);
    source.relist().await.unwrap();
    let mistakes = source.state().mistakes();
    assert_eq!(mistakes.len(), 1, "{mistakes:?}");
    assert!(mistakes[0].contains(": rules[1].metricsQuery: not PromQL"), "{mistakes:?}");
}

#[tokio::test]
async fn maximum_age_is_extended_but_not_reduced() {
    let mut source = source_with(&prometheus(), RULES, Compat::Off);
    for (age, expected) in [(60, 600), (3600, 3600)] {
        source.extend_max_age(Duration::from_secs(age));
        assert_eq!(source.settings().max_age, Duration::from_secs(expected));
    }
}
