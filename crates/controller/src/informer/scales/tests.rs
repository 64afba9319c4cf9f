use std::convert::Infallible;

use futures::{StreamExt, stream};
use hpa_calc::api::Scale;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use kube::client::Body;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::bytes::Bytes;

use super::*;
use crate::k8s::is_watch;

const INTERVALS: WatchIntervals =
    WatchIntervals { relist: Duration::from_secs(5), max_age: Duration::from_secs(30) };

fn deployment() -> Value {
    json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "5" },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "tier": "front", "app": "web" },
                "matchExpressions": [
                    { "key": "env", "operator": "In", "values": ["test", "prod"] },
                ] },
            "template": { "spec": { "containers": [] } },
        },
        "status": { "replicas": 2, "readyReplicas": 1 },
    })
}

#[test]
fn derived_scale_equals_that_of_the_api_server() {
    let expected = Scale {
        spec_replicas: 3,
        status_replicas: 2,
        selector: "app=web,env in (prod,test),tier=front".into(),
    };
    let expected = ScaleObject { scale: expected, uid: "u".into(), resource_version: "5".into() };
    let workload: PartialObject = serde_json::from_value(deployment()).expect("an object");
    assert_eq!(ScalePaths::of_workloads().scale(&workload), Some(expected));
}

#[test]
fn invalid_workload_has_no_scale_and_does_not_fail_its_list() {
    for (field, value) in [
        ("/spec/replicas", json!("three")),
        ("/spec/replicas", Value::Null),
        ("/spec/selector/matchLabels", json!(7)),
        ("/spec/selector/matchExpressions/0/operator", json!("Near")),
        ("/spec", json!([1, 2])),
        ("/spec", json!("x")),
        ("/status/replicas", json!(true)),
    ] {
        let mut object = deployment();
        *object.pointer_mut(field).expect("a field") = value;
        let text = serde_json::to_string(&[object, deployment()]).expect("JSON");
        let objects: Vec<PartialObject> = serde_json::from_str(&text).expect("a list");
        let paths = ScalePaths::of_workloads();
        let scales: Vec<_> =
            objects.iter().map(|workload| paths.scale(workload).is_some()).collect();
        assert_eq!(scales, [false, true], "{field}");
    }
}

/// A client of an API server that lists one deployment. Its watches deliver `event` and stay open.
fn client_with_event(event: &Value) -> Client {
    let event = format!("{event}\n");
    let list = json!({
        "kind": "List",
        "apiVersion": "v1",
        "metadata": { "resourceVersion": "5" },
        "items": [deployment()],
    });
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_watch = is_watch(&request);
        let text = if is_watch { event.clone() } else { list.to_string() };
        async move {
            let first = stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from(text)))]);
            let end: stream::BoxStream<'static, Result<Frame<Bytes>, Infallible>> =
                if is_watch { stream::pending().boxed() } else { stream::empty().boxed() };
            Ok::<_, Infallible>(Response::new(StreamBody::new(first.chain(end))))
        }
    });
    Client::new(service, "default")
}

#[rstest]
#[case::bookmark("BOOKMARK", json!({}), true)]
#[case::other_deleted("DELETED", json!({ "name": "other", "namespace": "shop" }), true)]
#[case::deleted_without_names("DELETED", json!({}), false)]
#[case::modified_without_a_namespace("MODIFIED", json!({ "name": "web" }), false)]
#[tokio::test(start_paused = true)]
async fn cache_is_not_read_after_an_event_without_names(
    #[case] kind: &str,
    #[case] metadata: Value,
    #[case] is_cached: bool,
) {
    let mut metadata = metadata;
    metadata["resourceVersion"] = json!("6");
    let object = json!({ "kind": "Deployment", "apiVersion": "apps/v1", "metadata": metadata });
    let client = client_with_event(&json!({ "type": kind, "object": object }));
    let kind = GroupVersionKind::gvk("apps", "v1", "Deployment");
    let resource = ApiResource::from_gvk_with_plural(&kind, "deployments");
    let cache = ScaleCache::new(INTERVALS.max_age);
    let age = cache.watch_age().clone();
    let ages = Arc::default();
    let stream = WatchStream::new("deployments", &resource, &client, &None, INTERVALS, age, &ages);
    let paths = ScalePaths::of_workloads();
    let filling = fill_cache(stream, &cache, &paths);
    // The relist is due after five seconds.
    assert!(timeout(Duration::from_secs(4), filling).await.is_err());
    assert_eq!(cache.get("shop", "web", None).is_some(), is_cached);
}

/// An API server that has just started may answer 403 until it has loaded RBAC.
#[tokio::test(start_paused = true)]
async fn forbidden_watch_is_retried_with_a_delay_that_doubles_up_to_ten_minutes() {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let service = tower::service_fn({
        let requests = requests.clone();
        move |_: Request<Body>| {
            requests.lock().push(Instant::now());
            let status = json!({
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "reason": "Forbidden",
                "message": "forbidden",
                "code": 403,
            });
            let body = Body::from(status.to_string().into_bytes());
            let response = Response::builder().status(403).body(body);
            async move { Ok::<_, Infallible>(response.expect("a response")) }
        }
    });
    let watch = ScaleWatch {
        client: Client::new(service, "default"),
        mapping: Mapping {
            group: "apps".into(),
            version: "v1".into(),
            kind: "Deployment".into(),
            resource: "deployments".into(),
            namespaced: true,
        },
        scope: None,
        intervals: INTERVALS,
        cache: Arc::new(ScaleCache::new(INTERVALS.max_age)),
        watch_ages: Arc::default(),
    };
    assert!(timeout(Duration::from_mins(60), watch.run()).await.is_err());
    let requests = requests.lock();
    let delays: Vec<u64> = requests.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    assert_eq!(delays, [10, 20, 40, 80, 160, 320, 600, 600, 600, 600]);
}
