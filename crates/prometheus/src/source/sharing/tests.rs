//! Shared queries against a fake Prometheus, in virtual time.

use std::{sync::Arc, time::Duration};

use crate::rules::Compat;
use futures::future::join_all;
use hpa_calc::{Quantity, Selector};
use hpa_metrics::resource::GroupResource;
use serde_json::{Value, json};
use tokio::time::{advance, timeout};

use super::*;
use crate::source::{
    PrometheusSettings, PrometheusSource,
    tests::{Prometheus, RULES, create_source, prometheus, request, sample},
};
use hpa_metrics::{
    CustomQuery, FixedMapper, MetricError, MetricSource, ObjectKey, ObjectMetadata, describe,
    test_doubles::{FixedObjects, resources},
};

const PERIOD: Duration = Duration::from_secs(15);
/// The shared query for all pods.
const SHARED: &str = r#"max(inflight{namespace="shop",pod!=""}) by (pod)"#;

/// The query for one pod.
fn single(pod: &str) -> String {
    format!(r#"max(inflight{{namespace="shop",pod="{pod}"}}) by (pod)"#)
}

pub(in crate::source) struct Setup<'a> {
    pub(in crate::source) rules: &'a str,
    pub(in crate::source) compat: Compat,
    pub(in crate::source) sharing: bool,
    pub(in crate::source) pods: usize,
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Self { rules: RULES, compat: Compat::Off, sharing: true, pods: 3 }
    }
}

/// A source with the pods web-0, web-1, and so on.
pub(in crate::source) async fn source(server: &Prometheus, setup: &Setup<'_>) -> PrometheusSource {
    let pod = |index| {
        let key = ObjectKey::new("shop", &format!("web-{index}"));
        let labels = [("index", format!("{index}"))].into_iter().collect();
        (GroupResource::pods(), ObjectMetadata { key, labels })
    };
    let objects =
        FixedObjects { objects: (0..setup.pods).map(pod).collect(), ..FixedObjects::default() };
    let settings = PrometheusSettings {
        compat: setup.compat,
        sharing: setup.sharing.then(|| SharingSettings::for_sync_period(PERIOD)),
        ..PrometheusSettings::default()
    };
    let mapper = Arc::new(FixedMapper(resources()));
    let source = create_source(server, setup.rules, settings, mapper, Arc::new(objects));
    source.relist().await.unwrap();
    server.take_requests();
    source
}

/// A server whose samples have the index of the pod as value. It has none for web-2.
fn server() -> Prometheus {
    let server = prometheus();
    server.set_vector(SHARED, &json!([sample("web-0", "0"), sample("web-1", "1")]));
    server.set_vector(&single("web-0"), &json!([sample("web-0", "0")]));
    server.set_vector(&single("web-1"), &json!([sample("web-1", "1")]));
    server
}

async fn read(source: &PrometheusSource, pod: &str) -> Result<String, String> {
    let values = source.read_custom(request("inflight").named(pod)).await;
    values
        .map(|values| Quantity::from(values.items[0].value).to_string())
        .map_err(|error| describe(&error))
}

