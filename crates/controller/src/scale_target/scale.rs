//! Reads and writes scales.

use std::{sync::Arc, time::Duration};

use hpa_calc::{
    api::{CrossVersionObjectReference, Scale},
    plan::ScaleReadError,
    report::error_texts::WRITES_WAIT,
};
use hpa_metrics::KeyedSemaphores;
use http::Method;
use kube::{Client, core::Status};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    failures::replica_failure,
    mapper::RestMapper,
    mapping::{GroupKind, MapperError, Mapping},
};
use crate::k8s::{ApiRequest, ApiRequestError};

/// The minimum timeout of a write. An admission webhook may take 30 s (`timeoutSeconds`, by default
/// 10), and validating webhooks are called in parallel. The reference waits for the API server's
/// response, which comes within 60 s. The limit here is lower, because the inputs of the decision
/// age while it waits.
const MIN_WRITE_TIMEOUT: Duration = Duration::from_secs(35);

/// The maximum number of writes in one namespace that wait for their responses. It is half of the
/// requests that one API group may use by default: half of [`ClientLimits::concurrency`]. So a
/// namespace whose webhooks hang leaves requests to the others.
///
/// [`ClientLimits::concurrency`]: crate::k8s::ClientLimits::concurrency
const MAX_NAMESPACE_WRITES: usize = 16;

/// An error when reading or writing a scale. Prints as client-go does, mostly the API server's own
/// message.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ScaleError {
    /// The scale changed since it was read. Nothing was written.
    #[error("{}", .0.message)]
    Conflict(Box<Status>),
    /// The target does not exist.
    #[error("{}", .0.message)]
    NotFound(Box<Status>),
    /// The API server doesn't serve the resource, or the resource has no scale. The mapping may be
    /// stale: call [`RestMapper::invalidate`](super::RestMapper::invalidate).
    #[error("{}", .0.message)]
    NotServed(Box<Status>),
    /// There is no mapping for the target.
    #[error("unrecognized resource")]
    NoMapping,
    /// The target's name can't be a path segment.
    #[error("invalid resource name {0:?}")]
    InvalidName(String),
    /// Nothing was sent within this time, because other writes in the namespace wait.
    #[error("not sent within {0:?}: {MAX_NAMESPACE_WRITES}{WRITES_WAIT}")]
    NotSent(Duration),
    #[error(transparent)]
    Request(ApiRequestError),
}

impl ScaleError {
    /// Whether the request certainly had no effect. After a server error or without a response, a
    /// write may have been applied.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Request(ApiRequestError::Status(status)) => status.code < 500,
            Self::Request(_) => false,
            Self::Conflict(_)
            | Self::NotFound(_)
            | Self::NotServed(_)
            | Self::NoMapping
            | Self::InvalidName(_)
            | Self::NotSent(_) => true,
        }
    }
}

impl From<ApiRequestError> for ScaleError {
    fn from(error: ApiRequestError) -> Self {
        match error {
            ApiRequestError::Status(status) if status.is_conflict() => Self::Conflict(status),
            ApiRequestError::Status(status) if status.is_not_found() => {
                // The details name an object only if the object, and not its type, is missing.
                let names_object =
                    status.details.as_ref().is_some_and(|details| !details.name.is_empty());
                if names_object { Self::NotFound(status) } else { Self::NotServed(status) }
            }
            error => Self::Request(error),
        }
    }
}

/// A scale with the UID and resource version of its target.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleObject {
    pub scale: Scale,
    /// The target's UID. Empty if the API server doesn't send it.
    pub uid: String,
    /// A write succeeds only if the target still has this version. Empty if the API server doesn't
    /// send it.
    pub resource_version: String,
}

impl ScaleObject {
    /// The autoscaling/v1 Scale to write: with new `spec.replicas`, and with the UID and resource
    /// version that were read.
    fn to_json_with_replicas(&self, namespace: &str, name: &str, replicas: i32) -> Value {
        let non_empty = |value: &str| (!value.is_empty()).then(|| value.to_owned());
        let (uid, resource_version) = (non_empty(&self.uid), non_empty(&self.resource_version));
        json!({
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {
                "namespace": namespace,
                "name": name,
                "uid": uid,
                "resourceVersion": resource_version,
            },
            "spec": { "replicas": replicas },
            "status": { "replicas": self.scale.status_replicas, "selector": self.scale.selector },
        })
    }
}

