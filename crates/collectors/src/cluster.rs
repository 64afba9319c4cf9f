//! Objects of the cluster that collectors read.

use std::{collections::BTreeMap, error::Error, sync::Arc};

use async_trait::async_trait;
use hpa_calc::api::CrossVersionObjectReference;
pub use hpa_metrics::objects::Pod;

/// Looks up objects, from caches or at the API server.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// The pods that the target's selector matches, including unready and terminating ones. An
    /// empty selector matches none.
    async fn pods(
        &self,
        namespace: &str,
        target: &CrossVersionObjectReference,
    ) -> Result<Vec<Pod>, LookupError>;

    /// `status.replicas` of the target.
    async fn replicas(
        &self,
        namespace: &str,
        target: &CrossVersionObjectReference,
    ) -> Result<i32, LookupError>;

    async fn ingress(&self, namespace: &str, name: &str) -> Result<Ingress, LookupError>;

    async fn route_group(&self, namespace: &str, name: &str) -> Result<RouteGroup, LookupError>;
}

/// The parts of an Ingress that a query depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ingress {
    /// `spec.rules[].host`
    pub hosts: Vec<String>,
    /// The annotations, which may contain weights of backends.
    pub annotations: BTreeMap<String, String>,
}

/// The parts of a `RouteGroup` that a query depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteGroup {
    /// `spec.hosts`
    pub hosts: Vec<String>,
    /// The name and the weight of each `spec.defaultBackends[]`. A missing weight is 0.
    pub default_backends: Vec<(String, i64)>,
}

/// A failed lookup.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    #[error("{kind} {namespace}/{name} not found")]
    NotFound { kind: String, namespace: String, name: String },
    /// The request to the API server failed.
    #[error("unable to read {kind} {namespace}/{name}")]
    Request { kind: String, namespace: String, name: String, source: Arc<dyn Error + Send + Sync> },
    #[error("the cache of {0} has not synced yet")]
    NotSynced(&'static str),
}
