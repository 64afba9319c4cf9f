//! Where the items come from.

use async_trait::async_trait;
use hpa_calc::{api::CrossVersionObjectReference, selector::Selector};

use crate::{
    FetchError,
    wire::{ExternalMetricValue, MetricValue, PodMetrics},
};

/// The metrics APIs as they are: one call is one request, and the answer is the list's items.
///
/// A selector is sent by its canonical string, so [`Selector::nothing`], whose string is empty, asks for everything,
/// as it does in the reference controller.
#[async_trait]
pub trait MetricsSource: Send + Sync + 'static {
    /// metrics.k8s.io: what the containers of the selected pods use.
    async fn pod_metrics(
        &self,
        namespace: &str,
        pods: &Selector,
    ) -> Result<Vec<PodMetrics>, FetchError>;

    /// custom.metrics.k8s.io: a metric of each selected pod.
    async fn pod_values(
        &self,
        namespace: &str,
        pods: &Selector,
        metric: &str,
        metric_selector: &Selector,
    ) -> Result<Vec<MetricValue>, FetchError>;

    /// custom.metrics.k8s.io: a metric of one object. An object of kind Namespace and the core group stands for
    /// `namespace` itself, whatever it is called.
    async fn object_values(
        &self,
        namespace: &str,
        object: &CrossVersionObjectReference,
        metric: &str,
        metric_selector: &Selector,
    ) -> Result<Vec<MetricValue>, FetchError>;

    /// external.metrics.k8s.io: the selected series of a metric.
    async fn external_values(
        &self,
        namespace: &str,
        metric: &str,
        metric_selector: &Selector,
    ) -> Result<Vec<ExternalMetricValue>, FetchError>;
}
