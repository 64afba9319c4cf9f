//! A client of the metrics APIs of a cluster.

mod budget;
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
use serde::Deserialize;
use tokio::time::{Instant, timeout};

use self::{
    budget::{ByteBudget, Share},
    request::{GetRequest, MetricsPath},
};
pub use self::{http_error::generic_message, request::percent_encode};
use crate::{
    CustomValues, ExternalValues, MetricError, MetricSource, Objects, Query, SingleFlight, Values,
    query::{CustomQuery, FieldRequirement, MetadataField},
    wire::{self, ListItem, WireError},
};

/// Size limit of the body of an HTTP error in bytes, because its text becomes a message.
const MAX_ERROR_BODY_BYTES: usize = 1 << 20;

/// Limits of a [`KubeMetricsClient`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientSettings {
    /// Time limit of a request, until the end of its response. 10 s by default.
    pub request_timeout: Duration,
    /// Size limit of a response in bytes, after decompression. 64 MiB by default. The limit of the
    /// body of an HTTP error is at most 1 MiB.
    pub max_body_bytes: usize,
    /// Size limit of all responses that are being read at the same time, in bytes. The first 256
    /// KiB of each response don't count. 64 MiB by default.
    pub max_total_bytes: usize,
    /// The time for which discovered API versions are cached, usually the controller's sync period.
    /// 15 s by default.
    pub version_lifetime: Duration,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(10),
            max_body_bytes: 64 << 20,
            max_total_bytes: 64 << 20,
            version_lifetime: Duration::from_secs(15),
        }
    }
}

/// A [`MetricSource`] that sends requests to an API server.
///
/// - It prefers v1 of metrics.k8s.io over v1beta1, and v1beta2 of custom.metrics.k8s.io over
///   v1beta1. A discovered version is cached for [`ClientSettings::version_lifetime`]. A failed
///   discovery is repeated by the next query. external.metrics.k8s.io has only one version, so it
///   is not discovered.
/// - Every request has a time limit and a size limit. Nothing is retried, and the [`kube::Client`]
///   should not retry either (`kube::Config::default_retry`).
pub struct KubeMetricsClient {
    transport: Arc<Transport>,
    versions: SingleFlight<MetricsApi, &'static str>,
}

struct Transport {
    client: kube::Client,
    settings: ClientSettings,
    budget: ByteBudget,
}

/// A response body. It counts against the budget until it is dropped.
struct ResponseBody<'a> {
    bytes: Vec<u8>,
    _share: Share<'a>,
}

impl KubeMetricsClient {
    /// Creates a client. Sends nothing yet.
    pub fn new(client: kube::Client, settings: ClientSettings) -> Self {
        Self {
            transport: Arc::new(Transport {
                client,
                settings,
                budget: ByteBudget::new(settings.max_total_bytes),
            }),
            versions: SingleFlight::new(settings.version_lifetime),
        }
    }

    async fn preferred_version(&self, api: MetricsApi) -> Result<&'static str, MetricError> {
        if let [only] = known_versions(api) {
            return Ok(only);
        }
        let transport = Arc::clone(&self.transport);
        let version =
            self.versions.get(api, |api| async move { transport.discover(api).await }).await?;
        Ok(*version)
    }

    /// Reads the usage of pods or nodes.
    async fn read_usage<I: ListItem>(
        &self,
        namespace: &str,
        resource: &str,
        objects: &Objects,
        fields: &[FieldRequirement],
    ) -> Result<Vec<I>, MetricError> {
        let (name, labels) = match objects {
            Objects::Named(name) => (Some(name), String::new()),
            Objects::Selected(selector) => (None, selector.to_string()),
        };
        let name_requirement = name.map(|name| FieldRequirement {
            field: MetadataField::Name,
            must_equal: true,
            value: name.clone(),
        });
        let fields: Vec<String> =
            name_requirement.iter().chain(fields).map(ToString::to_string).collect();
        let path = MetricsPath {
            group: MetricsApi::Resource.group(),
            version: self.preferred_version(MetricsApi::Resource).await?,
            namespace: Some(namespace).filter(|namespace| !namespace.is_empty()),
            resource,
            name: None,
            subresource: None,
            parameters: &[("fieldSelector", fields.join(",")), ("labelSelector", labels)],
        };
        self.transport.list(&path).await
    }

    async fn read_custom_metric(&self, query: &CustomQuery) -> Result<CustomValues, MetricError> {
        let (name, labels) = match &query.objects {
            Objects::Named(name) => (name.as_str(), String::new()),
            Objects::Selected(selector) => ("*", selector.to_string()),
        };
        let (resource, metric) = (query.resource.to_string(), query.metric.as_str());
        // The path of a metric that describes a namespace is `namespaces/NAME/metrics/METRIC`.
        let (namespace, resource, name, subresource) = match query.described_namespace() {
            Some(described) => (described, "metrics", metric, None),
            None => (query.namespace.as_str(), resource.as_str(), name, Some(metric)),
        };
        let path = MetricsPath {
            group: MetricsApi::Custom.group(),
            version: self.preferred_version(MetricsApi::Custom).await?,
            namespace: Some(namespace),
            resource,
            name: Some(name),
            subresource,
            parameters: &[
                ("labelSelector", labels),
                ("metricLabelSelector", query.metric_selector.to_string()),
            ],
        };
        let items = self.transport.list(&path).await?;
        Ok(CustomValues { items, ..CustomValues::default() })
    }
}

