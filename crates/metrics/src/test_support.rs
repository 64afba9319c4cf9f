//! An API server, resource names and a source, for the tests of this crate.

use std::{collections::BTreeMap, convert::Infallible, error::Error, sync::Arc, time::Duration};

use async_trait::async_trait;
use hpa_calc::{api::CrossVersionObjectReference, selector::Selector};
use http::Response;
use kube::client::Body;
use parking_lot::Mutex;

use crate::{
    CustomValues, ExternalValues, KindMapper, MetricError, MetricSource, Objects, Query,
    ResourceNames, Values, resource::GroupResource, wire::PodMetrics,
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

/// An HTTP response.
#[derive(Clone)]
pub(crate) struct Reply {
    pub(crate) delay: Duration,
    pub(crate) code: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(body: impl Into<String>) -> Self {
        Self {
            delay: Duration::ZERO,
            code: 200,
            content_type: "application/json",
            body: body.into(),
        }
    }

    pub(crate) fn text(code: u16, body: &str) -> Self {
        Self { delay: Duration::ZERO, code, content_type: "text/plain", body: body.into() }
    }

    pub(crate) fn group(versions: &[&str]) -> Self {
        let versions: Vec<_> =
            versions.iter().map(|version| serde_json::json!({ "version": version })).collect();
        Self::json(serde_json::json!({ "kind": "APIGroup", "versions": versions }).to_string())
    }

    pub(crate) fn with_delay(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }
}

/// An API server that responds by path and query, and records the requests.
#[derive(Clone)]
pub(crate) struct Server {
    requests: Arc<Mutex<Vec<String>>>,
    respond: Arc<dyn Fn(&str) -> Reply + Send + Sync>,
}

impl Server {
    pub(crate) fn new(respond: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        Self { requests: Arc::default(), respond: Arc::new(respond) }
    }

    /// Returns the requests since the last call.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock())
    }

    pub(crate) fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (server, uri) = (server.clone(), request.uri().to_string());
            async move { Ok::<_, Infallible>(server.reply(uri).await) }
        });
        kube::Client::new(service, "default")
    }

    async fn reply(&self, uri: String) -> Response<Body> {
        let reply = (self.respond)(&uri);
        self.requests.lock().push(uri);
        tokio::time::sleep(reply.delay).await;
        Response::builder()
            .status(reply.code)
            .header("content-type", reply.content_type)
            .body(Body::from(reply.body.into_bytes()))
            .unwrap()
    }
}

/// Maps two kinds to resources. Lookups in the group `slow` never complete.
struct Names;

#[async_trait]
impl ResourceNames for Names {
    async fn resource_for(
        &self,
        group: &str,
        kind: &str,
    ) -> Result<GroupResource, Box<dyn Error + Send + Sync>> {
        match (group, kind) {
            ("", "Service") => Ok(GroupResource::new("", "services")),
            ("apps", "Deployment") => Ok(GroupResource::new("apps", "deployments")),
            ("slow", _) => std::future::pending().await,
            _ => Err(format!("no matches for kind {kind:?} in group {group:?}").into()),
        }
    }
}

pub(crate) fn kinds() -> KindMapper {
    KindMapper::new(Arc::new(Names), Duration::from_secs(10))
}

type PodMetricsResult = Result<Vec<PodMetrics>, MetricError>;
type GetPodMetrics = dyn Fn(&str, &str) -> PodMetricsResult + Send + Sync;

/// A source with a delay. It returns pod metrics by namespace and selector, and fixed values of
/// custom and external metrics, and records the requests.
#[derive(Clone)]
pub(crate) struct Source {
    requests: Arc<Mutex<Vec<String>>>,
    delay: Duration,
    pod_metrics: Arc<GetPodMetrics>,
}

impl Source {
    pub(crate) fn new(
        delay: Duration,
        pod_metrics: impl Fn(&str, &str) -> PodMetricsResult + Send + Sync + 'static,
    ) -> Self {
        Self { requests: Arc::default(), delay, pod_metrics: Arc::new(pod_metrics) }
    }

    /// Returns the requests since the last call.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock())
    }
}

#[async_trait]
impl MetricSource for Source {
    async fn read(&self, query: &Query) -> Result<Values, MetricError> {
        self.requests.lock().push(summary(query));
        tokio::time::sleep(self.delay).await;
        Ok(match query {
            Query::PodUsage { namespace, pods: Objects::Selected(pods), .. } => {
                let items = (self.pod_metrics)(namespace, &pods.to_string())?;
                Values::PodMetrics(items.into())
            }
            Query::PodUsage { .. } | Query::NodeUsage { .. } => {
                return Err(MetricError::UnexpectedValues);
            }
            Query::Custom(query) => {
                let item = match query.objects {
                    Objects::Selected(_) => {
                        r#"{"describedObject":{"name":"web-1"},"value":"1500m"}"#
                    }
                    Objects::Named(_) => r#"{"describedObject":{"name":"main"},"value":"7"}"#,
                };
                let items = vec![serde_json::from_str(item).unwrap()];
                Values::Custom(CustomValues { items, ..CustomValues::default() })
            }
            Query::External(_) => {
                let items = serde_json::from_str(r#"[{"value":"1"},{"value":"2"}]"#).unwrap();
                Values::External(ExternalValues { items, ..ExternalValues::default() })
            }
        })
    }
}

/// The parts of a query that tests compare.
fn summary(query: &Query) -> String {
    let objects = |objects: &Objects| match objects {
        Objects::Named(name) => name.clone(),
        Objects::Selected(selector) => selector.to_string(),
    };
    match query {
        Query::PodUsage { namespace, pods, .. } => format!("{namespace} {}", objects(pods)),
        Query::NodeUsage { nodes, .. } => objects(nodes),
        Query::Custom(query) => {
            let (metric, series) = (&query.metric, &query.metric_selector);
            let (namespace, resource) = (&query.namespace, &query.resource);
            format!("{namespace} {resource}/{} {metric} {series}", objects(&query.objects))
        }
        Query::External(query) => {
            format!("{} {} {}", query.namespace, query.metric, query.metric_selector)
        }
    }
}
