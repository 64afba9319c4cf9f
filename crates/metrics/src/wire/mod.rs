//! Items of responses with the fields that readings need, and their conversion to readings.
//!
//! The types decode every supported version of an API. Like the decoder of the reference
//! controller, they accept unknown fields, absent fields and `null` lists. An invalid quantity,
//! time or duration makes the whole response undecodable. A container may report any set of
//! resources, so a container without memory is not an error.
//!
//! If an object has two members with the same name, the reference takes the last one. The maps of
//! this module (labels, usage) do the same, but a known field that occurs twice is an error: no
//! server sends it, and the values may differ. The values of unknown members are only checked for
//! syntax.

mod field;
mod list;
mod reduce;
#[cfg(test)]
mod tests;

use hpa_calc::MilliValue;
pub use hpa_calc::go_duration::{DurationError, parse as parse_duration};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};

use crate::ObjectKey;

pub use field::{ItemLabels, Usage};
pub use list::decode_list;
pub use reduce::{external_values, object_value, pod_samples, resource_samples};

/// The error of decoding a response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The response is not JSON of the expected structure, or has an invalid value.
    #[error("cannot decode {kind}")]
    Json {
        /// The kind of the requested list, or `APIGroup` for a discovery.
        kind: &'static str,
        /// The cause, with its position.
        source: serde_json::Error,
    },
    /// The response has another kind than the requested list.
    #[error("the server didn't return {expected}, the type is {found}")]
    Kind {
        /// The kind of the requested list.
        expected: &'static str,
        /// The kind of the response.
        found: Box<str>,
    },
    /// The response is a Status object, although the HTTP status was successful. The text is its
    /// message.
    #[error("{0}")]
    Failure(Box<str>),
}

/// An item of a list of a metrics API.
pub trait ListItem: DeserializeOwned {
    /// The kind of the list.
    const LIST_KIND: &'static str;

    /// Shares the memory of parts that are equal in the previous item.
    fn share_memory_with(&mut self, _previous: &Self) {}
}

/// metrics.k8s.io (v1, v1beta1): the usage of the containers of one pod.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PodMetrics {
    /// The pod's name and labels.
    #[serde(default, deserialize_with = "field::object_or_default")]
    pub metadata: ItemMeta,
    /// The end of the window.
    #[serde(default = "field::zero_time", deserialize_with = "field::timestamp")]
    pub timestamp: Timestamp,
    /// The length of the window.
    #[serde(default, deserialize_with = "field::duration")]
    pub window: SignedDuration,
    /// The containers with metrics.
    #[serde(default, deserialize_with = "field::compact_list")]
    pub containers: Vec<ContainerMetrics>,
}

/// The metadata of [`PodMetrics`] and [`NodeMetrics`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ItemMeta {
    /// The name of the pod or node.
    #[serde(default, deserialize_with = "field::null_as_default")]
    pub name: Box<str>,
    /// The namespace of the pod. Empty in decoded items, because a query of an autoscaler has only
    /// one namespace.
    #[serde(skip)]
    pub namespace: Box<str>,
    /// The labels of the pod or node. Empty if the server does not copy them.
    #[serde(default)]
    pub labels: ItemLabels,
}

/// The usage of one container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ContainerMetrics {
    /// The container's name.
    #[serde(default, deserialize_with = "field::null_as_default")]
    pub name: Box<str>,
    /// The usage by resource.
    #[serde(default)]
    pub usage: Usage,
}

/// metrics.k8s.io (v1, v1beta1): the usage of one node.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct NodeMetrics {
    /// The node's name and labels.
    #[serde(default, deserialize_with = "field::object_or_default")]
    pub metadata: ItemMeta,
    /// The end of the window.
    #[serde(default = "field::zero_time", deserialize_with = "field::timestamp")]
    pub timestamp: Timestamp,
    /// The length of the window.
    #[serde(default, deserialize_with = "field::duration")]
    pub window: SignedDuration,
    /// The usage by resource.
    #[serde(default)]
    pub usage: Usage,
}

impl ItemMeta {
    /// The namespace and the name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.name)
    }
}

impl ListItem for NodeMetrics {
    const LIST_KIND: &'static str = "NodeMetricsList";
}

impl ListItem for PodMetrics {
    const LIST_KIND: &'static str = "PodMetricsList";

    fn share_memory_with(&mut self, previous: &Self) {
        // Lists are sorted by name, so the previous pod usually belongs to the same workload.
        if self.metadata.labels == previous.metadata.labels {
            self.metadata.labels = previous.metadata.labels.clone();
        }
    }
}

/// custom.metrics.k8s.io (v1beta2, v1beta1): the value of a metric of one object.
///
/// The metric's name and selector are not decoded, because they repeat the request.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricValue {
    /// The name of the described object.
    pub object: Box<str>,
    /// The end of the window.
    pub timestamp: Timestamp,
    /// The length of the window in seconds: `windowSeconds` in v1beta2, `window` in v1beta1.
    pub window_seconds: Option<i64>,
    /// The value, rounded up to milli-units.
    pub value: MilliValue,
}

impl<'de> Deserialize<'de> for MetricValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        struct Described {
            #[serde(default, deserialize_with = "field::null_as_default")]
            name: Box<str>,
        }

        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Raw {
            #[serde(default, deserialize_with = "field::object_or_default")]
            described_object: Described,
            #[serde(default = "field::zero_time", deserialize_with = "field::timestamp")]
            timestamp: Timestamp,
            #[serde(default)]
            window_seconds: Option<i64>,
            #[serde(default)]
            window: Option<i64>,
            #[serde(default)]
            value: field::Milli,
        }

        let raw = Raw::deserialize(deserializer)?;
        Ok(Self {
            object: raw.described_object.name,
            timestamp: raw.timestamp,
            window_seconds: raw.window_seconds.or(raw.window),
            value: raw.value.0,
        })
    }
}

impl ListItem for MetricValue {
    const LIST_KIND: &'static str = "MetricValueList";
}

/// external.metrics.k8s.io (v1beta1): the value of one series.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ExternalMetricValue {
    /// The labels of the series. `None` for a scalar, which the API encodes as `null`.
    #[serde(default, rename = "metricLabels")]
    pub labels: Option<ItemLabels>,
    /// The time of the measurement.
    #[serde(default = "field::zero_time", deserialize_with = "field::timestamp")]
    pub timestamp: Timestamp,
    /// The value, rounded up to milli-units.
    #[serde(default, deserialize_with = "field::milli")]
    pub value: MilliValue,
}

impl ListItem for ExternalMetricValue {
    const LIST_KIND: &'static str = "ExternalMetricValueList";
}