/// The needed fields of an autoscaling/v1 Scale.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawScale {
    metadata: Option<ScaleMetadata>,
    spec: Option<ScaleSpec>,
    status: Option<ScaleStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ScaleMetadata {
    uid: Option<String>,
    resource_version: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ScaleSpec {
    replicas: Option<i32>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ScaleStatus {
    replicas: Option<i32>,
    selector: Option<String>,
}

impl From<RawScale> for ScaleObject {
    fn from(raw: RawScale) -> Self {
        let (spec, status) = (raw.spec.unwrap_or_default(), raw.status.unwrap_or_default());
        let metadata = raw.metadata.unwrap_or_default();
        let scale = Scale {
            spec_replicas: spec.replicas.unwrap_or_default(),
            status_replicas: status.replicas.unwrap_or_default(),
            selector: status.selector.unwrap_or_default(),
        };
        Self {
            scale,
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
        }
    }
}

/// Reads and writes scales of any resource.
#[derive(Clone)]
pub struct ScaleClient {
    client: Client,
    timeout: Duration,
    /// The writes of each namespace.
    writes: Arc<KeyedSemaphores>,
}

impl ScaleClient {
    /// `timeout` limits each request. A write may take 35 s if that is longer.
    pub fn new(client: Client, timeout: Duration) -> Self {
        let writes = Arc::new(KeyedSemaphores::new(MAX_NAMESPACE_WRITES));
        Self { client, timeout, writes }
    }

    /// Reads the scale of a target.
    ///
    /// The path contains the namespace even if the resource is cluster-scoped, as in the reference:
    /// an autoscaler can't reach beyond its namespace.
    pub async fn get(
        &self,
        namespace: &str,
        mapping: &Mapping,
        name: &str,
    ) -> Result<ScaleObject, ScaleError> {
        let request = self.request(Method::GET, namespace, mapping, name, "/scale")?;
        Ok(request.send::<RawScale>().await?.into())
    }

    /// Reads the [`replica_failure`] of a target.
    pub(super) async fn replica_failure(
        &self,
        namespace: &str,
        mapping: &Mapping,
        name: &str,
    ) -> Result<Option<String>, ScaleError> {
        let request = self.request(Method::GET, namespace, mapping, name, "")?;
        Ok(replica_failure(&request.send::<Value>().await?))
    }

    /// Reads the scale with the first mapping that works, and returns that mapping. If none works,
    /// returns the error of the first one, as the reference does. A resource is tried in its next
    /// version only if the previous version doesn't serve its scale.
    pub async fn get_first_served<'m>(
        &self,
        namespace: &str,
        mappings: &'m [Mapping],
        name: &str,
    ) -> Result<(ScaleObject, &'m Mapping), ScaleError> {
        let mut first_error = None;
        let mut served: Vec<&str> = Vec::new();
        for mapping in mappings {
            if served.contains(&&*mapping.resource) {
                continue;
            }
            match self.get(namespace, mapping, name).await {
                Ok(scale) => return Ok((scale, mapping)),
                Err(error) => {
                    if !matches!(error, ScaleError::NotServed(_)) {
                        served.push(&mapping.resource);
                    }
                    first_error.get_or_insert(error);
                }
            }
        }
        Err(first_error.unwrap_or(ScaleError::NoMapping))
    }

    /// Writes `spec.replicas`. Fails with [`ScaleError::Conflict`] if the scale changed since it
    /// was read.
    pub async fn update(
        &self,
        namespace: &str,
        mapping: &Mapping,
        name: &str,
        read: &ScaleObject,
        replicas: i32,
    ) -> Result<ScaleObject, ScaleError> {
        let mut request = self.request(Method::PUT, namespace, mapping, name, "/scale")?;
        request.timeout = self.timeout.max(MIN_WRITE_TIMEOUT);
        let body = read.to_json_with_replicas(namespace, name, replicas).to_string();
        request.body = body.into_bytes();
        let writes = self.writes.semaphore(namespace);
        let Ok(_permit) = timeout(self.timeout, writes.acquire()).await else {
            return Err(ScaleError::NotSent(self.timeout));
        };
        Ok(request.send::<RawScale>().await?.into())
    }

    fn request<'a>(
        &'a self,
        method: Method,
        namespace: &str,
        mapping: &'a Mapping,
        name: &'a str,
        subresource: &str,
    ) -> Result<ApiRequest<'a>, ScaleError> {
        if matches!(name, "" | "." | "..") || name.contains(['/', '%']) {
            return Err(ScaleError::InvalidName(name.to_owned()));
        }
        let path = format!("{}{subresource}", mapping.object_path(namespace, name));
        Ok(ApiRequest {
            method,
            subject: Some((&mapping.resource, name)),
            ..ApiRequest::get(&self.client, self.timeout, path)
        })
    }
}

/// The target's scale could not be read.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub struct ScaleUnavailable {
    pub error: ScaleReadError,
    /// Whether the target or its kind doesn't exist, or its `apiVersion` is invalid. `false` for
    /// any other failure of a request.
    pub is_gone: bool,
    /// Whether the API server forbids the request.
    pub is_forbidden: bool,
}

/// Reads the scale of a target, from the first resource of its kind that has an object of that
/// name.
pub async fn read_scale(
    mapper: &RestMapper,
    scales: &ScaleClient,
    namespace: &str,
    target: &CrossVersionObjectReference,
) -> Result<(ScaleObject, Mapping), ScaleUnavailable> {
    let kind = GroupKind::parse(&target.api_version, &target.kind).map_err(|error| {
        let error = ScaleReadError::InvalidApiVersion(error.to_string());
        ScaleUnavailable { is_gone: true, is_forbidden: false, error }
    })?;
    let mappings = mapper.mappings(&kind).await.map_err(|error| ScaleUnavailable {
        is_gone: matches!(error, MapperError::NoMatch { .. }),
        is_forbidden: false,
        error: ScaleReadError::UnknownKind(error.to_string()),
    })?;
    match scales.get_first_served(namespace, &mappings, &target.name).await {
        Ok((read, mapping)) => Ok((read, mapping.clone())),
        Err(error) => {
            let is_served = !matches!(error, ScaleError::NotServed(_));
            if !is_served {
                // The cached discovery is out of date.
                mapper.invalidate(&kind.group);
            }
            let is_gone = !is_served || matches!(error, ScaleError::NotFound(_));
            let status =
                if let ScaleError::Request(error) = &error { error.status() } else { None };
            let is_forbidden = status.is_some_and(Status::is_forbidden);
            let error = ScaleReadError::Read(error.to_string());
            Err(ScaleUnavailable { error, is_gone, is_forbidden })
        }
    }
}