async fn read_all(source: &PrometheusSource, pods: &[impl AsRef<str>]) {
    for pod in pods {
        assert!(read(source, pod.as_ref()).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn query_is_shared_from_the_second_requester_on() {
    let server = server();
    let source = source(&server, &Setup::default()).await;
    for _ in 0..2 {
        assert_eq!(read(&source, "web-0").await, Ok("0".to_owned()));
    }
    assert_eq!(server.take_requests(), [single("web-0"), single("web-0")]);
    let second = Selector::parse("index=1").unwrap();
    let values = source.read_custom(request("inflight").selected(&second)).await.unwrap();
    assert_eq!(Quantity::from(values.items[0].value).to_string(), "1");
    assert_eq!((values.items.len(), &*values.origin.query), (1, SHARED));
    assert_eq!(read(&source, "web-0").await, Ok("0".to_owned()));
    assert_eq!(server.take_requests(), [SHARED]);
    // After a third of the period, the result is too old.
    advance(PERIOD / 3).await;
    assert_eq!(read(&source, "web-0").await, Ok("0".to_owned()));
    assert_eq!(server.take_requests(), [SHARED]);
    let counts = &source.query_counts()[0];
    assert_eq!((counts.single, counts.shared, counts.reused), (2, 2, 1));
    // Two periods later, only one requester is left.
    advance(PERIOD * 2).await;
    assert_eq!(read(&source, "web-0").await, Ok("0".to_owned()));
    assert_eq!(server.take_requests(), [single("web-0")]);
}

#[tokio::test(start_paused = true)]
async fn object_without_a_sample_has_the_error_of_its_own_query() {
    let server = server();
    server.set_vector(SHARED, &json!([sample("web-0", "0"), sample("web-1", "NaN")]));
    server.set_vector(&single("web-1"), &json!([sample("web-1", "NaN")]));
    server.set_vector(&single("web-2"), &json!([]));
    let alone = source(&server, &Setup { sharing: false, ..Setup::default() }).await;
    let shared = source(&server, &Setup::default()).await;
    let mut errors = Vec::new();
    for pod in ["web-0", "web-1", "web-2"] {
        let (expected, actual) = (read(&alone, pod).await, read(&shared, pod).await);
        assert_eq!(actual, expected);
        errors.extend(expected.err());
    }
    assert!(errors[0].contains("is not a number"), "{errors:?}");
    assert!(errors[1].contains("has no result"), "{errors:?}");
    assert_eq!(shared.query_counts()[0].shared, 1);
}

#[tokio::test(start_paused = true)]
async fn failed_shared_query_disables_sharing_for_a_while() {
    let server = server();
    server.fail(SHARED);
    let source = source(&server, &Setup::default()).await;
    read_all(&source, &["web-0", "web-1", "web-0"]).await;
    let expected = [single("web-0"), SHARED.to_owned(), single("web-1"), single("web-0")];
    assert_eq!(server.take_requests(), expected);
    for _ in 0..9 {
        advance(PERIOD).await;
        read_all(&source, &["web-0", "web-1"]).await;
    }
    assert!(!server.take_requests().contains(&SHARED.to_owned()));
    server.set_vector(SHARED, &json!([sample("web-0", "0"), sample("web-1", "1")]));
    advance(PERIOD).await;
    assert_eq!(read(&source, "web-0").await, Ok("0".to_owned()));
    assert_eq!(server.take_requests(), [SHARED]);
}

#[tokio::test(start_paused = true)]
async fn failed_single_query_is_an_error() {
    let server = server();
    server.fail(SHARED);
    server.fail(&single("web-1"));
    let source = source(&server, &Setup::default()).await;
    assert_eq!(read(&source, "web-0").await, Ok("0".to_owned()));
    let error = source.read_custom(request("inflight").named("web-1")).await.unwrap_err();
    assert!(matches!(error, MetricError::Fetch(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn slow_shared_query_leaves_time_for_a_single_one() {
    let server = server();
    server.hang(SHARED);
    let source = source(&server, &Setup::default()).await;
    assert_eq!(read(&source, "web-0").await, Ok("0".to_owned()));
    let start = Instant::now();
    assert_eq!(read(&source, "web-1").await, Ok("1".to_owned()));
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert_eq!(read(&source, "web-0").await, Ok("0".to_owned()));
    assert_eq!(start.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn cancelled_shared_query_disables_sharing() {
    let server = server();
    server.hang(SHARED);
    let source = source(&server, &Setup::default()).await;
    assert_eq!(read(&source, "web-0").await, Ok("0".to_owned()));
    let second = Duration::from_secs(1);
    assert!(timeout(second, read(&source, "web-1")).await.is_err());
    assert_eq!(timeout(second, read(&source, "web-1")).await, Ok(Ok("1".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_wait_for_one_query() {
    let server = prometheus();
    let samples: Vec<Value> = (0..50).map(|index| sample(&format!("web-{index}"), "7")).collect();
    server.set_vector(SHARED, &Value::Array(samples));
    server.set_vector(&single("web-0"), &json!([sample("web-0", "7")]));
    let source = source(&server, &Setup { pods: 50, ..Setup::default() }).await;
    let pods: Vec<String> = (0..50).map(|index| format!("web-{index}")).collect();
    let values = join_all(pods.iter().map(|pod| read(&source, pod))).await;
    assert!(values.iter().all(|value| *value == Ok("7".to_owned())), "{values:?}");
    let mut requests = server.take_requests();
    requests.sort();
    assert_eq!(requests, [SHARED.to_owned(), single("web-0")]);
}

#[tokio::test(start_paused = true)]
async fn namespace_with_many_other_objects_is_not_shared() {
    let server = server();
    let samples: Vec<Value> = (0..1000).map(|index| sample(&format!("web-{index}"), "1")).collect();
    server.set_vector(SHARED, &Value::Array(samples));
    let setup = Setup { pods: 20, ..Setup::default() };
    let source = source(&server, &setup).await;
    let pods: Vec<String> = (0..20).map(|index| format!("web-{index}")).collect();
    for pod in &pods {
        server.set_vector(&single(pod), &json!([sample(pod, "1")]));
    }
    read_all(&source, &pods[..2]).await;
    assert_eq!(server.take_requests(), [single("web-0"), SHARED.to_owned()]);
    // Now the size is known: a shared query costs 100 + 1000, and each single query 100 + 1. Two of
    // them are cheaper, but eleven are not.
    advance(PERIOD).await;
    read_all(&source, &pods[..2]).await;
    assert_eq!(server.take_requests(), [single("web-0"), single("web-1")]);
    read_all(&source, &pods).await;
    let requests = server.take_requests();
    assert_eq!(requests.len(), 11, "{requests:?}");
    assert_eq!(requests.last().unwrap(), SHARED);
}

#[tokio::test(start_paused = true)]
async fn queries_are_not_shared_without_proof_or_with_compatibility() {
    let without_proof = RULES.replace(
        "max(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)",
        "topk(1, <<.Series>>{<<.LabelMatchers>>})",
    );
    for setup in [
        Setup { rules: &without_proof, ..Setup::default() },
        Setup { compat: Compat::Reference, ..Setup::default() },
        Setup { sharing: false, ..Setup::default() },
    ] {
        let server = server();
        let source = source(&server, &setup).await;
        for _ in 0..2 {
            for pod in ["web-0", "web-1"] {
                let _ = read(&source, pod).await;
            }
        }
        let requests = server.take_requests();
        assert_eq!(requests.len(), 4, "{requests:?}");
        assert!(!requests.iter().any(|query| query.contains("!=")), "{requests:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn results_are_separate_by_namespace_and_selector() {
    let server = server();
    let source = source(&server, &Setup::default()).await;
    let mut other_selector = request("inflight");
    other_selector.metric_selector = Selector::parse("code=500").unwrap();
    let mut other_namespace = request("inflight");
    other_namespace.namespace = "pay".to_owned();
    for request in [request("inflight"), other_selector, other_namespace] {
        for pod in ["web-0", "web-1"] {
            let _ = source.read_custom(request.clone().named(pod)).await;
        }
    }
    let requests = server.take_requests();
    let shared: Vec<&String> = requests.iter().filter(|query| query.contains("!=")).collect();
    assert_eq!(
        shared,
        [
            SHARED,
            r#"max(inflight{code="500",namespace="shop",pod!=""}) by (pod)"#,
            r#"max(inflight{namespace="pay",pod!=""}) by (pod)"#,
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn names_with_regex_characters_are_not_shared() {
    let server = server();
    let source = source(&server, &Setup::default()).await;
    for name in ["a|b", "a*", "a|b"] {
        let _ = read(&source, name).await;
    }
    assert_eq!(server.take_requests(), [single("a|b"), single("a*"), single("a|b")]);
}

/// Reads for the autoscalers of each namespace one after the other, distributed over the period.
#[tokio::test(start_paused = true)]
async fn five_thousand_autoscalers_need_a_query_for_each_namespace_and_period() {
    const NAMESPACES: usize = 50;
    const AUTOSCALERS: usize = 100;
    const PERIODS: usize = 10;
    let server = prometheus();
    server.compute(|query| query.contains("inflight{").then(|| json!([sample("web-0", "1")])));
    let source = source(&server, &Setup { pods: 0, ..Setup::default() }).await;
    let requests = (0..NAMESPACES)
        .map(|index| CustomQuery { namespace: format!("shop-{index}"), ..request("inflight") });
    let requests: Vec<CustomQuery> = requests.collect();
    let interval = PERIOD / u32::try_from(NAMESPACES * AUTOSCALERS).unwrap();
    for _ in 0..PERIODS {
        for request in &requests {
            for index in 0..AUTOSCALERS {
                let _ = source.read_custom(request.clone().named(&format!("web-{index}"))).await;
                advance(interval).await;
            }
        }
    }
    // In the first period, the first autoscaler of each namespace also sends its own query.
    assert_eq!(server.take_requests().len(), NAMESPACES * (PERIODS + 1));
}

#[tokio::test(start_paused = true)]
async fn result_expires_between_two_sweeps() {
    let server = server();
    let source = source(&server, &Setup::default()).await;
    let second = Duration::from_secs(1);
    assert!(read(&source, "web-0").await.is_ok());
    advance(second * 3).await;
    // The shared query is sent after 3 s. Sweeps are after 5 s and 10 s.
    for wait in [second * 2, second * 3] {
        assert!(read(&source, "web-1").await.is_ok());
        advance(wait).await;
    }
    assert_eq!(server.take_requests(), [single("web-0"), SHARED.to_owned()]);
    assert!(read(&source, "web-1").await.is_ok());
    assert_eq!(server.take_requests(), [SHARED]);
}
