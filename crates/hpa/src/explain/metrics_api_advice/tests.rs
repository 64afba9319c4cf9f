//! Tests of the advice about metrics of metrics APIs.

use std::sync::atomic::{AtomicUsize, Ordering};

use hpa_calc::api::CrossVersionObjectReference;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::kubectl::answering_client;

const MISSING: &str = "the server could not find the metric http_request for pods";

fn api_service(condition: Value) -> Value {
    json!({
        "spec": { "service": { "namespace": "m", "name": "adapter" } },
        "status": { "conditions": [condition] },
    })
}

fn api(names: &[&str]) -> Api {
    let resources: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
    let service = api_service(json!({ "type": "Available", "status": "True" }));
    let listed_names = listed_metrics(&json!({ "resources": resources }));
    Api { group: "custom.metrics.k8s.io", listed_names, service }
}

fn pods_query(metric: &str) -> MetricQuery {
    let metric_selector = hpa_calc::Selector::everything();
    MetricQuery::Pods { metric: metric.to_owned(), metric_selector }
}

#[rstest]
#[case::misspelled(
    &["pods/http_requests", "namespaces/lag"], MISSING,
    "has no metric http_request (similar: http_requests). Correct the name in spec.metrics[2]"
)]
#[case::unlike_all(&["pods/a", "pods/lag"], MISSING, "http_request (it has a, lag).")]
#[case::other_resource(
    &["services/http_request"], MISSING,
    "has http_request for services, not for pods. Use a metric of type Object in spec.metrics[2]"
)]
#[case::none_listed(
    &[], MISSING, "lists no metrics, so its adapter may not reach Prometheus. Read the log of \
     its adapter: kubectl logs -n m service/adapter. If"
)]
#[case::failing(
    &["pods/http_request"], "an error on the server",
    "the request fails as the message says. Read the log of its adapter: kubectl logs -n m \
     service/adapter. If the adapter reads Prometheus, check the server and the rules: hpa \
     rules check ADAPTER_RULES --prometheus-url ADAPTER_PROMETHEUS"
)]
#[case::failing_to_read_an_unlisted_metric(
    &["pods/lag"], "Internal error occurred: unable to fetch metrics",
    "the request fails as the message says. Read the log of its adapter"
)]
fn failing_api_has_advice(#[case] names: &[&str], #[case] message: &str, #[case] expected: &str) {
    let error = ReadError::fetch(MetricsApi::Custom, message);
    let text = api(names).advise(&pods_query("http_request"), 2, &error).expect("advice");
    assert!(text.starts_with("custom.metrics.k8s.io ") && text.contains(expected), "{text}");
}

fn object_query() -> MetricQuery {
    MetricQuery::Object {
        object: CrossVersionObjectReference {
            api_version: "v1".to_owned(),
            kind: "Service".to_owned(),
            name: "webb".to_owned(),
            ..CrossVersionObjectReference::default()
        },
        metric: "http_request".to_owned(),
        metric_selector: hpa_calc::Selector::everything(),
    }
}

#[rstest]
#[case::no_object(
    "the server could not find the metric http_request for services webb",
    "custom.metrics.k8s.io lists http_request, but has no value for Service webb. Check whether \
     this object exists: spec.metrics[2].object.describedObject names it. If it does, hpa rules \
     explain says why the query of an adapter with a rules file has no value, such as NaN."
)]
#[case::other_resource(
    "the server could not find the metric http_request for deployments.apps webb",
    "custom.metrics.k8s.io has http_request for services, not for deployments.apps. Describe one \
     of those in spec.metrics[2], or configure the adapter to serve it for deployments.apps."
)]
fn listed_metric_without_a_value_of_the_object_has_advice(
    #[case] message: &str,
    #[case] expected: &str,
) {
    let error = ReadError::fetch(MetricsApi::Custom, message);
    let text = api(&["services/http_request"]).advise(&object_query(), 2, &error);
    assert_eq!(text.as_deref(), Some(expected));
}

