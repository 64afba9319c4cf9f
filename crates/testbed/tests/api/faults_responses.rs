//! Effects on requests other than watches.

use std::{sync::Arc, time::Duration};

use hpa_testbed::{
    ApiError, Config, CustomMetric, CustomMetricQuery, Effect, Fault, Faults, Interceptor, Match,
    MetricsProvider, Testbed,
};
use k8s_openapi::api::{
    apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::Pod,
};
use kube::{
    Api, Error,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{
    AUTOSCALERS, DEPLOYMENTS, PODS, at, autoscaler, code, deployment, faulty, get, names, patch,
    pod, post, put, send,
};

fn faulty_with(matching: Match, effect: Effect) -> (Faults, Testbed) {
    let faults = Faults::new(0);
    faults.add(Fault::on(matching).effect(effect));
    let testbed = faulty(&faults);
    (faults, testbed)
}

async fn create(testbed: &Testbed, name: &str) -> Result<Pod, Error> {
    let api: Api<Pod> = Api::default_namespaced(testbed.client_named("controller"));
    api.create(&PostParams::default(), &serde_json::from_value(pod(name, json!({}))).unwrap()).await
}

fn exists(testbed: &Testbed, name: &str) -> bool {
    testbed.get("v1", "Pod", "default", name).is_some()
}

#[rstest]
#[case(Effect::Conflict, 409, "Conflict", None)]
#[case(Effect::Expired, 410, "Expired", None)]
#[case(Effect::TooManyRequests { retry_after_seconds: Some(7) }, 429, "TooManyRequests", Some(7))]
#[case(Effect::InternalError, 500, "InternalError", None)]
#[case(Effect::ServiceUnavailable, 503, "ServiceUnavailable", None)]
#[case(Effect::Timeout, 504, "Timeout", None)]
#[case(Effect::status(409, "AlreadyExists", "there"), 409, "AlreadyExists", None)]
#[tokio::test]
async fn error_responses_apply_nothing(
    #[case] effect: Effect,
    #[case] code: u16,
    #[case] reason: &str,
    #[case] retry_after: Option<u32>,
) {
    let (_, testbed) = faulty_with(Match::verb("create"), effect);
    let Err(Error::Api(status)) = create(&testbed, "a").await else { panic!("no status") };
    assert_eq!((status.code, status.reason.as_str()), (code, reason));
    assert_eq!(
        status.details.map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0),
        retry_after
    );
    assert!(!exists(&testbed, "a"));
}

#[tokio::test]
async fn write_with_a_lost_response_is_applied() {
    let (faults, testbed) = faulty_with(Match::verb("create"), Effect::LostResponse);
    assert_eq!(code(create(&testbed, "a").await), 504);
    assert!(exists(&testbed, "a"));
    faults.clear();
    assert_eq!(code(create(&testbed, "a").await), 409);
}

#[rstest]
#[case::before(false)]
#[case::after(true)]
#[tokio::test]
async fn connection_is_closed_without_a_response(#[case] applied: bool) {
    let (_, testbed) = faulty_with(Match::verb("create"), Effect::Disconnect { applied });
    let error = create(&testbed, "a").await.unwrap_err();
    let expected = "the connection was closed without a response";
    assert!(matches!(&error, Error::Service(inner) if inner.to_string() == expected), "{error:?}");
    assert_eq!(exists(&testbed, "a"), applied);
}

#[tokio::test(start_paused = true)]
async fn slow_requests_are_applied_after_a_delay() {
    let (_, testbed) =
        faulty_with(Match::verb("create"), Effect::Slow { by: Duration::from_secs(5) });
    let start = tokio::time::Instant::now();
    create(&testbed, "a").await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(5));
}

#[rstest]
#[case::until_removed(None)]
#[case::until_its_end(Some(Duration::from_secs(30)))]
#[tokio::test(start_paused = true)]
async fn stalled_requests_are_handled_in_order(#[case] until: Option<Duration>) {
    let faults = Faults::new(0);
    let on = Fault::on(Match::any().client("controller"));
    let on = until.map_or(on.clone(), |until| on.until(until));
    let id = faults.add(on.effect(Effect::Stall));
    // Delays the first write after the stall. The others must wait for it.
    let delay = Duration::from_secs(1);
    faults.add(Fault::on(Match::verb("patch")).nth(1).effect(Effect::Slow { by: delay }));
    let testbed = faulty(&faults);
    testbed.apply(deployment("web")).unwrap();
    let mut writes = Vec::new();
    for replicas in 1..=20 {
        let api: Api<Deployment> = Api::default_namespaced(testbed.client_named("controller"));
        let change = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        writes.push(tokio::spawn(async move {
            api.patch("web", &PatchParams::default(), &change).await
        }));
        faults.wait_for_hits(id, writes.len() as u64).await;
    }
    // Requests of other clients aren't stalled.
    let path = format!("{DEPLOYMENTS}/web");
    let generation = get(&testbed, &path).await.1["metadata"]["generation"].as_i64().unwrap();
    let change = json!({ "metadata": { "labels": { "seen": "yes" } } });
    assert_eq!(patch(&testbed, &path, "merge-patch+json", &change).await.0, 200);
    if until.is_none() {
        faults.remove(id);
    }
    let mut seen = Vec::new();
    for write in writes {
        let after = write.await.unwrap().unwrap();
        seen.push((after.spec.replicas.unwrap(), after.metadata.generation.unwrap()));
    }
    // The generations show the order of the writes.
    let expected: Vec<(i32, i64)> =
        (1..=20).map(|replicas| (replicas, generation + i64::from(replicas))).collect();
    assert_eq!(seen, expected);
    assert_eq!(faults.elapsed(), until.unwrap_or_default() + delay);
}

