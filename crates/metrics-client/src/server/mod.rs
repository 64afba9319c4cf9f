//! The metrics APIs of an API server.

mod discovery;
mod request;
mod status;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use hpa_calc::{api::CrossVersionObjectReference, readings::MetricsApi, selector::Selector};
use http::{Request, header};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::timeout;

use crate::{
    FetchError, MetricsSource,
    coalesce::SingleFlight,
    wire::{self, ExternalMetricValue, ListItem, MetricValue, PodMetrics, WireError},
};
use discovery::{ApiGroup, group_of};
pub use request::percent_encode;
use request::{Get, Parts};
pub use status::generic_message;

/// Names the resource of a kind, as the API server's discovery does.
#[async_trait]
pub trait ResourceNames: Send + Sync + 'static {
    /// The resource of a kind: its plural for the core group, else `<plural>.<group>`. Whether it is namespaced
    /// does not matter: custom metrics of any object but a Namespace are asked for inside the namespace.
    ///
    /// The error is a text such as `no matches for kind "K" in group "G"`.
    async fn resource_for(&self, group: &str, kind: &str) -> Result<String, String>;
}

/// The limits of a [`KubeMetricsClient`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientSettings {
    /// How long one request may take, from sending it to the end of its answer. 10 s by default.
    pub deadline: Duration,
    /// How long an answer may be, in bytes after decompression. 256 MiB by default.
    pub max_body: usize,
    /// For how long the discovered versions of the APIs hold; the controller's sync period, 15 s by default.
    pub version_lifetime: Duration,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(10),
            max_body: 256 << 20,
            version_lifetime: Duration::from_secs(15),
        }
    }
}

/// The metrics APIs through an API server.
///
/// - metrics.k8s.io is asked in v1, else v1beta1; custom.metrics.k8s.io in v1beta2, else v1beta1, whichever its
///   group lists. That is looked up at most once per [`ClientSettings::version_lifetime`], by one request however many
///   need it; a look-up that failed is repeated by the next request. external.metrics.k8s.io has one version only.
/// - Every request has a deadline, and nothing is retried: the `client` should not retry either
///   (`kube::Config::default_retry`).
/// - Answers are bounded in size.
pub struct KubeMetricsClient {
    transport: Arc<Transport>,
    names: Arc<dyn ResourceNames>,
    versions: SingleFlight<MetricsApi, &'static str>,
}

/// What a request is sent with.
struct Transport {
    client: kube::Client,
    settings: ClientSettings,
}

