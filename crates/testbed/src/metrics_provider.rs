//! Where the answers of the metrics APIs come from.

use std::collections::BTreeMap;

use hpa_calc::selector::Selector;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::ApiError;

pub(crate) const RESOURCE: &str = "metrics.k8s.io";
pub(crate) const CUSTOM: &str = "custom.metrics.k8s.io";
pub(crate) const EXTERNAL: &str = "external.metrics.k8s.io";

/// Knows metrics: the place of a metrics server and of the adapters.
pub trait MetricsProvider: Send + Sync {
    /// The groups and versions that are served; unless it says otherwise, all that a cluster may have.
    fn served(&self) -> Vec<(String, String)> {
        let all =
            [(RESOURCE, "v1"), (RESOURCE, "v1beta1"), (CUSTOM, "v1beta2"), (EXTERNAL, "v1beta1")];
        all.map(|(group, version)| (group.to_owned(), version.to_owned())).to_vec()
    }

    /// What the selected pods use (`metrics.k8s.io`).
    fn pods(&self, query: &PodMetricsQuery) -> Result<Vec<PodMetrics>, ApiError> {
        let _ = query;
        Ok(Vec::new())
    }

    /// A metric of objects (`custom.metrics.k8s.io`).
    fn custom(&self, query: &CustomMetricQuery) -> Result<Vec<CustomMetric>, ApiError> {
        let _ = query;
        Ok(Vec::new())
    }

    /// A metric of no object (`external.metrics.k8s.io`).
    fn external(&self, query: &ExternalMetricQuery) -> Result<Vec<ExternalMetric>, ApiError> {
        let _ = query;
        Ok(Vec::new())
    }
}

/// Asks for what pods use.
#[derive(Clone, Debug)]
pub struct PodMetricsQuery {
    /// The namespace, empty for all.
    pub namespace: String,
    /// The pods' labels.
    pub selector: Selector,
    /// The pods that the server has in this namespace and that match, by namespace and name.
    pub pods: Vec<(String, String)>,
}

/// What a pod uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodMetrics {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The end of the time over which the use was measured; empty: now.
    pub timestamp: String,
    /// How long that time was, such as `30s`.
    pub window: String,
    /// By container and resource a quantity.
    pub containers: BTreeMap<String, BTreeMap<String, String>>,
}

/// Asks for a metric of objects.
#[derive(Clone, Debug)]
pub struct CustomMetricQuery {
    /// The namespace, empty for objects of the cluster.
    pub namespace: String,
    /// The resource, such as `pods` or `deployments.apps`.
    pub resource: String,
    /// The object's name, `*` for those that `selector` selects.
    pub name: String,
    /// The objects' labels.
    pub selector: Selector,
    /// The metric.
    pub metric: String,
    /// The labels of the metric's series.
    pub metric_selector: Selector,
    /// If pods are asked for: those that the server has and that match.
    pub pods: Vec<(String, String)>,
}

/// A metric of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomMetric {
    /// The object: `apiVersion`, `kind`, `namespace`, `name`.
    pub described_object: Value,
    /// The value, a quantity.
    pub value: String,
    /// When it was measured; empty: now.
    pub timestamp: String,
    /// Over how many seconds.
    pub window_seconds: Option<i64>,
}

/// Asks for a metric of no object.
#[derive(Clone, Debug)]
pub struct ExternalMetricQuery {
    /// The namespace of who asks.
    pub namespace: String,
    /// The metric.
    pub metric: String,
    /// The labels of the metric's series.
    pub selector: Selector,
}

/// One series of a metric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalMetric {
    /// The metric.
    pub metric_name: String,
    /// The series' labels.
    pub metric_labels: BTreeMap<String, String>,
    /// When it was measured; empty: now.
    pub timestamp: String,
    /// The value, a quantity.
    pub value: String,
}

pub(crate) fn is_metrics_group(group: &str) -> bool {
    [RESOURCE, CUSTOM, EXTERNAL].contains(&group)
}

/// What discovery tells of a group's resources.
pub(crate) fn resources(group: &str) -> Vec<Value> {
    if group != RESOURCE {
        return Vec::new();
    }
    vec![json!({
        "name": "pods", "singularName": "pod", "namespaced": true, "kind": "PodMetrics", "verbs": ["get", "list"],
    })]
}