#[rstest]
#[case::external("external.metrics.k8s.io")]
#[case::resource(RESOURCE_GROUP)]
fn unreachable_api_has_the_reason_of_its_api_service(#[case] group: &'static str) {
    let reason = "Get \"https://10.0.0.7:443\": x509: certificate has expired";
    let condition = json!({ "type": "Available", "status": "False", "message": reason });
    let api = Api { group, listed_names: None, service: api_service(condition) };
    let message = "the server is currently unable to handle the request";
    let advise = |message: &str| {
        let error = ReadError::fetch(MetricsApi::External, message);
        api.advise(&pods_query("q"), 0, &error)
    };
    assert_eq!(
        advise(message).expect("advice"),
        format!(
            "{group} is not available according to its APIService: {reason}. If its server \
             runs, see the log: kubectl logs -n m service/adapter"
        )
    );
    assert_eq!(advise("q.external.metrics.k8s.io is forbidden: User \"ann\""), None);
}

#[tokio::test(start_paused = true)]
async fn usage_of_pods_is_read_once_within_the_freshness() {
    let count = Arc::new(AtomicUsize::new(0));
    let request_count = count.clone();
    let apis = MetricsApis::new(answering_client(move |_| {
        request_count.fetch_add(1, Ordering::Relaxed);
        let body = json!({
            "preferredVersion": { "version": "v1beta1" },
            "items": [{ "containers": [{ "usage": { "cpu": "1", "memory": "2" } }] }],
        });
        (200, body)
    }));
    let read = async |selector: &str| {
        let (namespace, selector) = ("shop".to_owned(), selector.to_owned());
        let names = apis.usage_names(UsageKey { namespace, selector }).await;
        assert_eq!(*names, BTreeSet::from(["cpu", "memory"].map(str::to_owned)));
        count.load(Ordering::Relaxed)
    };
    assert_eq!((read("app=web").await, read("app=web").await), (2, 2));
    assert_eq!(read("app=api").await, 4);
    tokio::time::advance(FRESHNESS).await;
    assert_eq!(read("app=web").await, 6);
}

#[test]
fn cpu_and_memory_are_no_misspelled_resources() {
    let names = BTreeSet::from(["cpu".to_owned()]);
    let advice = about_absent_resource("memory", &names, 0);
    let start = "metrics.k8s.io has no resource memory for the target's pods (it has cpu). The \
                 name is right, so see the log of the server: ";
    assert!(advice.starts_with(start), "{advice}");
    let advice = about_absent_resource("cpus", &names, 1);
    assert!(advice.ends_with("(similar: cpu). Correct the name in spec.metrics[1]."), "{advice}");
}

#[test]
fn failing_resource_api_has_the_log_of_its_service() {
    let error = ReadError::fetch(MetricsApi::Resource, "timeout");
    let service = api_service(json!({ "type": "Available", "status": "True" }));
    let api = Api { group: RESOURCE_GROUP, listed_names: None, service };
    assert_eq!(
        api.advise(&pods_query("cpu"), 0, &error).as_deref(),
        Some(
            "metrics.k8s.io is registered, but the request fails as the message says. Read the log \
             of its server: kubectl logs -n m service/adapter"
        )
    );
    let api = Api { service: Value::Null, ..api };
    assert_eq!(api.advise(&pods_query("cpu"), 0, &error), None);
}

#[rstest]
#[case::unlisted(&["externalmetrics"], MISSING)]
#[case::listed(&["pods/http_request"], MISSING)]
#[case::unknown_kind(&["pods/a"], "unable to map kind K.g to resource: no matches for kind \"K\"")]
#[case::forbidden(&[], "pods.custom.metrics.k8s.io is forbidden: User \"ann\"")]
fn other_errors_have_no_advice(#[case] names: &[&str], #[case] message: &str) {
    let error = ReadError::fetch(MetricsApi::Custom, message);
    assert_eq!(api(names).advise(&pods_query("http_request"), 2, &error), None);
}

#[test]
fn empty_result_has_advice_only_if_the_api_lists_other_names() {
    let empty = ReadError::Empty(MetricsApi::Custom);
    let advise = |names| api(names).advise(&pods_query("lag"), 0, &empty);
    assert_eq!(advise(&["pods/lag"]), None);
    assert_eq!(advise(&[]), None);
    assert!(advise(&["pods/lags"]).expect("advice").contains("similar: lags"));
}
