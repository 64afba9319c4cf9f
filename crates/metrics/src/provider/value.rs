//! Answers: values of metrics, each with its time and where it comes from.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::resource::GroupResource;
use hpa_calc::Quantity;
use jiff::Timestamp;

use crate::provider::{error::ProviderError, request::ObjectKey};

/// A value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The value.
    pub quantity: Quantity,
    /// When it was measured.
    pub timestamp: Timestamp,
    /// The time over which it was measured, if that is known.
    pub window: Option<Duration>,
}

/// Where values come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The rule or the collector, such as `rules[0]`.
    pub rule: String,
    /// The server that was asked.
    pub server: String,
    /// The series that the metric is made of.
    pub series: String,
    /// The query that was sent.
    pub query: String,
}

/// The values of a custom metric.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomValues {
    /// The kind of the objects.
    pub object_kind: ObjectKind,
    /// The values, in the order of the objects' list.
    pub items: Vec<CustomValue>,
    /// Objects whose sample is no value. By-name requests fail instead.
    pub omitted: Vec<Omitted>,
    /// Where the values come from.
    pub origin: Arc<Origin>,
}

/// The kind of the described objects, as the API server's discovery has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectKind {
    /// The resource, resolved.
    pub resource: GroupResource,
    /// The preferred version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

/// The value of a custom metric of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomValue {
    /// The object. Its namespace is that of the request.
    pub object: ObjectKey,
    /// The value.
    pub value: Value,
}

/// A sample that is no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Omitted {
    /// The object, or the labels of the series, for messages.
    pub what: String,
    /// Why it is no value.
    pub reason: NoValue,
}

/// The values of an external metric.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalValues {
    /// The values, in the order of the result.
    pub items: Vec<ExternalValue>,
    /// Series whose sample is no value.
    pub omitted: Vec<Omitted>,
    /// Where the values come from.
    pub origin: Arc<Origin>,
}

/// A value of an external metric.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalValue {
    /// The labels of the series. `None` for a scalar, which the API encodes as `null`.
    pub labels: Option<BTreeMap<String, String>>,
    /// The value.
    pub value: Value,
}

/// The usage of pods or nodes, as far as it could be read.
#[derive(Clone, Debug)]
pub struct Usage<T> {
    /// The objects that have a usage, in the order of the request.
    pub items: Vec<T>,
    /// Queries that failed. Their objects are missing among the items.
    pub failures: Vec<ProviderError>,
}

impl<T> Default for Usage<T> {
    fn default() -> Self {
        Self { items: Vec::new(), failures: Vec::new() }
    }
}

/// The usage of the containers of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodUsage {
    /// The pod.
    pub pod: ObjectKey,
    /// The usage of each container, by its name.
    pub containers: BTreeMap<String, UsageValues>,
    /// The time of the earliest sample.
    pub timestamp: Timestamp,
    /// The time over which usage was measured.
    pub window: Duration,
}

/// The usage of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeUsage {
    /// The name of the node.
    pub node: String,
    /// The usage.
    pub values: UsageValues,
    /// The time of the earlier sample.
    pub timestamp: Timestamp,
    /// The time over which usage was measured.
    pub window: Duration,
}

/// A custom metric as discovery lists it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedCustomMetric {
    /// The resource of the objects that have the metric.
    pub resource: GroupResource,
    /// The name of the metric.
    pub metric: String,
    /// Whether the metric is read in a namespace.
    pub is_namespaced: bool,
}

/// An external metric as discovery lists it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedExternalMetric {
    /// The name of the metric.
    pub metric: String,
    /// Whether the values depend on the namespace. The reference lists all as namespaced.
    pub is_namespaced: bool,
}

/// The usage of a container or a node.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageValues {
    /// CPU usage in cores.
    pub cpu: Quantity,
    /// Memory usage in bytes.
    pub memory: Quantity,
}

/// Why a sample has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoValue {
    /// The result of a calculation without a result, such as 0 / 0.
    #[error("the sample is not a number (NaN)")]
    NotANumber,
    /// The result of a division by zero.
    #[error("the sample is infinite")]
    Infinite,
    /// More than 64 bits in thousandths.
    #[error("the sample is out of range")]
    OutOfRange,
}
