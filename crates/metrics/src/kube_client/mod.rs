//! The metrics APIs of a cluster.

mod budget;
mod discovery;
mod http_error;
mod request;
#[cfg(test)]
mod tests;

use std::{error::Error, sync::Arc, time::Duration};

use async_trait::async_trait;
use hpa_calc::readings::MetricsApi;
use http::header;
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::timeout;

use self::{
    budget::{ByteBudget, Share},
    discovery::{ApiGroup, group},
    request::{GetRequest, MetricsPath},
};
pub use self::{http_error::generic_message, request::percent_encode};
use crate::{
    FetchError, Items, MetricsSource, ObjectReference, Request,
    coalesce::SingleFlight,
    error::LookupTimeout,
    wire::{self, ListItem, WireError},
};

/// Maps kinds to resources, as the discovery of the API server does.
#[async_trait]
pub trait ResourceNames: Send + Sync + 'static {
    /// Returns the resource of a kind: its plural for the core group, otherwise `<plural>.<group>`.
    /// It may be namespaced or not, because custom metrics of all objects except Namespaces are
    /// requested in the namespace of the autoscaler.
    ///
    /// Conditions contain the text of the error, for example `no matches for kind "K" in group
    /// "G"`.
    async fn resource_for(
        &self,
        group: &str,
        kind: &str,
    ) -> Result<String, Box<dyn Error + Send + Sync>>;
}

/// Limits of a [`KubeMetricsClient`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientSettings {
    /// Time limit of a request, until the end of its response. 10 s by default.
    pub deadline: Duration,
    /// Size limit of a response in bytes, after decompression. 64 MiB by default.
    pub max_body: usize,
    /// Size limit of all responses together that are being read, in bytes. The first 256 KiB of a
    /// response don't count. 64 MiB by default.
    pub max_total: usize,
    /// How long discovered API versions are cached, usually the controller's sync period. 15 s by
    /// default.
    pub version_lifetime: Duration,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(10),
            max_body: 64 << 20,
            max_total: 64 << 20,
            version_lifetime: Duration::from_secs(15),
        }
    }
}

impl ClientSettings {
    /// Sets [`deadline`](Self::deadline).
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Sets [`max_body`](Self::max_body).
    #[must_use]
    pub fn with_max_body(self, max_body: usize) -> Self {
        Self { max_body, ..self }
    }

    /// Sets [`max_total`](Self::max_total).
    #[must_use]
    pub fn with_max_total(self, max_total: usize) -> Self {
        Self { max_total, ..self }
    }

    /// Sets [`version_lifetime`](Self::version_lifetime).
    #[must_use]
    pub fn with_version_lifetime(self, version_lifetime: Duration) -> Self {
        Self { version_lifetime, ..self }
    }
}

/// A [`MetricsSource`] that sends requests to an API server.
///
/// - It prefers v1 of metrics.k8s.io over v1beta1, and v1beta2 of custom.metrics.k8s.io over
///   v1beta1. Discovery needs at most one request per API and [`ClientSettings::version_lifetime`].
///   After a failed discovery, the next request repeats it. external.metrics.k8s.io has only one
///   version, so it is not discovered.
/// - Every request has a time limit. Nothing is retried, and `client` should not retry either
///   (`kube::Config::default_retry`).
/// - The size of responses is limited.
pub struct KubeMetricsClient {
    transport: Arc<Transport>,
    names: Arc<dyn ResourceNames>,
    versions: SingleFlight<MetricsApi, &'static str>,
}

struct Transport {
    client: kube::Client,
    settings: ClientSettings,
    budget: ByteBudget,
}

/// A response body, which takes its share of the budget until it is dropped.
struct ResponseBody<'a> {
    bytes: Vec<u8>,
    _share: Share<'a>,
}

impl KubeMetricsClient {
    /// Creates a source that sends requests with `client`, and maps the kinds of objects to
    /// resources with `names`.
    pub fn new(
        client: kube::Client,
        names: Arc<dyn ResourceNames>,
        settings: ClientSettings,
    ) -> Self {
        Self {
            transport: Arc::new(Transport {
                client,
                settings,
                budget: ByteBudget::new(settings.max_total),
            }),
            names,
            versions: SingleFlight::new(settings.version_lifetime),
        }
    }

    async fn version(&self, api: MetricsApi) -> Result<&'static str, FetchError> {
        if let Some(only) = discovery::only_version(api) {
            return Ok(only);
        }
        let transport = Arc::clone(&self.transport);
        let version =
            self.versions.get(api, |api| async move { transport.discover(api).await }).await?;
        Ok(*version)
    }

    /// Returns the resource in the path of an object's metrics.
    async fn resource(&self, object: &ObjectReference) -> Result<String, FetchError> {
        let (group, kind) = (group_of_version(&object.api_version), &*object.kind);
        let lookup = self.names.resource_for(group, kind);
        let deadline = self.transport.settings.deadline;
        let resource = match timeout(deadline, lookup).await {
            Ok(resource) => resource,
            Err(_) => Err(LookupTimeout { deadline }.into()),
        };
        resource.map_err(|source| {
            let kind =
                if group.is_empty() { kind.into() } else { format!("{kind}.{group}").into() };
            FetchError::UnknownKind { kind, source: source.into() }
        })
    }
}

/// Returns the group of `group/version`. Everything else, malformed text included, is the core
/// group, as in the reference.
fn group_of_version(api_version: &str) -> &str {
    match api_version.split_once('/') {
        Some((group, version)) if !version.contains('/') => group,
        _ => "",
    }
}

