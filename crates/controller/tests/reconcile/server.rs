//! A stub API server with one autoscaler and one target.

use std::{convert::Infallible, sync::Arc};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::fixture::hpa;

const SCALE: &str = "/apis/apps/v1/namespaces/shop/deployments/web/scale";
/// The scale of another target, which can't be read.
const UNREADABLE_SCALE: &str = "/apis/apps/v1/namespaces/shop/deployments/unreadable/scale";
const HPA: &str = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web";
const STATUS: &str = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web/status";
const EVENTS: &str = "/api/v1/namespaces/shop/events";
const CUSTOM: &str = "/apis/autoscaling.hpa-rs.dev/v2/namespaces/shop/horizontalpodautoscalers/web";
const CUSTOM_STATUS: &str =
    "/apis/autoscaling.hpa-rs.dev/v2/namespaces/shop/horizontalpodautoscalers/web/status";

/// The state of the API server, and the writes that it received.
#[derive(Default)]
pub(crate) struct Server {
    pub(crate) replicas: i64,
    /// The resource version of the target.
    pub(crate) version: u64,
    /// Before each of the next scale writes, another client sets these replicas.
    pub(crate) concurrent_writes: Vec<i64>,
    pub(crate) scale_is_served: bool,
    pub(crate) hpa_exists: bool,
    pub(crate) hpa_is_undecodable: bool,
    /// The autoscaler is deleted right after a scale write.
    pub(crate) deletes_hpa_after_scaling: bool,
    pub(crate) refuses_status_writes: bool,
    /// The metrics of the autoscaler, if they aren't those of [`hpa`].
    pub(crate) metrics: Option<Value>,
    /// The annotations of the autoscaler.
    pub(crate) annotations: Value,
    /// The replicas of each successful scale write, and the target's resource version before it.
    pub(crate) scale_writes: Vec<(i64, u64)>,
    /// The patches of the status in either API.
    pub(crate) status_patches: Vec<Value>,
    /// The number of these in the custom API.
    pub(crate) custom_status_patch_count: usize,
    pub(crate) events: Vec<Value>,
}

