//! Kinds, and the resources that serve them.

use std::{fmt, sync::Arc};

use hpa_metrics::percent_encode;

use crate::k8s::ApiRequestError;

/// An error when mapping a kind to a resource. Prints as client-go does.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MapperError {
    /// An `apiVersion` is neither `version` nor `group/version`.
    #[error("unexpected GroupVersion string: {0}")]
    InvalidApiVersion(String),
    /// The API server serves no such kind.
    #[error("no matches for kind {kind:?} in group {group:?}")]
    NoMatch { kind: String, group: String },
    /// Discovery failed, and no earlier result has the kind.
    #[error(transparent)]
    Discovery(ApiRequestError),
}

impl MapperError {
    pub(super) fn no_match(kind: &GroupKind) -> Self {
        Self::NoMatch { kind: kind.kind.clone(), group: kind.group.clone() }
    }
}

/// A kind and its API group, without a version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    /// Empty for the core group.
    pub group: String,
    pub kind: String,
}

impl GroupKind {
    pub fn parse(api_version: &str, kind: &str) -> Result<Self, MapperError> {
        let (group, _) = parse_api_version(api_version)?;
        Ok(Self { group: group.to_owned(), kind: kind.to_owned() })
    }
}

/// Splits an `apiVersion` into group and version. As in apimachinery, both are empty for an empty
/// text and for a lone slash.
pub fn parse_api_version(api_version: &str) -> Result<(&str, &str), MapperError> {
    match api_version.split_once('/') {
        None => Ok(("", api_version)),
        Some((group, version)) if !version.contains('/') => Ok((group, version)),
        Some(_) => Err(MapperError::InvalidApiVersion(api_version.to_owned())),
    }
}

/// A resource that serves a kind in one version. Prints as `resource.group`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// Empty for the core group.
    pub group: Arc<str>,
    pub version: Arc<str>,
    pub kind: Arc<str>,
    /// The plural name in URLs.
    pub resource: Arc<str>,
    pub namespaced: bool,
}

impl Mapping {
    /// The path of an object. It has the namespace even if the resource is cluster-scoped.
    pub(super) fn object_path(&self, namespace: &str, name: &str) -> String {
        let root = api_root(&self.group, &self.version);
        let resource = percent_encode(&self.resource);
        let (namespace, name) = (percent_encode(namespace), percent_encode(name));
        format!("{root}/namespaces/{namespace}/{resource}/{name}")
    }

    /// Whether the kind has replicas and selector at the same paths as a Deployment. The paths of a
    /// custom resource are in its definition, and may change.
    pub(crate) fn is_builtin_workload(&self) -> bool {
        &*self.group == "apps"
            && matches!(&*self.resource, "deployments" | "statefulsets" | "replicasets")
    }
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

/// The path prefix of the resources of a group and version.
pub(super) fn api_root(group: &str, version: &str) -> String {
    let version = percent_encode(version);
    if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{}/{version}", percent_encode(group))
    }
}