#[async_trait]
impl MetricsSource for KubeMetricsClient {
    async fn fetch(&self, request: &Request) -> Result<Items, FetchError> {
        let transport = &self.transport;
        match request {
            Request::PodMetrics { namespace, pods } => {
                let path = MetricsPath {
                    group: group(MetricsApi::Resource),
                    version: self.version(MetricsApi::Resource).await?,
                    namespace,
                    resource: "pods",
                    name: None,
                    subresource: None,
                    selectors: &[("labelSelector", pods)],
                };
                transport.list(&path).await.map(Items::PodMetrics)
            }
            Request::PodValues { namespace, pods, metric, metric_selector } => {
                let path = MetricsPath {
                    group: group(MetricsApi::Custom),
                    version: self.version(MetricsApi::Custom).await?,
                    namespace,
                    resource: "pods",
                    name: Some("*"),
                    subresource: Some(metric),
                    selectors: &[("labelSelector", pods), ("metricLabelSelector", metric_selector)],
                };
                transport.list(&path).await.map(Items::Values)
            }
            Request::ObjectValues { namespace, object, metric, metric_selector } => {
                let is_namespace = &*object.kind == "Namespace"
                    && group_of_version(&object.api_version).is_empty();
                let resource =
                    if is_namespace { "metrics".into() } else { self.resource(object).await? };
                let (name, subresource) =
                    if is_namespace { (metric, None) } else { (&object.name, Some(&**metric)) };
                let path = MetricsPath {
                    group: group(MetricsApi::Custom),
                    version: self.version(MetricsApi::Custom).await?,
                    namespace,
                    resource: &resource,
                    name: Some(name),
                    subresource,
                    selectors: &[("metricLabelSelector", metric_selector)],
                };
                transport.list(&path).await.map(Items::Values)
            }
            Request::ExternalValues { namespace, metric, metric_selector } => {
                let path = MetricsPath {
                    group: group(MetricsApi::External),
                    version: self.version(MetricsApi::External).await?,
                    namespace,
                    resource: metric,
                    name: None,
                    subresource: None,
                    selectors: &[("labelSelector", metric_selector)],
                };
                transport.list(&path).await.map(Items::ExternalValues)
            }
        }
    }
}

impl Transport {
    async fn discover(&self, api: MetricsApi) -> Result<&'static str, FetchError> {
        let group = group(api);
        // The reference has no discovery of metrics.k8s.io, so its messages name the pods.
        let get = request::discovery_request(group, &format!("get pods.{group}"));
        let body = match self.fetch(&get).await {
            Err(FetchError::Status { code: 404, .. }) if api == MetricsApi::Custom => {
                return Err(FetchError::NoCustomApi);
            }
            body => body?,
        };
        let group: ApiGroup = serde_json::from_slice(&body.bytes)
            .map_err(|source| decode_error(&get, WireError::Json { kind: "APIGroup", source }))?;
        discovery::choose_version(api, &group)
    }

    async fn list<I: ListItem>(&self, path: &MetricsPath<'_>) -> Result<Vec<I>, FetchError> {
        let get = path.to_request()?;
        let body = self.fetch(&get).await?;
        wire::decode_list(&body.bytes).map_err(|error| decode_error(&get, error))
    }

    /// Returns the body of a successful response.
    async fn fetch(&self, get: &GetRequest) -> Result<ResponseBody<'_>, FetchError> {
        let deadline = self.settings.deadline;
        match timeout(deadline, self.exchange(get)).await {
            Ok(body) => body,
            Err(_) => Err(FetchError::Timeout { deadline, request: get.description.clone() }),
        }
    }

    async fn exchange(&self, get: &GetRequest) -> Result<ResponseBody<'_>, FetchError> {
        let request = http::Request::get(get.uri.as_str())
            .header(header::ACCEPT, "application/json")
            .body(Body::empty())
            .map_err(|error| transport_error(get, error))?;
        let response =
            self.client.send(request).await.map_err(|error| transport_error(get, error))?;
        let (head, body) = response.into_parts();
        let length = head.headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok()).unwrap_or(0);
        if head.status.is_success() {
            return self.read(get, body, length).await;
        }
        // The HTTP error is the result even if its body fails.
        let body = self.read(get, body, length).await.map(|body| body.bytes).unwrap_or_default();
        let content_type =
            head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        Err(http_error::status_error(head.status, content_type, &body, &get.description))
    }

    /// Reads a body. `length` is the value of `Content-Length`, which may be wrong, or 0.
    async fn read(
        &self,
        get: &GetRequest,
        mut body: Body,
        length: usize,
    ) -> Result<ResponseBody<'_>, FetchError> {
        let limit = self.settings.max_body;
        let mut share = self.budget.share();
        let mut bytes = Vec::with_capacity(length.min(limit));
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|error| transport_error(get, error))?.into_data() else {
                continue;
            };
            if data.len() > limit.saturating_sub(bytes.len()) {
                return Err(FetchError::TooLarge { limit, request: get.description.clone() });
            }
            if !share.grow_to(bytes.len() + data.len()) {
                let limit = self.settings.max_total;
                return Err(FetchError::OverBudget { limit, request: get.description.clone() });
            }
            bytes.extend_from_slice(&data);
        }
        Ok(ResponseBody { bytes, _share: share })
    }
}

fn decode_error(get: &GetRequest, error: WireError) -> FetchError {
    FetchError::Decode { request: get.description.clone(), source: Arc::new(error) }
}

fn transport_error(get: &GetRequest, error: impl Error + Send + Sync + 'static) -> FetchError {
    FetchError::Transport { request: get.description.clone(), source: Arc::new(error) }
}