#[tokio::test]
async fn stalled_requests_are_bounded_and_cancellable() {
    let (faults, testbed) = faulty_with(Match::verb("create"), Effect::Stall);
    {
        // As many requests as a fault may stall.
        let mut stalled: Vec<_> =
            (0..10_000).map(|index| Box::pin(create_numbered(&testbed, index))).collect();
        for one in &mut stalled {
            assert!(futures::poll!(one.as_mut()).is_pending());
        }
        assert_eq!(create_numbered(&testbed, 10_000).await, 429);
    }
    // Cancelled requests free their slots and are never applied.
    let mut last = Box::pin(create_numbered(&testbed, 20_000));
    assert!(futures::poll!(last.as_mut()).is_pending());
    faults.clear();
    assert_eq!(last.await, 201);
    assert_eq!(testbed.list("v1", "Pod").len(), 1);
}

async fn create_numbered(testbed: &Testbed, index: usize) -> u16 {
    post(testbed, PODS, &pod(&format!("pod-{index}"), json!({}))).await.0
}

#[rstest]
#[case::html_502(Effect::Html { code: 502 })]
#[case::html_200(Effect::Html { code: 200 })]
#[case::truncated(Effect::TruncatedBody)]
#[case::wrong_type(changed_field("a", "/spec/containers", json!("none")))]
#[tokio::test]
async fn corrupted_list_is_an_error_for_clients(#[case] effect: Effect) {
    let (faults, testbed) = faulty_with(Match::verb("list").resource("pods"), effect.clone());
    create(&testbed, "a").await.unwrap();
    let api: Api<Pod> = Api::default_namespaced(testbed.client());
    let error = api.list(&ListParams::default()).await.unwrap_err();
    match effect {
        Effect::Html { code: 502 } => assert_eq!(code(Err::<(), _>(error)), 502),
        _ => assert!(matches!(error, Error::SerdeError(_)), "{error:?}"),
    }
    faults.clear();
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
}

fn changed_field(object: &str, pointer: &str, value: Value) -> Effect {
    Effect::ChangedField { object: object.to_owned(), pointer: pointer.to_owned(), value }
}

#[tokio::test]
async fn field_of_one_object_in_a_list_can_be_changed() {
    let effect = changed_field("b", "/spec/maxReplicas", json!("ten"));
    let (_, testbed) = faulty_with(Match::any(), effect);
    for name in ["a", "b"] {
        testbed.apply(autoscaler(name)).unwrap();
    }
    let (_, list) = get(&testbed, AUTOSCALERS).await;
    let max_replicas =
        |index: usize| at(&list, &format!("/items/{index}/spec/maxReplicas")).clone();
    assert_eq!((max_replicas(0), max_replicas(1)), (json!(5), json!("ten")));
    let api: Api<HorizontalPodAutoscaler> = Api::default_namespaced(testbed.client());
    api.get("a").await.unwrap();
    assert!(matches!(api.get("b").await, Err(Error::SerdeError(_))));
    let stored = testbed.get("autoscaling/v2", "HorizontalPodAutoscaler", "default", "b").unwrap();
    assert_eq!(at(&stored, "/spec/maxReplicas"), 5);
}

#[rstest]
#[case::removed("/metadata", Value::Null, "/items/0/metadata", None)]
#[case::element("/spec/containers/0", json!(7), "/items/0/spec/containers/0", Some(json!(7)))]
#[case::escaped("/metadata/labels/a~1b", json!(1), "/items/0/metadata/labels/a~1b", Some(json!(1)))]
#[tokio::test]
async fn any_field_can_be_changed(
    #[case] pointer: &str,
    #[case] value: Value,
    #[case] list_pointer: &str,
    #[case] expected: Option<Value>,
) {
    let (_, testbed) = faulty_with(Match::any(), changed_field("", pointer, value));
    testbed.apply(pod("a", json!({ "a/b": "c" }))).unwrap();
    let (_, list) = get(&testbed, PODS).await;
    assert_eq!(at(&list, "/items/0/kind"), "Pod");
    assert_eq!(list.pointer(list_pointer).cloned(), expected);
}

