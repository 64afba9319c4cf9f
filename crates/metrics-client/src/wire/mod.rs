//! What the metrics APIs answer: only the fields that a reading is made of.
//!
//! The types read every version of an API. They are as lenient as the reference controller's decoder: unknown
//! fields, absent fields and `null` lists are fine, a quantity, time or duration that does not parse spoils the
//! answer. Unlike fixed structs, a container may report any set of resources; one without memory spoils nothing.

mod duration;
mod field;
mod list;
mod reduce;
#[cfg(test)]
mod tests;

use hpa_calc::MilliValue;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};

pub use duration::{DurationError, parse_duration};
pub use field::{ItemLabels, Usage};
pub use list::decode_list;
pub use reduce::{DEFAULT_WINDOW, external_values, object_value, pod_samples, resource_samples};

/// Why an answer could not be read.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// It is not JSON of the expected shape, or holds a value that does not parse.
    #[error("cannot decode {kind}")]
    Json {
        /// The list that was asked for.
        kind: &'static str,
        /// Where and why.
        source: serde_json::Error,
    },
    /// It is another list, or none.
    #[error("the server didn't return {expected}, the type is {found}")]
    Kind {
        /// The list that was asked for.
        expected: &'static str,
        /// The kind that came.
        found: Box<str>,
    },
    /// It is a failure, though the HTTP status said success.
    #[error("{0}")]
    Failure(Box<str>),
}

/// An item of a metrics API's list.
pub trait ListItem: DeserializeOwned {
    /// The kind of the list.
    const LIST_KIND: &'static str;

    /// Takes what it has in common with the item before it from there, so that it is kept once.
    fn share(&mut self, before: &Self) {
        _ = before;
    }
}

/// metrics.k8s.io (v1, v1beta1): what the containers of one pod use.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PodMetrics {
    /// The pod's name and labels.
    #[serde(default, deserialize_with = "field::null_as_empty")]
    pub metadata: ItemMeta,
    /// The end of the window.
    #[serde(default = "field::zero_time", deserialize_with = "field::time")]
    pub timestamp: Timestamp,
    /// The length of the window.
    #[serde(default, deserialize_with = "field::duration")]
    pub window: SignedDuration,
    /// The containers that have metrics.
    #[serde(default, deserialize_with = "field::few")]
    pub containers: Vec<ContainerMetrics>,
}

/// The metadata of [`PodMetrics`] that is read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ItemMeta {
    /// The pod's name.
    #[serde(default, deserialize_with = "field::null_as_empty")]
    pub name: Box<str>,
    /// The pod's labels. Servers that do not copy them leave them empty.
    #[serde(default)]
    pub labels: ItemLabels,
}

/// What one container uses.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ContainerMetrics {
    /// The container's name.
    #[serde(default, deserialize_with = "field::null_as_empty")]
    pub name: Box<str>,
    /// Its use by resource.
    #[serde(default)]
    pub usage: Usage,
}

impl ListItem for PodMetrics {
    const LIST_KIND: &'static str = "PodMetricsList";

    fn share(&mut self, before: &Self) {
        // Lists are sorted by name: before a pod come others of its workload.
        if self.metadata.labels == before.metadata.labels {
            self.metadata.labels = before.metadata.labels.clone();
        }
    }
}

/// custom.metrics.k8s.io (v1beta2, v1beta1): the value of a metric of one object.
///
/// The metric's name and selector, which the versions spell differently, are not read: they repeat the request.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricValue {
    /// The described object's name.
    pub object: Box<str>,
    /// The end of the window.
    pub timestamp: Timestamp,
    /// The length of the window in seconds: `windowSeconds` in v1beta2, `window` in v1beta1.
    pub window_seconds: Option<i64>,
    /// The value in milli-units, rounded up.
    pub value: MilliValue,
}

impl<'de> Deserialize<'de> for MetricValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        struct Described {
            #[serde(default, deserialize_with = "field::null_as_empty")]
            name: Box<str>,
        }

        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Raw {
            #[serde(default, deserialize_with = "field::null_as_empty")]
            described_object: Described,
            #[serde(default = "field::zero_time", deserialize_with = "field::time")]
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
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalMetricValue {
    /// The labels of the series.
    pub labels: ItemLabels,
    /// When the value was measured.
    pub timestamp: Timestamp,
    /// The value in milli-units, rounded up.
    pub value: MilliValue,
}

impl<'de> Deserialize<'de> for ExternalMetricValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Raw {
            #[serde(default)]
            metric_labels: ItemLabels,
            #[serde(default = "field::zero_time", deserialize_with = "field::time")]
            timestamp: Timestamp,
            #[serde(default)]
            value: field::Milli,
        }

        let raw = Raw::deserialize(deserializer)?;
        Ok(Self { labels: raw.metric_labels, timestamp: raw.timestamp, value: raw.value.0 })
    }
}

impl ListItem for ExternalMetricValue {
    const LIST_KIND: &'static str = "ExternalMetricValueList";
}
