//! The API server without a controller and without pods.
//!
//! Messages of Kubernetes are compared exactly. Messages that quote a Go library are compared by
//! their beginning.

pub(super) mod changes;
pub(super) mod discovery;
pub(super) mod examples;
pub(super) mod fields;
pub(super) mod lists;
pub(super) mod patches;
pub(super) mod rejections;
pub(super) mod scales;
pub(super) mod tables;

use anyhow::{Context as _, Result, ensure};
use http::{Method, Request};
use serde_json::{Value, json};

use crate::test_env::TestEnv;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A response: status code, and body as JSON or text.
#[derive(Clone, Debug)]
struct Response {
    code: u16,
    body: Value,
}

impl Response {
    /// The body of a successful response.
    fn ok(self) -> Result<Value> {
        ensure!((200..300).contains(&self.code), "{}: {}", self.code, self.body);
        Ok(self.body)
    }

    /// Checks for an error with this message.
    fn expect_error(&self, code: u16, reason: &str, message: &str) -> Result<()> {
        self.expect_status(code, reason)?;
        ensure!(
            self.body["message"] == message,
            "expected {message:?}, got {}",
            self.body["message"]
        );
        Ok(())
    }

    /// Checks for an error whose message begins with `beginning`.
    fn expect_error_starting_with(&self, code: u16, reason: &str, beginning: &str) -> Result<()> {
        self.expect_status(code, reason)?;
        let message = self.body["message"].as_str().unwrap_or_default();
        ensure!(message.starts_with(beginning), "expected {beginning:?}, got {message:?}");
        Ok(())
    }

    fn expect_status(&self, code: u16, reason: &str) -> Result<()> {
        ensure!(self.code == code, "expected {code}, got {}: {}", self.code, self.body);
        let expected = json!(["Status", "v1", "Failure", code, reason]);
        let got = ["kind", "apiVersion", "status", "code", "reason"]
            .map(|field| self.body[field].clone());
        ensure!(expected == json!(got), "expected {expected}, got {}", self.body);
        Ok(())
    }
}

/// Sends a request. `media_type` is its `Content-Type`, and without a body also the accepted type.
async fn send(
    env: &TestEnv,
    method: Method,
    path: &str,
    media_type: &str,
    body: &Value,
) -> Result<Response> {
    let has_body = !body.is_null();
    let text = match body {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("user-agent", "suite/1")
        .header("accept", if has_body { JSON } else { media_type })
        .header("content-type", media_type)
        .body(text.into_bytes().into())?;
    let response = env.client.send(request).await?;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect_bytes().await?;
    let body = serde_json::from_slice(&bytes);
    Ok(Response {
        code,
        body: body.unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into()),
    })
}

async fn get(env: &TestEnv, path: &str) -> Result<Response> {
    send(env, Method::GET, path, JSON, &Value::Null).await
}

async fn post(env: &TestEnv, path: &str, body: &Value) -> Result<Response> {
    send(env, Method::POST, path, JSON, body).await
}

async fn put(env: &TestEnv, path: &str, body: &Value) -> Result<Response> {
    send(env, Method::PUT, path, JSON, body).await
}

async fn patch(env: &TestEnv, path: &str, media_type: &str, body: &Value) -> Result<Response> {
    send(env, Method::PATCH, path, media_type, body).await
}

async fn delete(env: &TestEnv, path: &str, body: &Value) -> Result<Response> {
    send(env, Method::DELETE, path, JSON, body).await
}

fn deployments(env: &TestEnv) -> String {
    format!("/apis/apps/v1/namespaces/{}/deployments", env.ns)
}

fn autoscalers(env: &TestEnv) -> String {
    format!("/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers", env.ns)
}

fn config_maps(env: &TestEnv) -> String {
    format!("/api/v1/namespaces/{}/configmaps", env.ns)
}

/// A Deployment of two replicas with one container.
fn deployment(name: &str) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "app", "image": "none"}]},
            },
        },
    })
}

/// An autoscaler of the Deployment `web` with additional spec fields.
fn autoscaler(name: &str, extra_fields: Value) -> Value {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let mut spec = json!({"scaleTargetRef": target, "maxReplicas": 5});
    if let (Some(spec), Value::Object(extra_fields)) = (spec.as_object_mut(), extra_fields) {
        spec.extend(extra_fields);
    }
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name}, "spec": spec,
    })
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().into_iter().flatten();
    items.filter_map(|item| item["metadata"]["name"].as_str()).collect()
}

fn resource_version(object: &Value) -> Result<&str> {
    object["metadata"]["resourceVersion"].as_str().context("no resourceVersion")
}
