//! The interface of providers.

use crate::resource::GroupResource;
use async_trait::async_trait;
use hpa_calc::Selector;

use crate::provider::{
    error::ProviderError,
    objects::ObjectLister,
    request::{CustomRequest, ExternalRequest, ObjectKey},
    value::{
        CustomValues, ExternalValues, ListedCustomMetric, ListedExternalMetric, NodeUsage,
        PodUsage, Usage,
    },
};

/// Answers requests for metrics.
///
/// The echo of the metric selector in an item belongs to the API's encoding, and so does the error
/// of the reference for an operator that the echo doesn't have (`!=`): it occurs only if there is
/// at least one item.
#[async_trait]
pub trait Provider: Send + Sync {
    /// The APIs that the provider has metrics for. It doesn't depend on what was discovered.
    fn groups(&self) -> ApiGroups;

    /// Whether the metrics were discovered, so that "not found" is an answer. If not, the problems
    /// that prevent it, for example by rule.
    fn readiness(&self) -> Result<(), Vec<String>>;

    /// Whether the provider has the custom metric. A look-up without I/O.
    fn has_custom(&self, resource: &GroupResource, is_namespaced: bool, metric: &str) -> bool;

    /// Whether the provider has the external metric. A look-up without I/O.
    fn has_external(&self, metric: &str) -> bool;

    /// Whether the provider answers a request, if its metrics depend on the namespace. A look-up
    /// without I/O.
    fn has_custom_in(&self, request: &CustomRequest) -> bool {
        self.has_custom(&request.resource, request.is_namespaced(), &request.metric)
    }

    /// Whether the provider answers a request, if its metrics depend on the namespace. A look-up
    /// without I/O.
    fn has_external_in(&self, request: &ExternalRequest) -> bool {
        self.has_external(&request.metric)
    }

    /// The custom metrics that discovery lists, sorted by metric and resource.
    fn custom_metrics(&self) -> Vec<ListedCustomMetric>;

    /// The external metrics that discovery lists, sorted by name.
    fn external_metrics(&self) -> Vec<ListedExternalMetric>;

    /// Reads a custom metric of the named object. The answer has exactly one item.
    async fn custom_by_name(
        &self,
        request: &CustomRequest,
        name: &str,
    ) -> Result<CustomValues, ProviderError>;

    /// Reads a custom metric of the selected objects. Objects without a value are missing in the
    /// answer.
    async fn custom_by_selector(
        &self,
        request: &CustomRequest,
        objects: &Selector,
    ) -> Result<CustomValues, ProviderError>;

    /// Reads an external metric.
    async fn external(&self, request: &ExternalRequest) -> Result<ExternalValues, ProviderError>;

    /// Reads the usage of pods.
    async fn pod_usage(&self, pods: &[ObjectKey]) -> Usage<PodUsage>;

    /// Reads the usage of nodes.
    async fn node_usage(&self, nodes: &[String]) -> Usage<NodeUsage>;

    /// The objects of the cluster that the provider selects from.
    fn objects(&self) -> &dyn ObjectLister;
}

/// Which of the metrics APIs there are metrics for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApiGroups {
    /// `custom.metrics.k8s.io`
    pub custom: bool,
    /// `external.metrics.k8s.io`
    pub external: bool,
    /// `metrics.k8s.io`
    pub resource: bool,
}
