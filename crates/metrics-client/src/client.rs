//! What an autoscaler asks.

use async_trait::async_trait;
use hpa_calc::{
    MilliValue,
    api::{CrossVersionObjectReference, ResourceName},
    readings::{MetricQuery, PodSamples, ReadError, Reading},
    selector::Selector,
};

/// The metrics APIs, one question of an autoscaler at a time. All values are in milli-units.
///
/// Errors are those of the reference controller: [`ReadError::Fetch`] if the request failed, [`ReadError::Empty`]
/// if the answer has no item.
#[async_trait]
pub trait MetricsClient: Send + Sync {
    /// metrics.k8s.io: the use of a resource by each selected pod, or by one container of each.
    async fn resource(
        &self,
        namespace: &str,
        pods: &Selector,
        resource: &ResourceName,
        container: Option<&str>,
    ) -> Result<PodSamples, ReadError>;

    /// custom.metrics.k8s.io: a metric of each selected pod.
    async fn pods(
        &self,
        namespace: &str,
        pods: &Selector,
        metric: &str,
        metric_selector: &Selector,
    ) -> Result<PodSamples, ReadError>;

    /// custom.metrics.k8s.io: a metric of one object; of kind Namespace it stands for `namespace` itself.
    async fn object(
        &self,
        namespace: &str,
        object: &CrossVersionObjectReference,
        metric: &str,
        metric_selector: &Selector,
    ) -> Result<MilliValue, ReadError>;

    /// external.metrics.k8s.io: the value of each selected series of a metric.
    async fn external(
        &self,
        namespace: &str,
        metric: &str,
        metric_selector: &Selector,
    ) -> Result<Vec<MilliValue>, ReadError>;

    /// Answers a query of a plan. `pods` selects the pods of the scale target; it plays no part for objects and
    /// external metrics.
    async fn read(
        &self,
        namespace: &str,
        pods: &Selector,
        query: &MetricQuery,
    ) -> Result<Reading, ReadError> {
        Ok(match query {
            MetricQuery::Resource { resource, container } => {
                Reading::Pods(self.resource(namespace, pods, resource, container.as_deref()).await?)
            }
            MetricQuery::Pods { metric, metric_selector } => {
                Reading::Pods(self.pods(namespace, pods, metric, metric_selector).await?)
            }
            MetricQuery::Object { object, metric, metric_selector } => {
                Reading::Object(self.object(namespace, object, metric, metric_selector).await?)
            }
            MetricQuery::External { metric, metric_selector } => {
                Reading::External(self.external(namespace, metric, metric_selector).await?)
            }
        })
    }
}