struct Metrics;

impl MetricsProvider for Metrics {
    fn custom(&self, query: &CustomMetricQuery) -> Result<Vec<CustomMetric>, ApiError> {
        let metric = |name: &str| CustomMetric {
            described_object: json!({ "kind": "Pod", "name": name, "namespace": query.namespace }),
            value: "5".to_owned(),
            ..CustomMetric::default()
        };
        Ok(vec![metric("a"), metric("b")])
    }
}

#[tokio::test]
async fn fields_of_metrics_can_be_changed() {
    let faults = Faults::new(0);
    faults.add(Fault::on(Match::any()).effect(changed_field("b", "/value", json!("much"))));
    let (interceptor, metrics): (Arc<dyn Interceptor>, Arc<dyn MetricsProvider>) =
        (Arc::new(faults), Arc::new(Metrics));
    let config =
        Config { interceptor: Some(interceptor), metrics: Some(metrics), ..Config::default() };
    let path = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/*/queue";
    let (_, list) = get(&Testbed::new(config), path).await;
    assert_eq!(
        (at(&list, "/items/0/value"), at(&list, "/items/1/value")),
        (&json!("5"), &json!("much"))
    );
}

#[tokio::test]
async fn missing_group_is_hidden_from_discovery() {
    let (faults, testbed) =
        faulty_with(Match::any(), Effect::MissingGroup { group: "apps".to_owned() });
    testbed.apply(deployment("web")).unwrap();
    testbed.apply(autoscaler("web")).unwrap();
    let api: Api<Deployment> = Api::default_namespaced(testbed.client());
    assert_eq!(code(api.get("web").await), 404);
    let client = testbed.client();
    assert_eq!(code(client.list_api_group_resources("apps/v1").await), 404);
    let groups = async || {
        let legacy = testbed.client().list_api_groups().await.unwrap();
        let legacy: Vec<String> = legacy.groups.into_iter().map(|group| group.name).collect();
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let (_, list) = send(&testbed, "GET", "/apis", accept, &Value::Null).await;
        let aggregated: Vec<String> = names(&list).into_iter().map(str::to_owned).collect();
        assert_eq!(legacy, aggregated);
        legacy
    };
    let has = |groups: &[String], name: &str| groups.iter().any(|group| group == name);
    let without = groups().await;
    assert!(!has(&without, "apps") && has(&without, "autoscaling"), "{without:?}");
    assert_eq!(get(&testbed, "/apis/apps").await.0, 404);
    assert_eq!(get(&testbed, "/openapi/v3/apis/apps/v1").await.0, 404);
    let (_, index) = get(&testbed, "/openapi/v3").await;
    let paths = index["paths"].as_object().unwrap();
    assert!(
        !paths.contains_key("apis/apps/v1") && paths.contains_key("apis/autoscaling/v2"),
        "{index}"
    );
    assert_eq!(get(&testbed, AUTOSCALERS).await.0, 200);
    // Four requests for the group, and three lists of groups. The fault affects no others.
    assert_eq!(faults.total_hits(), 7);
    faults.clear();
    assert!(has(&groups().await, "apps"));
    api.get("web").await.unwrap();
}

#[tokio::test]
async fn stale_reads_return_an_earlier_state() {
    let (faults, testbed) = faulty_with(Match::any(), Effect::Stale { revisions: 2 });
    testbed.apply(deployment("web")).unwrap();
    let version = testbed.resource_version();
    let path = format!("{DEPLOYMENTS}/web");
    for replicas in [5, 6] {
        let change = json!({ "spec": { "replicas": replicas } });
        patch(&testbed, &path, "merge-patch+json", &change).await;
    }
    let api: Api<Deployment> = Api::default_namespaced(testbed.client());
    let replicas = |one: &Deployment| one.spec.replicas.unwrap();
    assert_eq!(replicas(&api.get("web").await.unwrap()), 2);
    let list = api.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.metadata.resource_version, Some(version.to_string()));
    assert_eq!(replicas(&list.items[0]), 2);
    let mut scale = api.get_scale("web").await.unwrap();
    assert_eq!(scale.spec.as_ref().unwrap().replicas, Some(2));
    // A write based on a stale read conflicts.
    scale.spec.as_mut().unwrap().replicas = Some(9);
    let (code, _) =
        put(&testbed, &format!("{path}/scale"), &serde_json::to_value(&scale).unwrap()).await;
    assert_eq!(code, 409);
    // Limited by the requested resource version and by the watch cache.
    let params = ListParams::default().at(&(version + 1).to_string());
    assert_eq!(replicas(&api.list(&params).await.unwrap().items[0]), 5);
    testbed.compact();
    assert_eq!(replicas(&api.get("web").await.unwrap()), 6);
    faults.clear();
    assert_eq!(replicas(&api.get("web").await.unwrap()), 6);
}
