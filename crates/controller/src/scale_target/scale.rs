use std::time::Duration;

use hpa_calc::api::Scale;
use http::Method;
use kube::{Client, core::Status};
use serde::Deserialize;
use serde_json::{Value, json};

use super::mapper::Mapping;
use crate::k8s::{ApiRequest, RequestError, path_segment};
use crate::trace::TARGET;

/// Why a scale could not be read or written. Prints as client-go does: mostly the API server's own words.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ScaleError {
    /// The scale changed since it was read; nothing was written.
    #[error("{}", .0.message)]
    Conflict(Box<Status>),
    /// The target does not exist.
    #[error("{}", .0.message)]
    NotFound(Box<Status>),
    /// The API server does not know the resource at all, or the resource has no scale. The mapping may be out of date:
    /// tell [`RestMapper::invalidate`](super::RestMapper::invalidate).
    #[error("{}", .0.message)]
    NotServed(Box<Status>),
    /// There is no mapping to read the scale by.
    #[error("unrecognized resource")]
    NoMapping,
    /// The target's name cannot be part of a path.
    #[error("invalid resource name {0:?}")]
    InvalidName(String),
    /// Anything else.
    #[error(transparent)]
    Request(RequestError),
}

impl ScaleError {
    /// Whether the API server has refused the request, and thus not applied it. A failure on its side, or no answer at
    /// all, leaves that open.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Request(RequestError::Status(status)) => status.code < 500,
            Self::Request(_) => false,
            _ => true,
        }
    }
}

impl From<RequestError> for ScaleError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Status(status) if status.is_conflict() => Self::Conflict(status),
            RequestError::Status(status) if status.is_not_found() => {
                // Only what is about an object has the object's name.
                let is_about_object =
                    status.details.as_ref().is_some_and(|details| !details.name.is_empty());
                if is_about_object { Self::NotFound(status) } else { Self::NotServed(status) }
            }
            error => Self::Request(error),
        }
    }
}

/// A scale as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleObject {
    /// What a decision reads of it.
    pub scale: Scale,
    /// The target's uid; empty if the API server does not tell.
    pub uid: String,
    /// The version that the scale has, and that it has to have still when it is written.
    pub resource_version: String,
}

impl ScaleObject {
    /// The autoscaling/v1 Scale to be written: with other `spec.replicas`, and bound to what was read.
    fn with_replicas(&self, namespace: &str, name: &str, replicas: i32) -> Value {
        let told = |value: &str| (!value.is_empty()).then(|| value.to_owned());
        let (uid, resource_version) = (told(&self.uid), told(&self.resource_version));
        json!({
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": { "namespace": namespace, "name": name, "uid": uid, "resourceVersion": resource_version },
            "spec": { "replicas": replicas },
            "status": { "replicas": self.scale.status_replicas, "selector": self.scale.selector },
        })
    }
}

/// What is read of an autoscaling/v1 Scale.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire {
    metadata: Option<Metadata>,
    spec: Option<Spec>,
    status: Option<State>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    uid: Option<String>,
    resource_version: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    replicas: Option<i32>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct State {
    replicas: Option<i32>,
    selector: Option<String>,
}

impl From<Wire> for ScaleObject {
    fn from(wire: Wire) -> Self {
        let (spec, status) = (wire.spec.unwrap_or_default(), wire.status.unwrap_or_default());
        let metadata = wire.metadata.unwrap_or_default();
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

/// Reads and writes the scale subresource of any resource.
#[derive(Clone)]
pub struct ScaleClient {
    client: Client,
    timeout: Duration,
}

impl ScaleClient {
    /// A client whose requests may each take this long.
    pub fn new(client: Client, timeout: Duration) -> Self {
        Self { client, timeout }
    }

    /// Reads the scale of a target.
    ///
    /// The target is looked for in the namespace even if its resource is not namespaced, as the reference does: an
    /// autoscaler never reaches beyond its namespace.
    pub async fn get(
        &self,
        namespace: &str,
        mapping: &Mapping,
        name: &str,
    ) -> Result<ScaleObject, ScaleError> {
        let request = self.request(Method::GET, namespace, mapping, name)?;
        Ok(request.send::<Wire>(Vec::new()).await?.into())
    }

    /// Reads the scale by the first mapping that works, and returns that mapping. If none does, the error is that of
    /// the first, as in the reference. Resources that several versions serve are tried once per version only if
    /// the version before did not serve their scale.
    pub async fn find<'m>(
        &self,
        namespace: &str,
        mappings: &'m [Mapping],
        name: &str,
    ) -> Result<(ScaleObject, &'m Mapping), ScaleError> {
        let mut first_error = None;
        let mut answered: Vec<&str> = Vec::new();
        for mapping in mappings {
            if answered.contains(&&*mapping.resource) {
                continue;
            }
            match self.get(namespace, mapping, name).await {
                Ok(scale) => return Ok((scale, mapping)),
                Err(error) => {
                    if !matches!(error, ScaleError::NotServed(_)) {
                        answered.push(&mapping.resource);
                    }
                    first_error.get_or_insert(error);
                }
            }
        }
        Err(first_error.unwrap_or(ScaleError::NoMapping))
    }

    /// Writes `spec.replicas` of a scale that was read, if it did not change since ([`ScaleError::Conflict`]).
    #[tracing::instrument(
        name = "write_scale",
        level = "debug",
        target = TARGET,
        skip_all,
        fields(resource = &*mapping.resource, name = name, replicas = replicas),
        err(level = "debug")
    )]
    pub async fn update(
        &self,
        namespace: &str,
        mapping: &Mapping,
        name: &str,
        read: &ScaleObject,
        replicas: i32,
    ) -> Result<ScaleObject, ScaleError> {
        let request = self.request(Method::PUT, namespace, mapping, name)?;
        let body = read.with_replicas(namespace, name, replicas).to_string();
        Ok(request.send::<Wire>(body.into_bytes()).await?.into())
    }

    fn request<'a>(
        &'a self,
        method: Method,
        namespace: &str,
        mapping: &'a Mapping,
        name: &'a str,
    ) -> Result<ApiRequest<'a>, ScaleError> {
        if matches!(name, "" | "." | "..") || name.contains(['/', '%']) {
            return Err(ScaleError::InvalidName(name.to_owned()));
        }
        let (root, resource) = (mapping.api_root(), path_segment(&mapping.resource));
        let (namespace, segment) = (path_segment(namespace), path_segment(name));
        let path = format!("{root}/namespaces/{namespace}/{resource}/{segment}/scale");
        Ok(ApiRequest {
            client: &self.client,
            timeout: self.timeout,
            method,
            path,
            about: Some((&mapping.resource, name)),
        })
    }
}