impl KubeMetricsClient {
    /// A client that asks the API server of `client`, and `names` for the resources of objects.
    pub fn new(
        client: kube::Client,
        names: Arc<dyn ResourceNames>,
        settings: ClientSettings,
    ) -> Self {
        Self {
            transport: Arc::new(Transport { client, settings }),
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

    /// The resource part of the path of an object's metrics.
    async fn resource_of(
        &self,
        object: &CrossVersionObjectReference,
    ) -> Result<String, FetchError> {
        let (group, kind) = (group_of_version(&object.api_version), object.kind.as_str());
        let looked_up = self.names.resource_for(group, kind);
        let deadline = self.transport.settings.deadline;
        let unknown = |message: String| {
            let kind =
                if group.is_empty() { kind.into() } else { format!("{kind}.{group}").into() };
            FetchError::UnknownKind { kind, message: message.into() }
        };
        match timeout(deadline, looked_up).await {
            Ok(resource) => resource.map_err(unknown),
            Err(_) => {
                Err(unknown(format!("context deadline exceeded: no answer within {deadline:?}")))
            }
        }
    }

    async fn custom_values(&self, parts: Parts<'_>) -> Result<Vec<MetricValue>, FetchError> {
        let version = self.version(MetricsApi::Custom).await?;
        self.transport.list(&Parts { version, ..parts }.get()?).await
    }
}

/// The group of `group/version`; of anything else, malformed ones included, the core group, as the reference has it.
fn group_of_version(api_version: &str) -> &str {
    match api_version.split_once('/') {
        Some((group, version)) if !version.contains('/') => group,
        _ => "",
    }
}

#[async_trait]
impl MetricsSource for KubeMetricsClient {
    async fn pod_metrics(
        &self,
        namespace: &str,
        pods: &Selector,
    ) -> Result<Vec<PodMetrics>, FetchError> {
        let parts = Parts {
            group: group_of(MetricsApi::Resource),
            version: self.version(MetricsApi::Resource).await?,
            namespace,
            resource: "pods",
            name: None,
            subresource: None,
            selectors: &[("labelSelector", pods)],
        };
        self.transport.list(&parts.get()?).await
    }

    async fn pod_values(
        &self,
        namespace: &str,
        pods: &Selector,
        metric: &str,
        metric_selector: &Selector,
    ) -> Result<Vec<MetricValue>, FetchError> {
        self.custom_values(Parts {
            group: group_of(MetricsApi::Custom),
            version: "",
            namespace,
            resource: "pods",
            name: Some("*"),
            subresource: Some(metric),
            selectors: &[("labelSelector", pods), ("metricLabelSelector", metric_selector)],
        })
        .await
    }

    async fn object_values(
        &self,
        namespace: &str,
        object: &CrossVersionObjectReference,
        metric: &str,
        metric_selector: &Selector,
    ) -> Result<Vec<MetricValue>, FetchError> {
        let of_namespace =
            object.kind == "Namespace" && group_of_version(&object.api_version).is_empty();
        let resource =
            if of_namespace { "metrics".to_owned() } else { self.resource_of(object).await? };
        self.custom_values(Parts {
            group: group_of(MetricsApi::Custom),
            version: "",
            namespace,
            resource: &resource,
            name: Some(if of_namespace { metric } else { &object.name }),
            subresource: if of_namespace { None } else { Some(metric) },
            selectors: &[("metricLabelSelector", metric_selector)],
        })
        .await
    }

    async fn external_values(
        &self,
        namespace: &str,
        metric: &str,
        metric_selector: &Selector,
    ) -> Result<Vec<ExternalMetricValue>, FetchError> {
        let parts = Parts {
            group: group_of(MetricsApi::External),
            version: self.version(MetricsApi::External).await?,
            namespace,
            resource: metric,
            name: None,
            subresource: None,
            selectors: &[("labelSelector", metric_selector)],
        };
        self.transport.list(&parts.get()?).await
    }
}

impl Transport {
    async fn discover(&self, api: MetricsApi) -> Result<&'static str, FetchError> {
        let group = group_of(api);
        // The reference looks up no version of metrics.k8s.io; its texts name the request for the pods.
        let get = request::group(group, &format!("get pods.{group}"));
        let body = match self.fetch(&get).await {
            Err(FetchError::Refused { code: 404, .. }) if api == MetricsApi::Custom => {
                return Err(FetchError::NoCustomApi);
            }
            answer => answer?,
        };
        let group: ApiGroup = serde_json::from_slice(&body)
            .map_err(|source| decode_error(&get, WireError::Json { kind: "APIGroup", source }))?;
        discovery::choose(api, &group)
    }

    async fn list<I: ListItem>(&self, get: &Get) -> Result<Vec<I>, FetchError> {
        let body = self.fetch(get).await?;
        wire::decode_list(&body).map_err(|error| decode_error(get, error))
    }

    /// The body of a successful answer.
    async fn fetch(&self, get: &Get) -> Result<Vec<u8>, FetchError> {
        let deadline = self.settings.deadline;
        match timeout(deadline, self.exchange(get)).await {
            Ok(answer) => answer,
            Err(_) => Err(FetchError::Deadline { deadline, request: get.called.clone() }),
        }
    }

    async fn exchange(&self, get: &Get) -> Result<Vec<u8>, FetchError> {
        let request = Request::get(get.uri.as_str())
            .header(header::ACCEPT, "application/json")
            .body(Body::empty())
            .map_err(|error| transport_error(get, error))?;
        let answer =
            self.client.send(request).await.map_err(|error| transport_error(get, error))?;
        let (head, body) = answer.into_parts();
        let length = head.headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok()).unwrap_or(0);
        if head.status.is_success() {
            return self.read(get, body, length).await;
        }
        // What cannot be read of an error's body changes nothing about the error.
        let body = self.read(get, body, length).await.unwrap_or_default();
        let content_type =
            head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        Err(status::refusal(head.status, content_type, &body, &get.called))
    }

    /// Reads a body that is said to have this length.
    async fn read(&self, get: &Get, mut body: Body, length: usize) -> Result<Vec<u8>, FetchError> {
        let limit = self.settings.max_body;
        let mut read = Vec::with_capacity(length.min(limit));
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|error| transport_error(get, error))?.into_data() else {
                continue;
            };
            if data.len() > limit.saturating_sub(read.len()) {
                return Err(FetchError::TooLarge { limit, request: get.called.clone() });
            }
            read.extend_from_slice(&data);
        }
        Ok(read)
    }
}

fn decode_error(get: &Get, error: WireError) -> FetchError {
    FetchError::Decode { request: get.called.clone(), source: Arc::new(error) }
}

fn transport_error(get: &Get, error: impl std::error::Error + Send + Sync + 'static) -> FetchError {
    FetchError::Transport { request: get.called.clone(), source: Arc::new(error) }
}
