//! Doubles for tests.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use async_trait::async_trait;
use hpa_calc::{api::CrossVersionObjectReference, selector::Selector};
use http::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;

use crate::{
    FetchError, MetricsSource, ResourceNames,
    wire::{ExternalMetricValue, MetricValue, PodMetrics},
};

pub(crate) fn selector(text: &str) -> Selector {
    Selector::parse(text).unwrap()
}

/// A metrics.k8s.io item of a pod with one container `app`.
pub(crate) fn pod(name: &str, labels: &[(&str, &str)], cpu: &str) -> serde_json::Value {
    serde_json::json!({
        "metadata": { "name": name, "labels": labels.iter().copied().collect::<BTreeMap<_, _>>() },
        "timestamp": "2000-01-01T00:00:00Z",
        "window": "15s",
        "containers": [{ "name": "app", "usage": { "cpu": cpu } }],
    })
}

pub(crate) fn object(api_version: &str, kind: &str, name: &str) -> CrossVersionObjectReference {
    CrossVersionObjectReference {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
        ..Default::default()
    }
}

/// An HTTP answer.
#[derive(Clone)]
pub(crate) struct Reply {
    pub(crate) after: Duration,
    pub(crate) code: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(body: impl Into<String>) -> Self {
        Self {
            after: Duration::ZERO,
            code: 200,
            content_type: "application/json",
            body: body.into(),
        }
    }

    pub(crate) fn text(code: u16, body: &str) -> Self {
        Self { after: Duration::ZERO, code, content_type: "text/plain", body: body.into() }
    }

    pub(crate) fn group(versions: &[&str]) -> Self {
        let versions: Vec<_> =
            versions.iter().map(|version| serde_json::json!({ "version": version })).collect();
        Self::json(serde_json::json!({ "kind": "APIGroup", "versions": versions }).to_string())
    }

    pub(crate) fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }
}

/// An API server: answers by a function of path and query, and remembers what was asked.
#[derive(Clone)]
pub(crate) struct Server {
    asked: Arc<Mutex<Vec<String>>>,
    answer: Arc<dyn Fn(&str) -> Reply + Send + Sync>,
}

impl Server {
    pub(crate) fn new(answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        Self { asked: Arc::default(), answer: Arc::new(answer) }
    }

    /// What was asked since the last call.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock())
    }

    pub(crate) fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, uri) = (server.clone(), request.uri().to_string());
            async move { Ok::<_, Infallible>(server.reply(uri).await) }
        });
        kube::Client::new(service, "default")
    }

    async fn reply(&self, uri: String) -> Response<Body> {
        let reply = (self.answer)(&uri);
        self.asked.lock().push(uri);
        tokio::time::sleep(reply.after).await;
        Response::builder()
            .status(reply.code)
            .header("content-type", reply.content_type)
            .body(Body::from(reply.body.into_bytes()))
            .unwrap()
    }
}

/// Resources by `Kind.group`.
pub(crate) struct Names;

#[async_trait]
impl ResourceNames for Names {
    async fn resource_for(&self, group: &str, kind: &str) -> Result<String, String> {
        match (group, kind) {
            ("", "Service") => Ok("services".into()),
            ("apps", "Deployment") => Ok("deployments.apps".into()),
            ("slow", _) => std::future::pending().await,
            _ => Err(format!("no matches for kind {kind:?} in group {group:?}")),
        }
    }
}

type PodMetricsAnswer = dyn Fn(&str, &str) -> Result<Vec<PodMetrics>, FetchError> + Send + Sync;

/// A source that takes a while, answers for pod metrics by namespace and selector, and remembers what was asked.
#[derive(Clone)]
pub(crate) struct Source {
    asked: Arc<Mutex<Vec<String>>>,
    delay: Duration,
    pod_metrics: Arc<PodMetricsAnswer>,
}

impl Source {
    pub(crate) fn new(
        delay: Duration,
        pod_metrics: impl Fn(&str, &str) -> Result<Vec<PodMetrics>, FetchError> + Send + Sync + 'static,
    ) -> Self {
        Self { asked: Arc::default(), delay, pod_metrics: Arc::new(pod_metrics) }
    }

    /// What was asked since the last call.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock())
    }

    async fn note(&self, question: String) {
        self.asked.lock().push(question);
        tokio::time::sleep(self.delay).await;
    }
}

#[async_trait]
impl MetricsSource for Source {
    async fn pod_metrics(
        &self,
        namespace: &str,
        pods: &Selector,
    ) -> Result<Vec<PodMetrics>, FetchError> {
        self.note(format!("{namespace} {pods}")).await;
        (self.pod_metrics)(namespace, &pods.to_string())
    }

    async fn pod_values(
        &self,
        namespace: &str,
        pods: &Selector,
        metric: &str,
        metric_selector: &Selector,
    ) -> Result<Vec<MetricValue>, FetchError> {
        self.note(format!("{namespace} {pods} {metric} {metric_selector}")).await;
        Ok(serde_json::from_str(r#"[{"describedObject":{"name":"web-1"},"value":"1500m"}]"#)
            .unwrap())
    }

    async fn object_values(
        &self,
        namespace: &str,
        object: &CrossVersionObjectReference,
        metric: &str,
        metric_selector: &Selector,
    ) -> Result<Vec<MetricValue>, FetchError> {
        self.note(format!(
            "{namespace} {}/{} {metric} {metric_selector}",
            object.kind, object.name
        ))
        .await;
        Ok(serde_json::from_str(r#"[{"describedObject":{"name":"main"},"value":"7"}]"#).unwrap())
    }

    async fn external_values(
        &self,
        namespace: &str,
        metric: &str,
        metric_selector: &Selector,
    ) -> Result<Vec<ExternalMetricValue>, FetchError> {
        self.note(format!("{namespace} {metric} {metric_selector}")).await;
        Ok(serde_json::from_str(r#"[{"value":"1"},{"value":"2"}]"#).unwrap())
    }
}
