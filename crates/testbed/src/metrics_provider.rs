//! The source of the metrics in the metrics APIs.

use std::collections::BTreeMap;

use hpa_calc::selector::Selector;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::ApiError;

pub(crate) const RESOURCE: &str = "metrics.k8s.io";
pub(crate) const CUSTOM: &str = "custom.metrics.k8s.io";
pub(crate) const EXTERNAL: &str = "external.metrics.k8s.io";

/// The served groups and versions: the newest version of each metrics API, and
/// `metrics.k8s.io/v1beta1`.
pub(crate) const SERVED_APIS: &[(&str, &str)] =
    &[(RESOURCE, "v1"), (RESOURCE, "v1beta1"), (CUSTOM, "v1beta2"), (EXTERNAL, "v1beta1")];

/// Provides the data of the metrics APIs, in place of metrics-server and metrics adapters.
pub trait MetricsProvider: Send + Sync {
    /// The metrics of a group in discovery: `RESOURCE/METRIC` for custom metrics. Most adapters
    /// list all metrics, KEDA lists none.
    fn listed_metrics(&self, _group: &str) -> Vec<String> {
        Vec::new()
    }

    /// Resource usage of pods (`metrics.k8s.io`).
    fn pods(&self, _query: &PodMetricsQuery) -> Result<Vec<PodMetrics>, ApiError> {
        Ok(Vec::new())
    }

    /// A metric that describes objects (`custom.metrics.k8s.io`).
    fn custom(&self, _query: &CustomMetricQuery) -> Result<Vec<CustomMetric>, ApiError> {
        Ok(Vec::new())
    }

    /// A metric without an object (`external.metrics.k8s.io`).
    fn external(&self, _query: &ExternalMetricQuery) -> Result<Vec<ExternalMetric>, ApiError> {
        Ok(Vec::new())
    }
}

/// A query for the resource usage of pods.
#[derive(Clone, Debug)]
pub struct PodMetricsQuery {
    /// Empty for all namespaces.
    pub namespace: String,
    pub selector: Selector,
    /// Namespace and name of the stored pods that match.
    pub pods: Vec<(String, String)>,
}

/// Resource usage of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodMetrics {
    pub namespace: String,
    pub name: String,
    /// End of the measured window. If empty, the current time.
    pub timestamp: String,
    /// Length of the measured window, such as `30s`.
    pub window: String,
    /// Quantities by container and resource.
    pub containers: BTreeMap<String, BTreeMap<String, String>>,
}

/// A query for a metric that describes objects.
#[derive(Clone, Debug)]
pub struct CustomMetricQuery {
    /// Empty for cluster-scoped objects. For a namespace, its name.
    pub namespace: String,
    /// Such as `pods` or `deployments.apps`.
    pub resource: String,
    /// The object's name, or `*` for all that match `selector`.
    pub name: String,
    pub selector: Selector,
    pub metric: String,
    pub metric_selector: Selector,
    /// If `resource` is `pods`: namespace and name of the stored pods that match `selector`,
    /// regardless of `name`.
    pub pods: Vec<(String, String)>,
}

/// The value of a metric for one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomMetric {
    /// Reference with `apiVersion`, `kind`, `namespace` and `name`.
    pub described_object: Value,
    /// A quantity.
    pub value: String,
    /// If empty, the current time.
    pub timestamp: String,
    pub window_seconds: Option<i64>,
}

/// A query for a metric without an object.
#[derive(Clone, Debug)]
pub struct ExternalMetricQuery {
    pub namespace: String,
    pub metric: String,
    pub selector: Selector,
}

/// The value of one time series of an external metric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalMetric {
    pub metric_name: String,
    pub metric_labels: BTreeMap<String, String>,
    /// If empty, the current time.
    pub timestamp: String,
    /// A quantity.
    pub value: String,
}

pub(crate) fn is_metrics_group(group: &str) -> bool {
    [RESOURCE, CUSTOM, EXTERNAL].contains(&group)
}

/// The fixed resources of a metrics API in discovery: `pods` in `metrics.k8s.io`, otherwise none.
pub(crate) fn resources(group: &str) -> Vec<Value> {
    if group != RESOURCE {
        return Vec::new();
    }
    vec![json!({
        "name": "pods", "singularName": "pod", "namespaced": true, "kind": "PodMetrics",
        "verbs": ["get", "list"],
    })]
}