impl Server {
    fn scale(&self) -> Value {
        let version = self.version.to_string();
        json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "t", "resourceVersion": version,
            },
            "spec": { "replicas": self.replicas },
            "status": { "replicas": self.replicas, "selector": "app=web" },
        })
    }

    fn write_scale(&mut self, body: &Value) -> (StatusCode, Value) {
        if !self.concurrent_writes.is_empty() {
            self.replicas = self.concurrent_writes.remove(0);
            self.version += 1;
        }
        let version =
            body["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        if version != Some(self.version) {
            let details = json!({ "name": "web", "group": "apps", "kind": "deployments" });
            return failure(
                StatusCode::CONFLICT,
                "Conflict",
                "the object has been modified",
                &details,
            );
        }
        self.replicas = body["spec"]["replicas"].as_i64().expect("replicas");
        self.scale_writes.push((self.replicas, self.version));
        self.version += 1;
        self.hpa_exists &= !self.deletes_hpa_after_scaling;
        (StatusCode::OK, self.scale())
    }

    fn patch_status(&mut self, body: Value) -> (StatusCode, Value) {
        self.status_patches.push(body);
        if self.refuses_status_writes {
            return failure(StatusCode::FORBIDDEN, "Forbidden", "forbidden: no status", &json!({}));
        }
        if !self.hpa_exists {
            return hpa_not_found();
        }
        let mut object = self.hpa();
        object["status"] = merged_status(&self.status_patches);
        object["metadata"]["resourceVersion"] =
            json!((100 + self.status_patches.len()).to_string());
        (StatusCode::OK, object)
    }

    fn hpa(&self) -> Value {
        let mut object = serde_json::to_value(hpa()).expect("JSON");
        if let Some(metrics) = &self.metrics {
            object["spec"]["metrics"] = metrics.clone();
        }
        object["metadata"]["annotations"] = self.annotations.clone();
        if self.hpa_is_undecodable {
            object["spec"]["maxReplicas"] = json!("many");
        }
        object
    }

    fn respond(&mut self, method: &Method, path: &str, body: Value) -> (StatusCode, Value) {
        let apps = json!({ "groupVersion": "apps/v1", "version": "v1" });
        let resource = |name: &str, kind: &str| {
            let verbs = ["get", "update"];
            json!({ "name": name, "singularName": "", "namespaced": true, "kind": kind,
                "verbs": verbs })
        };
        match (method, path) {
            (&Method::GET, "/apis/apps") => {
                let group = json!({ "kind": "APIGroup", "apiVersion": "v1", "name": "apps",
                    "versions": [apps], "preferredVersion": apps });
                (StatusCode::OK, group)
            }
            (&Method::GET, "/apis/apps/v1") => {
                let resources =
                    [resource("deployments", "Deployment"), resource("deployments/scale", "Scale")];
                let list = json!({ "kind": "APIResourceList", "groupVersion": "apps/v1",
                    "resources": resources });
                (StatusCode::OK, list)
            }
            (_, SCALE) if !self.scale_is_served => {
                let text = "the server could not find the requested resource";
                failure(StatusCode::NOT_FOUND, "NotFound", text, &json!({}))
            }
            (_, UNREADABLE_SCALE) => {
                let code = StatusCode::INTERNAL_SERVER_ERROR;
                failure(code, "InternalError", "an internal error", &json!({}))
            }
            (&Method::GET, SCALE) => (StatusCode::OK, self.scale()),
            (&Method::PUT, SCALE) => self.write_scale(&body),
            (&Method::GET, HPA) if !self.hpa_exists => hpa_not_found(),
            (&Method::GET, HPA) => (StatusCode::OK, self.hpa()),
            (&Method::PATCH, STATUS) => self.patch_status(body),
            (&Method::POST, EVENTS) => {
                self.events.push(body.clone());
                (StatusCode::CREATED, body)
            }
            // Updates the count of an event that is already stored.
            (&Method::PATCH, path) if path.starts_with(EVENTS) => (StatusCode::OK, body),
            // The custom API serves the same object.
            (method, CUSTOM) => self.respond(method, HPA, body),
            (method, CUSTOM_STATUS) => {
                self.custom_status_patch_count += 1;
                self.respond(method, STATUS, body)
            }
            (method, path) => panic!("unexpected {method} {path}"),
        }
    }
}

fn hpa_not_found() -> (StatusCode, Value) {
    let kind = "horizontalpodautoscalers";
    let details = json!({ "name": "web", "group": "autoscaling", "kind": kind });
    failure(StatusCode::NOT_FOUND, "NotFound", "not found", &details)
}

fn failure(code: StatusCode, reason: &str, message: &str, details: &Value) -> (StatusCode, Value) {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "metadata": {},
        "reason": reason, "message": message, "code": code.as_u16(), "details": details });
    (code, status)
}

/// The status after these merge patches.
pub(crate) fn merged_status(patches: &[Value]) -> Value {
    let mut status = json!({ "desiredReplicas": 0, "currentMetrics": null });
    for (name, value) in
        patches.iter().flat_map(|patch| patch["status"].as_object().expect("a status"))
    {
        status[name] = value.clone();
    }
    status
}

pub(crate) fn client(server: &Arc<Mutex<Server>>) -> Client {
    let server = server.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = server.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.expect("a body").to_bytes();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let (code, json) = server.lock().respond(&parts.method, parts.uri.path(), body);
            let response =
                Response::builder().status(code).header("content-type", "application/json");
            let response = response.body(Body::from(json.to_string().into_bytes()));
            Ok::<_, Infallible>(response.expect("a response"))
        }
    });
    Client::new(service, "default")
}
