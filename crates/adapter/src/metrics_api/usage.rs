//! The objects and lists of `metrics.k8s.io`.

use std::time::Duration;

use hpa_calc::Quantity;
use hpa_metrics::wire::ItemLabels;
use jiff::Timestamp;
use serde::{Serialize, Serializer, ser::SerializeStruct};

use crate::metrics_api::{
    duration::GoDuration,
    values::{Seconds, list},
};

pub(crate) const API_VERSION: &str = "metrics.k8s.io/v1beta1";

/// The metadata of a pod or node.
#[derive(Clone, Copy, Debug)]
pub struct Metadata<'a> {
    /// The name.
    pub name: &'a str,
    /// The namespace. It is empty for nodes.
    pub namespace: &'a str,
    /// When the metrics object was created, which is when it was requested.
    pub creation_timestamp: Timestamp,
    /// The labels of the pod or node.
    pub labels: &'a ItemLabels,
}

/// CPU and memory usage, as far as it was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Usage {
    /// CPU, in cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Quantity>,
    /// Memory, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
}

/// The usage of a container.
#[derive(Clone, Debug, Serialize)]
pub struct Container<'a> {
    /// The name.
    pub name: &'a str,
    /// The usage.
    pub usage: Usage,
}

/// The usage of a pod or node.
#[derive(Clone, Debug)]
pub struct Metrics<'a> {
    /// The metadata.
    pub metadata: Metadata<'a>,
    /// When the usage was measured.
    pub timestamp: Timestamp,
    /// The time over which it was measured.
    pub window: Duration,
    /// The values.
    pub values: Values<'a>,
}

/// The values of a pod or a node.
#[derive(Clone, Debug)]
pub enum Values<'a> {
    /// Those of a pod, by container.
    Pod(Vec<Container<'a>>),
    /// Those of a node.
    Node(Usage),
}

/// The kind of the described objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsKind {
    /// `PodMetrics`
    Pods,
    /// `NodeMetrics`
    Nodes,
}

impl MetricsKind {
    /// The kind of an object.
    pub const fn object(self) -> &'static str {
        match self {
            Self::Pods => "PodMetrics",
            Self::Nodes => "NodeMetrics",
        }
    }

    /// The kind of a list.
    pub const fn list(self) -> &'static str {
        match self {
            Self::Pods => "PodMetricsList",
            Self::Nodes => "NodeMetricsList",
        }
    }
}

/// A list of metrics. It serializes to the body of a response.
#[derive(Clone, Debug)]
pub struct MetricsList<'a> {
    /// The kind.
    pub kind: MetricsKind,
    /// The items.
    pub items: Vec<Metrics<'a>>,
}

/// The metrics of a single object. It serializes to the body of a response.
#[derive(Clone, Debug)]
pub struct MetricsObject<'a> {
    /// The kind.
    pub kind: MetricsKind,
    /// The metrics.
    pub metrics: Metrics<'a>,
}

impl Serialize for Metadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut metadata = serializer.serialize_struct("ObjectMeta", 4)?;
        metadata.serialize_field("name", self.name)?;
        if !self.namespace.is_empty() {
            metadata.serialize_field("namespace", self.namespace)?;
        }
        metadata.serialize_field("creationTimestamp", &Seconds(self.creation_timestamp))?;
        if !self.labels.is_empty() {
            metadata.serialize_field("labels", self.labels)?;
        }
        metadata.end()
    }
}

impl Metrics<'_> {
    /// The window as the API prints it.
    pub(crate) fn window_text(&self) -> String {
        GoDuration(self.window).to_string()
    }

    /// Serializes the metrics, with their kind if they are not part of a list.
    fn encode<S: Serializer>(
        &self,
        serializer: S,
        kind: Option<MetricsKind>,
    ) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Metrics", 6)?;
        if let Some(kind) = kind {
            object.serialize_field("kind", kind.object())?;
            object.serialize_field("apiVersion", API_VERSION)?;
        }
        object.serialize_field("metadata", &self.metadata)?;
        object.serialize_field("timestamp", &Seconds(self.timestamp))?;
        object.serialize_field("window", &self.window_text())?;
        match &self.values {
            Values::Pod(containers) => object.serialize_field("containers", containers)?,
            Values::Node(usage) => object.serialize_field("usage", usage)?,
        }
        object.end()
    }
}

impl Serialize for Metrics<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.encode(serializer, None)
    }
}

impl Serialize for MetricsObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.metrics.encode(serializer, Some(self.kind))
    }
}

impl Serialize for MetricsList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        list(serializer, self.kind.list(), API_VERSION, &self.items)
    }
}
