//! Discovery of series, with failing servers and invalid rules.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use hpa_metrics::{
    Catalog, FixedMapper, MetricError, MetricSource, NotFound, ResourceMapper,
    mapper::MapperError,
    resource::{ApiResources, GroupResource},
    test_doubles::{FixedObjects, resources},
};
use rstest::rstest;
use serde_json::json;

use super::fake::{
    RULES, create_source, external, has_custom, objects, prometheus, request, source, source_with,
};
use crate::{
    rules::Compat,
    source::{PrometheusSettings, RelistError},
};

#[tokio::test]
async fn servers_of_the_rules_are_listed_once() {
    let source = source_with(&prometheus(), RULES, Compat::Off);
    assert_eq!(source.listed_servers(), ["http://main"]);
}

#[tokio::test]
async fn outage_is_logged_by_the_client_and_not_by_the_discovery() {
    let server = prometheus();
    let source = source_with(&server, RULES, Compat::Off);
    for (status, expected) in [(403, false), (502, true)] {
        for key in ["http_requests_total", "inflight", "queue_length"] {
            server.set_answer(key, status, json!(""));
        }
        let Err(RelistError::ServersFailed { is_logged, .. }) = source.relist().await else {
            panic!("no server answers");
        };
        assert_eq!(is_logged, expected, "{status}");
    }
}

#[tokio::test]
async fn discovery_lists_the_metrics_of_all_rules() {
    let server = prometheus();
    let source = source_with(&server, RULES, Compat::Off);
    let not_yet = vec!["no discovery has succeeded yet".to_owned()];
    assert_eq!(source.readiness(), Err(not_yet));
    let error = source.read_custom(request("inflight").named("web-0")).await.unwrap_err();
    assert!(matches!(error, MetricError::UnknownMetric(NotFound::Unread { .. })), "{error}");

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
async fn unsynced_cache_fails_the_readiness_of_resource_rules_only() {
    let server = prometheus();
    let unsynced = vec!["the cache of pods has not synced yet".to_owned()];
    let (without_resource_rules, _) = RULES.split_once("resourceRules").unwrap();
    for (rules, expected) in [(RULES, Err(unsynced.clone())), (without_resource_rules, Ok(()))] {
        let objects = Arc::new(FixedObjects { unsynced: unsynced.clone(), ..objects() });
        let (settings, mapper) = (PrometheusSettings::default(), FixedMapper(resources()));
        let source = create_source(&server, rules, settings, Arc::new(mapper), objects);
        source.relist().await.unwrap();
        assert_eq!(source.readiness(), expected);
        assert_eq!(source.undiscovered(&request("none").into()), None);
    }
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
    let Err(RelistError::ServersFailed { failures, causes, .. }) = source.relist().await else {
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
async fn series_that_another_one_replaces_are_unused() {
    let server = prometheus();
    let series = ["threads", "threads_busy"].map(|name| json!({ "__name__": name }));
    server.set_series("threads", &json!(series));
    let rule = "externalRules: [{seriesQuery: threads, metricsQuery: m, name: NAME,
        resources: {namespaced: false}}]";
    for (name, unused) in [("{as: threads}", vec!["threads"]), ("{}", Vec::new())] {
        let source = source_with(&server, &rule.replace("NAME", name), Compat::Off);
        source.relist().await.unwrap();
        assert_eq!(source.inspect_external()[0].unused_series, unused);
    }
}

#[tokio::test]
async fn server_failed_unless_an_error_is_about_a_rule() {
    let server = prometheus();
    let answer = |key: &str, status| {
        let body = json!({ "status": "error", "errorType": "bad_data", "error": "boom" });
        server.set_answer(key, status, body);
    };
    for (key, status) in [("http_requests_total", 500), ("inflight", 429), ("queue_length", 404)] {
        answer(key, status);
    }
    let source = source_with(&server, RULES, Compat::Off);
    let Err(RelistError::ServersFailed { causes, .. }) = source.relist().await else {
        panic!("no failure of the server");
    };
    let expected = [
        "Prometheus at http://main: unknown response code 500: bad_data: boom",
        "Prometheus at http://main: unknown response code 429: bad_data: boom",
        "Prometheus at http://main: unknown response code 404: bad_data: boom: check the path of \
         the URL",
    ];
    assert_eq!(causes, expected);
    let failures = source.inspect_custom().into_iter().map(|rule| rule.server_failure);
    let named = [expected[0], expected[1]].map(|failure| Some(failure.to_owned()));
    assert_eq!(failures.collect::<Vec<_>>(), named);
    let for_tenants = source.state().discovery_problems();
    assert!(for_tenants.iter().all(|problem| !problem.contains("boom")), "{for_tenants:?}");

    answer("inflight", 400);
    assert!(matches!(source.relist().await, Err(RelistError::Rules(_))), "the query is rejected");
    assert_eq!(source.inspect_custom()[1].server_failure, None);
}

#[tokio::test]
async fn error_of_a_discovery_names_the_server_whose_response_cannot_be_decoded() {
    let server = prometheus();
    for key in ["http_requests_total", "inflight"] {
        server.set_answer(key, 200, json!("a login page"));
    }
    let error = source_with(&server, RULES, Compat::Off).relist().await.unwrap_err().to_string();
    let expected = "unable to discover the series of rules[0], rules[1]: Prometheus at \
                    http://main: the response isn't a response of Prometheus: ";
    assert!(error.starts_with(expected), "{error}");
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

#[rstest]
#[case::first_failure(Duration::ZERO, Duration::from_secs(10))]
#[case::long_outage(Duration::from_mins(30), Duration::from_secs(31))]
#[tokio::test(start_paused = true)]
async fn failed_discovery_is_repeated_before_the_interval_ends(
    #[case] outage: Duration,
    #[case] limit: Duration,
) {
    let server = prometheus();
    for selector in ["http_requests_total", "inflight", "queue_length"] {
        server.set_answer(selector, 503, json!("down"));
    }
    let source = Arc::new(source_with(&server, RULES, Compat::Off));
    let task = tokio::spawn({
        let source = source.clone();
        async move { source.run(None).await }
    });
    while server.requests.lock().len() < 3 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(outage).await;
    assert!(source.readiness().is_err());
    server.copy_answers(&prometheus());
    let start = tokio::time::Instant::now();
    while source.readiness().is_err() {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(start.elapsed() < limit);
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

/// Counts the loads of the resources.
#[derive(Default)]
struct CountingMapper(AtomicUsize);

#[async_trait]
impl ResourceMapper for CountingMapper {
    async fn load(&self) -> Result<ApiResources, MapperError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        Ok(resources())
    }
}

#[tokio::test]
async fn compilation_during_a_discovery_shares_its_load_of_the_resources() {
    let (mapper, objects) = (Arc::new(CountingMapper::default()), Arc::new(objects()));
    let settings = PrometheusSettings::default();
    let source = create_source(&prometheus(), RULES, settings, mapper.clone(), objects);
    let (relisted, compiled) = tokio::join!(source.relist(), source.compile());
    assert!(relisted.is_ok() && compiled.is_ok());
    assert_eq!(mapper.0.load(Ordering::Relaxed), 1);
    source.relist().await.unwrap();
    assert_eq!(mapper.0.load(Ordering::Relaxed), 2, "each discovery reads the resources");
}

#[test]
fn error_names_the_first_failures() {
    let failures = (0..8).map(|index| format!("rules[{index}]: boom")).collect();
    let expected = "unable to discover the series of rules[0]: boom; rules[1]: boom; rules[2]: \
                    boom and 5 more";
    assert_eq!(RelistError::Rules(failures).to_string(), expected);
}
