//! Requests and objects for the tests.

use std::sync::Arc;

use ::http::{Request, response::Parts};
use axum::body::Body;
use futures::StreamExt;
use hpa_testbed::{Config, Faults, Testbed};
use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::ServiceExt;

pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(crate) const AUTOSCALERS: &str =
    "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// A clock that stands still at its start until a test sets an offset.
#[derive(Clone)]
pub(crate) struct SkewedClock {
    start: Timestamp,
    skew: Arc<Mutex<SignedDuration>>,
}

impl SkewedClock {
    pub(crate) fn new(start: Timestamp) -> Self {
        Self { start, skew: Arc::default() }
    }

    /// Sets the offset: positive is ahead, negative is behind.
    pub(crate) fn set(&self, skew: SignedDuration) {
        *self.skew.lock() = skew;
    }

    /// The clock for a [`Config`].
    pub(crate) fn as_fn(&self) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
        let clock = self.clone();
        Arc::new(move || clock.start + *clock.skew.lock())
    }
}

/// Sends a request. `media_type` is the `Content-Type`. For a GET, it is also the `Accept` header.
pub(crate) async fn send(
    testbed: &Testbed,
    method: &str,
    path: &str,
    media_type: &str,
    body: &Value,
) -> (u16, Value) {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let (parts, body) = respond(testbed, method, path, media_type, text).await;
    (parts.status.as_u16(), body)
}

/// Like [`send`], with any body. Also returns the head of the response.
pub(crate) async fn respond(
    testbed: &Testbed,
    method: &str,
    path: &str,
    media_type: &str,
    body: impl Into<Body>,
) -> (Parts, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("accept", if method == "GET" { media_type } else { "application/json" })
        .header("content-type", media_type)
        .body(body.into())
        .unwrap();
    let (parts, body) = testbed.service().oneshot(request).await.unwrap().into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&bytes);
    (parts, body.unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into()))
}

/// The `Warning` headers of a response.
pub(crate) fn warnings(parts: &Parts) -> Vec<&str> {
    parts.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect()
}

pub(crate) async fn get(testbed: &Testbed, path: &str) -> (u16, Value) {
    send(testbed, "GET", path, "application/json", &Value::Null).await
}

pub(crate) async fn post(testbed: &Testbed, path: &str, body: &Value) -> (u16, Value) {
    send(testbed, "POST", path, "application/json", body).await
}

pub(crate) async fn put(testbed: &Testbed, path: &str, body: &Value) -> (u16, Value) {
    send(testbed, "PUT", path, "application/json", body).await
}

pub(crate) async fn delete(testbed: &Testbed, path: &str, body: &Value) -> (u16, Value) {
    send(testbed, "DELETE", path, "application/json", body).await
}

pub(crate) async fn patch(testbed: &Testbed, path: &str, kind: &str, body: &Value) -> (u16, Value) {
    send(testbed, "PATCH", path, &format!("application/{kind}"), body).await
}

/// Reads a watch line by line.
pub(crate) struct Watch {
    lines: axum::body::BodyDataStream,
}

impl Watch {
    pub(crate) async fn new(testbed: &Testbed, path: &str, accept: &str) -> Self {
        let request = Request::get(path).header("accept", accept).body(Body::empty()).unwrap();
        let response = testbed.service().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        Self { lines: response.into_body().into_data_stream() }
    }

    /// Watches pods. `parameters` follow `watch=1` in the URL.
    pub(crate) async fn pods(testbed: &Testbed, parameters: &str) -> Self {
        Self::new(testbed, &format!("{PODS}?watch=1{parameters}"), "").await
    }

    pub(crate) async fn next(&mut self) -> Option<Value> {
        self.text().await.map(|line| serde_json::from_str(&line).unwrap())
    }

    /// The next chunk, which may be a truncated event.
    pub(crate) async fn text(&mut self) -> Option<String> {
        let line = self.lines.next().await?.unwrap();
        Some(String::from_utf8(line.to_vec()).unwrap())
    }

    /// The type of the next event, and the name of its object.
    pub(crate) async fn event(&mut self) -> (String, String) {
        let event = self.next().await.unwrap();
        let text =
            |pointer| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        (text("/type"), text("/object/metadata/name"))
    }
}

/// A testbed with these faults.
pub(crate) fn faulty(faults: &Faults) -> Testbed {
    Testbed::new(Config { interceptor: Some(Arc::new(faults.clone())), ..Config::default() })
}

/// The status code of a failed request.
pub(crate) fn code<T: std::fmt::Debug>(outcome: Result<T, kube::Error>) -> u16 {
    match outcome.unwrap_err() {
        kube::Error::Api(status) => status.code,
        other => panic!("no status: {other:?}"),
    }
}

pub(crate) fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": {
                    "containers": [
                        { "name": "main", "image": "a" }, { "name": "side", "image": "b" },
                    ],
                },
            },
        },
    })
}

pub(crate) fn pod(name: &str, labels: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": labels },
        "spec": { "containers": [{ "name": "main", "image": "a" }] },
    })
}

pub(crate) fn autoscaler(name: &str) -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": name },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "maxReplicas": 5,
        },
    })
}

pub(crate) fn crd() -> Value {
    let scale = json!({
        "specReplicasPath": ".spec.workers", "statusReplicasPath": ".status.workers",
        "labelSelectorPath": ".status.selector",
    });
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage,
            "subresources": { "status": {}, "scale": scale },
            "additionalPrinterColumns": [
                { "name": "Workers", "type": "integer", "jsonPath": ".spec.workers" },
            ],
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "queues.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {
                "plural": "queues", "singular": "queue", "kind": "Queue", "shortNames": ["q"],
            },
            "versions": [version("v1alpha1", false), version("v1", true)],
        },
    })
}

pub(crate) fn queue() -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Queue", "metadata": { "name": "jobs" },
        "spec": { "workers": 3 }, "status": { "workers": 2, "selector": "app=jobs" },
    })
}

/// The value at a JSON pointer.
pub(crate) fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

pub(crate) fn names(list: &Value) -> Vec<&str> {
    let items = at(list, "/items").as_array().unwrap_or_else(|| panic!("no list: {list}"));
    items.iter().map(|item| at(item, "/metadata/name").as_str().unwrap()).collect()
}