#[async_trait]
impl MetricSource for KubeMetricsClient {
    async fn read(&self, query: &Query) -> Result<Values, MetricError> {
        match query {
            Query::PodUsage { namespace, pods, fields } => {
                let items = self.read_usage(namespace, "pods", pods, fields).await?;
                Ok(Values::PodMetrics(Vec::into(items)))
            }
            Query::NodeUsage { nodes, fields } => {
                let items = self.read_usage("", "nodes", nodes, fields).await?;
                Ok(Values::NodeMetrics(Vec::into(items)))
            }
            Query::Custom(query) => self.read_custom_metric(query).await.map(Values::Custom),
            Query::External(query) => {
                let path = MetricsPath {
                    group: MetricsApi::External.group(),
                    version: self.preferred_version(MetricsApi::External).await?,
                    namespace: Some(&query.namespace),
                    resource: &query.metric,
                    name: None,
                    subresource: None,
                    parameters: &[("labelSelector", query.metric_selector.to_string())],
                };
                let items = self.transport.list(&path).await?;
                Ok(Values::External(ExternalValues { items, ..ExternalValues::default() }))
            }
        }
    }
}

impl Transport {
    async fn discover(&self, api: MetricsApi) -> Result<&'static str, MetricError> {
        let group = api.group();
        // Errors of a discovery name pods, whatever is queried.
        let description = format!("get pods.{group}").into();
        let get = GetRequest { uri: format!("/apis/{group}"), description };
        let body = match self.fetch(&get).await {
            Err(MetricError::Status { code: 404, .. }) if api == MetricsApi::Custom => {
                return Err(MetricError::NoCustomApi);
            }
            body => body?,
        };
        let group: ApiGroup = serde_json::from_slice(&body.bytes)
            .map_err(|source| decode_error(&get, WireError::Json { kind: "APIGroup", source }))?;
        let is_served =
            |known: &&str| group.versions.iter().flatten().any(|served| served.version == *known);
        let mut known = known_versions(api).iter().copied();
        known.find(is_served).ok_or(MetricError::NoKnownVersion)
    }

    async fn list<I: ListItem>(&self, path: &MetricsPath<'_>) -> Result<Vec<I>, MetricError> {
        let get = path.to_request()?;
        let body = self.fetch(&get).await?;
        wire::decode_list(&body.bytes).map_err(|error| decode_error(&get, error))
    }

    /// Returns the body of a successful response.
    async fn fetch(&self, get: &GetRequest) -> Result<ResponseBody<'_>, MetricError> {
        let (limit, start) = (self.settings.request_timeout, Instant::now());
        let timed_out = || Err(MetricError::Timeout { limit, request: get.description.clone() });
        match timeout(limit, self.exchange(get)).await {
            // The timer of `kube::Client` may have the same limit and end first.
            Ok(Err(MetricError::Transport { .. })) if start.elapsed() >= limit => timed_out(),
            Ok(body) => body,
            Err(_) => timed_out(),
        }
    }

    async fn exchange(&self, get: &GetRequest) -> Result<ResponseBody<'_>, MetricError> {
        let request = http::Request::get(get.uri.as_str())
            .header(header::ACCEPT, "application/json")
            .body(Body::empty())
            .map_err(|error| transport_error(get, error))?;
        let response =
            self.client.send(request).await.map_err(|error| transport_error(get, error))?;
        let (head, body) = response.into_parts();
        let length = head.headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok()).unwrap_or(0);
        let limit = self.settings.max_body_bytes;
        if head.status.is_success() {
            return self.read_body(get, body, length, limit).await;
        }
        // The HTTP error is the result even if its body fails or is too large.
        let body = self.read_body(get, body, length, limit.min(MAX_ERROR_BODY_BYTES)).await;
        let body = body.map(|body| body.bytes).unwrap_or_default();
        let content_type =
            head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        Err(http_error::status_error(head.status, content_type, &body, &get.description))
    }

    /// Reads a body of at most `limit` bytes. `length` is the value of `Content-Length`, which may
    /// be wrong, or 0 without that header.
    async fn read_body(
        &self,
        get: &GetRequest,
        mut body: Body,
        length: usize,
        limit: usize,
    ) -> Result<ResponseBody<'_>, MetricError> {
        let mut share = self.budget.share();
        let mut bytes = Vec::with_capacity(length.min(limit));
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|error| transport_error(get, error))?.into_data() else {
                continue;
            };
            if data.len() > limit.saturating_sub(bytes.len()) {
                return Err(MetricError::TooLarge { limit, request: get.description.clone() });
            }
            if !share.grow_to(bytes.len() + data.len()) {
                let limit = self.settings.max_total_bytes;
                return Err(MetricError::OverBudget { limit, request: get.description.clone() });
            }
            bytes.extend_from_slice(&data);
        }
        Ok(ResponseBody { bytes, _share: share })
    }
}

/// The versions of an API that this crate supports, in order of preference.
const fn known_versions(api: MetricsApi) -> &'static [&'static str] {
    match api {
        MetricsApi::Resource => &["v1", "v1beta1"],
        MetricsApi::Custom => &["v1beta2", "v1beta1"],
        MetricsApi::External => &["v1beta1"],
    }
}

/// meta/v1 `APIGroup`.
#[derive(Debug, Deserialize)]
struct ApiGroup {
    #[serde(default)]
    versions: Option<Vec<ServedVersion>>,
}

#[derive(Debug, Deserialize)]
struct ServedVersion {
    #[serde(default)]
    version: String,
}

fn decode_error(get: &GetRequest, error: WireError) -> MetricError {
    MetricError::Decode { request: get.description.clone(), source: Arc::new(error) }
}

fn transport_error(get: &GetRequest, error: impl Error + Send + Sync + 'static) -> MetricError {
    MetricError::Transport { request: get.description.clone(), source: Arc::new(error) }
}
