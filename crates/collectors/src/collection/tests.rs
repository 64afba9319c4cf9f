mod fixture;

use std::sync::{Weak, atomic::Ordering};

use hpa_calc::Quantity;
use hpa_metrics::{Catalog, CustomQuery, MetricSource, describe, resource::GroupResource};
use serde_json::json;
use tokio::time::sleep;

use self::fixture::{
    Fixture, JSON_KEY, SECOND, custom_query, external_hpa, external_query, key, object_hpa,
    pods_hpa,
};
use super::{metric::CollectedMetric, *};
use crate::{LookupError, annotations::MetricType};

#[tokio::test(start_paused = true)]
async fn value_is_collected_on_request_and_reused_for_an_interval() {
    let fixture = Fixture::new(32);
    fixture.apply(&external_hpa("web"));
    sleep(SECOND * 600).await;
    assert_eq!(fixture.cluster.collections(), 0, "nothing is polled");
    assert_eq!(fixture.external("q=web").await.unwrap(), ("5".to_owned(), 0));
    sleep(SECOND * 5).await;
    assert_eq!(fixture.external("q=web").await.unwrap(), ("5".to_owned(), 5));
    assert_eq!(fixture.cluster.collections(), 1);
    sleep(SECOND * 5).await;
    assert_eq!(fixture.external("").await.unwrap(), ("5".to_owned(), 0));
    assert_eq!(fixture.cluster.collections(), 2);
    sleep(SECOND * 600).await;
    assert_eq!(fixture.cluster.collections(), 2, "nothing is polled after a request");
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_share_a_collection() {
    let fixture = Fixture::new(32);
    fixture.apply(&external_hpa("web"));
    let requests = (0..100).map(|_| fixture.external("q=web"));
    let results = futures::future::join_all(requests).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(fixture.cluster.collections(), 1);
}

#[tokio::test(start_paused = true)]
async fn value_of_a_failing_backend_expires_after_its_maximum_age() {
    let fixture = Fixture::new(32);
    fixture.apply(&external_hpa("web"));
    fixture.external("q=web").await.unwrap();
    *fixture.cluster.is_failing.lock() = true;
    let mut ages = Vec::new();
    let failure = loop {
        assert!(ages.len() < 10, "a value that is too old: {ages:?}");
        sleep(SECOND * 5).await;
        match fixture.external("q=web").await {
            Ok((_, age)) => ages.push(age),
            Err(error) => break error,
        }
    };
    assert_eq!(failure, "unable to fetch metrics: the cache of pods has not synced yet");
    // A value expires after two intervals of 10 s.
    assert!(ages.iter().all(|age| *age <= 20) && ages.contains(&5), "{ages:?}");
    *fixture.cluster.is_failing.lock() = false;
    sleep(SECOND * 10).await;
    assert_eq!(fixture.external("q=web").await.unwrap(), ("5".to_owned(), 0));
}

#[tokio::test(start_paused = true)]
async fn panic_of_a_collector_fails_one_collection() {
    let fixture = Fixture::new(32);
    fixture.apply(&external_hpa("web"));
    *fixture.cluster.is_panicking.lock() = true;
    let error = fixture.external("q=web").await.unwrap_err();
    assert_eq!(error, "unable to fetch metrics: the collector panicked");
    assert_eq!(fixture.failures.0.load(Ordering::SeqCst), 1);
    *fixture.cluster.is_panicking.lock() = false;
    sleep(SECOND * 10).await;
    assert_eq!(fixture.external("q=web").await.unwrap(), ("5".to_owned(), 0));
}

#[tokio::test(start_paused = true)]
async fn deleted_pods_and_pods_of_other_targets_have_no_value() {
    let fixture = Fixture::new(32);
    fixture.apply(&pods_hpa("web"));
    assert_eq!(fixture.pods("app=web").await.unwrap(), ["web-0", "web-1"]);
    assert_eq!(fixture.pods("").await.unwrap(), ["web-0", "web-1"]);
    fixture.cluster.pods.lock().retain(|(name, _)| name != "web-0");
    assert_eq!(fixture.pods("app=web").await.unwrap(), ["web-1"]);
    assert_eq!(fixture.cluster.collections(), 1);
    assert_eq!(fixture.pods("app=api").await.unwrap(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn only_the_metric_of_the_selected_pods_is_collected() {
    let fixture = Fixture::new(32);
    fixture.apply(&pods_hpa("web"));
    fixture.apply(&pods_hpa("api"));
    assert_eq!(fixture.pods("app=api").await.unwrap(), ["api-0"]);
    assert_eq!(fixture.cluster.collections(), 1);
    assert_eq!(fixture.pods("app").await.unwrap(), ["api-0", "web-0", "web-1"]);
    assert_eq!(fixture.cluster.collections(), 2);
}

#[tokio::test(start_paused = true)]
async fn controller_gets_the_reason_if_none_of_the_pods_has_a_value() {
    let mut fixture = Fixture::new(32);
    fixture.source = CollectionSource::new(fixture.collection.clone());
    fixture.apply(&pods_hpa("web"));
    let error = fixture.pods("app=api").await.unwrap_err();
    let expected = "has none of these pods: they were not ready at its last read, or not for \
        min-pod-ready-age, or it reads the pods of another autoscaler";
    let text = describe(&error);
    assert!(text.starts_with("no value: collector ") && text.ends_with(expected), "{text}");
    assert_eq!(fixture.pods("app=none").await.unwrap(), [""; 0]);
    fixture.apply(&pods_hpa("db"));
    let error = fixture.pods("app=api").await.unwrap_err();
    let expected = "no such metric: no autoscaler of these pods has a collector for it";
    assert_eq!(describe(&error), expected);
}

#[tokio::test(start_paused = true)]
async fn metric_without_a_collector_may_be_that_of_a_new_autoscaler() {
    let fixture = Fixture::new(32);
    let query = custom_query(GroupResource::new("zalando.org", "routegroups")).named("web");
    let error = fixture.source.read_custom(query).await.unwrap_err();
    let expected = "no autoscaler of the namespace shop has a collector for the metric rps of \
        routegroups.zalando.org; a new autoscaler has its collectors within seconds";
    assert!(describe(&error).ends_with(expected), "{error}");
}

#[tokio::test(start_paused = true)]
async fn deleted_target_is_skipped_and_unreadable_target_is_an_error() {
    let fixture = Fixture::new(32);
    fixture.apply(&pods_hpa("api"));
    fixture.apply(&pods_hpa("web"));
    let [kind, namespace, name] = ["Deployment", "shop", "api"].map(str::to_owned);
    let deleted = LookupError::NotFound { kind, namespace, name };
    *fixture.cluster.selector_error.lock() = Some(deleted);
    assert_eq!(fixture.pods("app").await.unwrap(), ["web-0", "web-1"]);
    *fixture.cluster.selector_error.lock() = Some(LookupError::NotSynced("scales"));
    let error = fixture.pods("app").await.unwrap_err();
    assert!(describe(&error).ends_with("the cache of scales has not synced yet"), "{error}");
    // The selector equals that of `web`, so the selector of `api` doesn't matter.
    assert_eq!(fixture.pods("app=web").await.unwrap(), ["web-0", "web-1"]);
}

#[tokio::test(start_paused = true)]
async fn resource_pods_of_another_api_group_has_no_metric() {
    let fixture = Fixture::new(32);
    fixture.apply(&pods_hpa("web"));
    let query = custom_query(GroupResource::new("example.org", "pods"));
    for query in [query.clone(), query.named("web-0")] {
        let error = fixture.source.read_custom(query).await.unwrap_err();
        assert!(error.is_not_found(), "{error}");
    }
    assert_eq!(fixture.cluster.collections(), 0);
}

#[test]
fn metric_is_known_in_its_namespace_only() {
    let fixture = Fixture::new(1);
    fixture.apply(&pods_hpa("web"));
    let query = |namespace: &str, metric: &str| CustomQuery {
        namespace: namespace.to_owned(),
        metric: metric.to_owned(),
        ..custom_query(GroupResource::pods())
    };
    assert!(fixture.source.has(&query("shop", "rps").into()));
    assert!(!fixture.source.has(&query("bank", "rps").into()));
    assert!(!fixture.source.has(&query("shop", "other").into()));
    let listed = fixture.source.custom_metrics();
    assert_eq!((listed.len(), &*listed[0].metric), (1, "rps"));
}

#[test]
fn metric_of_another_autoscaler_with_the_same_name_is_another_metric() {
    let fixture = Fixture::new(1);
    fixture.apply(&external_hpa("web"));
    let ingress = json!({ "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "web" });
    fixture.apply(&object_hpa("main", ingress, &[]));
    let has_external = |selector: &str| fixture.source.has(&external_query(selector).into());
    let has_object = |name: &str| {
        let ingresses = GroupResource::new("networking.k8s.io", "ingresses");
        fixture.source.has(&custom_query(ingresses).named(name).into())
    };
    assert!(has_external("q=web") && has_external("") && has_object("web"));
    assert!(!has_external("q=api") && !has_object("api"));
}

/// A metrics API selects by labels, as kube-metrics-adapter does.
#[tokio::test(start_paused = true)]
async fn controller_reads_only_metrics_with_the_same_selector() {
    let fixture = Fixture::new(32);
    let mut fewer_labels = external_hpa("all");
    let external = fewer_labels.spec.metrics[0].external.as_mut().unwrap();
    external.metric.selector.as_mut().unwrap().match_labels.remove("q");
    fixture.apply(&fewer_labels);
    fixture.apply(&external_hpa("web"));
    let of_controller = CollectionSource::new(fixture.collection.clone());
    let count = async |source: &CollectionSource, selector: &str| {
        source.read_external(external_query(selector)).await.unwrap().items.len()
    };
    assert_eq!(count(&fixture.source, "type=json-path").await, 2);
    assert_eq!(count(&of_controller, "type=json-path").await, 1);
    assert_eq!(count(&of_controller, "q=web,type=json-path").await, 1);
    for selector in ["", "q=web"] {
        assert!(fixture.source.has(&external_query(selector).into()));
        assert!(!of_controller.has(&external_query(selector).into()));
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_collections_are_limited() {
    // Half of the permits are reserved for other namespaces.
    let fixture = Fixture::new(8);
    for index in 0..40 {
        fixture.apply(&external_hpa(&format!("web-{index}")));
    }
    let selectors: Vec<String> = (0..40).map(|index| format!("q=web-{index}")).collect();
    let requests = selectors.iter().map(|selector| fixture.external(selector));
    assert!(futures::future::join_all(requests).await.iter().all(Result::is_ok));
    assert_eq!(fixture.cluster.collections(), 40);
    assert_eq!(fixture.cluster.most_running.load(Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn age_of_a_value_excludes_the_wait_for_a_permit() {
    let fixture = Fixture::new(1);
    for name in ["web", "api"] {
        fixture.apply(&external_hpa(name));
    }
    let (web, api) = tokio::join!(fixture.external("q=web"), fixture.external("q=api"));
    web.and(api).unwrap();
    let metrics =
        fixture.collection.index.lock().metrics_named("shop", MetricType::External, "queue");
    let ages = metrics.iter().filter_map(|metric| metric.age(&fixture.collection.reader));
    let mut ages: Vec<_> = ages.collect();
    ages.sort();
    assert_eq!(ages, [SECOND / 2, SECOND]);
}

#[test]
fn invalid_annotation_is_named_and_other_metrics_are_collected() {
    let fixture = Fixture::new(1);
    let mut broken = pods_hpa("web");
    let rest = external_hpa("web");
    broken.metadata.annotations.extend(rest.metadata.annotations.clone());
    broken.spec.metrics.extend(rest.spec.metrics);
    let interval = "metric-config.pods.rps.json-path/interval";
    broken.metadata.annotations.insert(interval.to_owned(), "soon".to_owned());
    fixture.apply(&broken);
    let messages = || fixture.collection.problems().into_iter().map(|problem| problem.message);
    assert_eq!(
        messages().collect::<Vec<_>>(),
        ["Failed to create new metrics collector: annotation \
          metric-config.pods.rps.json-path/interval: failed to parse interval value soon for \
          {Pods rps}: time: invalid duration \"soon\""]
    );
    let metric_count = |metric_type, name: &str| {
        fixture.collection.index.lock().metrics_named("shop", metric_type, name).len()
    };
    let counts = [(MetricType::Pods, "rps"), (MetricType::External, "queue")];
    assert_eq!(counts.map(|(metric_type, name)| metric_count(metric_type, name)), [0, 1]);

    broken.metadata.annotations.remove(interval);
    broken.metadata.annotations.remove(JSON_KEY.0);
    fixture.apply(&broken);
    assert_eq!(
        messages().collect::<Vec<_>>(),
        ["Failed to create new metrics collector: annotations \
          metric-config.pods.rps.json-path/*: config value json-key or json-eval must be set"]
    );
    fixture.apply(&pods_hpa("web"));
    assert_eq!(messages().count(), 0);
    // Without annotations, the metric may be that of another metric source, and is not reported.
    let mut foreign = pods_hpa("api");
    foreign.metadata.annotations.clear();
    fixture.apply(&foreign);
    assert_eq!(messages().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn deleted_autoscalers_leave_no_state() {
    let fixture = Fixture::new(32);
    let mut metrics: Vec<Weak<CollectedMetric>> = Vec::new();
    for index in 0..10_000 {
        let mut first = external_hpa(&format!("web-{index}"));
        fixture.apply(&first);
        if index % 100 == 0 {
            fixture.external(&format!("q=web-{index}")).await.unwrap();
        }
        metrics.extend(fixture.collection.index.lock().metrics().map(Arc::downgrade));
        // An invalid autoscaler has a problem, and a renamed one is new.
        let endpoint = "metric-config.external.queue.json-path/endpoint";
        first.metadata.annotations.insert(endpoint.to_owned(), "no URL".to_owned());
        fixture.apply(&first);
        let renamed = external_hpa(&format!("renamed-{index}"));
        fixture.apply(&renamed);
        fixture.collection.remove(&key(&first));
        fixture.collection.remove(&key(&renamed));
    }
    assert!(fixture.collection.index.lock().is_empty());
    sleep(SECOND * 2).await;
    assert!(metrics.iter().all(|metric| metric.strong_count() == 0));
    assert!(metrics.len() >= 10_000);
    assert_eq!(fixture.collection.reader.free_permits("http"), 32);
}

/// The tenant's interval is a day.
#[tokio::test(start_paused = true)]
async fn maximum_age_of_the_operator_applies_to_longer_intervals() {
    let fixture = Fixture::with_max_age(32, Some(SECOND * 60));
    let mut hpa = external_hpa("web");
    let interval = "metric-config.external.queue.json-path/interval";
    hpa.metadata.annotations.insert(interval.to_owned(), "24h".to_owned());
    fixture.apply(&hpa);
    fixture.external("q=web").await.unwrap();
    sleep(SECOND * 30).await;
    assert_eq!(fixture.external("q=web").await.unwrap().1, 30);
    sleep(SECOND * 30).await;
    assert_eq!(fixture.external("q=web").await.unwrap().1, 0);
    *fixture.cluster.is_failing.lock() = true;
    sleep(SECOND * 61).await;
    fixture.external("q=web").await.unwrap_err();
}

/// During a suspension, the wall clock advances, and the monotonic clock doesn't.
#[tokio::test(start_paused = true)]
async fn value_from_before_a_suspension_has_expired() {
    let fixture = Fixture::new(32);
    fixture.apply(&external_hpa("web"));
    fixture.external("q=web").await.unwrap();
    *fixture.cluster.is_failing.lock() = true;
    *fixture.cluster.suspended.lock() = SECOND * 3600;
    fixture.external("q=web").await.unwrap_err();
}

/// 3000 metrics with one name share annotations, which are short at first. With 240 KiB of
/// annotations, two metrics fit into the limit of 512 KiB.
#[test]
fn settings_and_messages_of_one_autoscaler_are_bounded() {
    let mut hpa = external_hpa("web");
    let metric = hpa.spec.metrics[0].clone();
    hpa.spec.metrics = (0..3000)
        .map(|index| {
            let mut metric = metric.clone();
            let external = metric.external.as_mut().unwrap();
            let labels = &mut external.metric.selector.as_mut().unwrap().match_labels;
            labels.insert("q".to_owned(), index.to_string());
            metric
        })
        .collect();
    let fixture = Fixture::new(1);
    let collected =
        || fixture.collection.index.lock().metrics_named("shop", MetricType::External, "queue");
    let message = || fixture.collection.problems().remove(0).message;
    fixture.apply(&hpa);
    assert_eq!(collected().len(), 256);
    assert!(message().contains("only the first 256 metrics are collected"), "{}", message());

    let key = |name: &str| format!("metric-config.external.queue.json-path/{name}");
    hpa.metadata.annotations.insert(key("note"), "x".repeat(240 << 10));
    fixture.apply(&hpa);
    assert_eq!(collected().len(), 2);
    assert!(message().contains("the settings of all metrics exceed 524288 bytes"), "{}", message());

    // Each metric repeats the value in its error.
    hpa.metadata.annotations.remove(&key("note"));
    hpa.metadata.annotations.insert(key("endpoint"), "x ".repeat(1 << 9));
    hpa.metadata.annotations.insert(key("aggregator"), "x ".repeat(1 << 9));
    fixture.apply(&hpa);
    assert!(message().len() < 4096, "{}", message().len());
}

/// 30 autoscalers with 240 KiB of settings: 17 fit into the limit of 4 MiB.
#[test]
fn settings_of_a_namespace_are_bounded() {
    let fixture = Fixture::new(1);
    let large = |index: usize| {
        let mut hpa = external_hpa(&format!("web-{index}"));
        let note = "metric-config.external.queue.json-path/note".to_owned();
        hpa.metadata.annotations.insert(note, "x".repeat(240 << 10));
        hpa
    };
    for index in 0..30 {
        fixture.apply(&large(index));
        fixture.apply(&large(index));
    }
    let collected = |namespace: &str| {
        let index = fixture.collection.index.lock();
        index.metrics_named(namespace, MetricType::External, "queue").len()
    };
    assert_eq!(collected("shop"), 17);
    let problems = fixture.collection.problems();
    let is_refused = |problem: &&CollectorProblem| {
        problem.message.contains("of all autoscalers in the namespace exceed 4194304 bytes")
    };
    assert_eq!(problems.iter().filter(is_refused).count(), 13);
    let mut other = large(0);
    other.metadata.namespace = "bank".to_owned();
    fixture.apply(&other);
    fixture.collection.remove(&key(&large(3)));
    fixture.apply(&large(29));
    assert_eq!((collected("shop"), collected("bank")), (17, 1));
}

/// One value must not scale the target several times.
#[tokio::test(start_paused = true)]
async fn value_per_replica_is_divided_by_the_replicas_at_the_request() {
    let fixture = Fixture::new(32);
    let service = json!({ "apiVersion": "v1", "kind": "Service", "name": "jobs" });
    let per_replica = ("metric-config.object.rps.prometheus/per-replica", "true");
    fixture.apply(&object_hpa("web", service, &[per_replica]));
    let read = async |source: &CollectionSource, replicas| {
        *fixture.cluster.replicas.lock() = replicas;
        let query = custom_query(GroupResource::new("", "services")).named("jobs");
        let values = source.read_custom(query).await.map_err(|error| describe(&error))?;
        Ok::<_, String>(values.items[0].value.as_milli())
    };
    let of_controller = CollectionSource::new(fixture.collection.clone());
    for source in [&fixture.source, &of_controller] {
        assert_eq!(read(source, 2).await, Ok(2500));
        sleep(SECOND * 15).await;
        assert_eq!(read(source, 4).await, Ok(1250));
        let error = read(source, 0).await.unwrap_err();
        assert!(error.ends_with("unable to get average value for 0 replicas"), "{error}");
    }
    assert_eq!(fixture.cluster.collections(), 1);
}

/// The example in the README of kube-metrics-adapter.
#[tokio::test(start_paused = true)]
async fn object_metric_can_describe_a_pod() {
    let fixture = Fixture::new(32);
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "name": "dummy-pod" });
    fixture.apply(&object_hpa("web", pod, &[]));
    let query = |name: &str| custom_query(GroupResource::pods()).named(name);
    assert!(fixture.source.has(&query("dummy-pod").into()));
    let values = fixture.source.read_custom(query("dummy-pod")).await.unwrap();
    assert_eq!(Quantity::from(values.items[0].value).to_string(), "5");
    let object = String::from(values.items[0].object.clone());
    assert_eq!((&*values.object_kind.kind, &*object), ("Pod", "dummy-pod"));
    fixture.source.read_custom(query("other-pod")).await.unwrap_err();
    // Other pods have the value of the Pods metric with the same name.
    fixture.apply(&pods_hpa("api"));
    let of_pod = fixture.source.read_custom(query("api-0")).await.unwrap();
    assert_eq!(String::from(of_pod.items[0].object.clone()), "api-0");
}
