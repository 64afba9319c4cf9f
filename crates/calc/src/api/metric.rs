use serde::{Deserialize, Serialize};

use super::{UnknownFields, open_enum::open_enum};
use crate::{quantity::Quantity, selector::LabelSelector};

open_enum! {
    /// Where a metric comes from (`type` of a metric spec).
    MetricSourceType {
        /// A resource of one container in each pod.
        ContainerResource = "ContainerResource",
        /// A metric that belongs to no Kubernetes object.
        External = "External",
        /// A metric of one Kubernetes object.
        Object = "Object",
        /// A custom metric of each pod.
        Pods = "Pods",
        /// A resource of each pod.
        Resource = "Resource",
    }
}

open_enum! {
    /// What a target is compared with.
    MetricTargetType {
        /// The average over pods.
        AverageValue = "AverageValue",
        /// A percentage of the requests.
        Utilization = "Utilization",
        /// The value as it is.
        Value = "Value",
    }
}

/// One metric to scale on; exactly the member named by `type` is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct MetricSpec {
    /// Which member is set.
    #[serde(default, rename = "type")]
    pub source_type: MetricSourceType,
    /// A metric of one Kubernetes object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<Box<ObjectMetricSource>>,
    /// A custom metric of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<Box<PodsMetricSource>>,
    /// A resource of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<Box<ResourceMetricSource>>,
    /// A resource of one container in each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_resource: Option<Box<ContainerResourceMetricSource>>,
    /// A metric that belongs to no Kubernetes object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<Box<ExternalMetricSource>>,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

impl MetricSpec {
    /// The name of the metric, or of the resource; empty if the member that `type` names is not set.
    pub fn metric_name(&self) -> &str {
        let name = match self.source_type {
            MetricSourceType::Resource => self.resource.as_ref().map(|source| &source.name),
            MetricSourceType::ContainerResource => {
                self.container_resource.as_ref().map(|source| &source.name)
            }
            MetricSourceType::Pods => self.pods.as_ref().map(|source| &source.metric.name),
            MetricSourceType::Object => self.object.as_ref().map(|source| &source.metric.name),
            MetricSourceType::External => self.external.as_ref().map(|source| &source.metric.name),
            MetricSourceType::Other(_) => None,
        };
        name.map_or("", String::as_str)
    }
}

/// Names an object of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CrossVersionObjectReference {
    /// The kind, as in the API.
    #[serde(default)]
    pub kind: String,
    /// The object's name.
    #[serde(default)]
    pub name: String,
    /// `group/version`, or `version` for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// A metric's name, and optionally a selector over its series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct MetricIdentifier {
    /// The metric's name.
    #[serde(default)]
    pub name: String,
    /// Selects series of the metric; unset: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// What a metric is to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct MetricTarget {
    /// What the metric is compared with. The API does not check it against the member that is set.
    #[serde(default, rename = "type")]
    pub target_type: MetricTargetType,
    /// A target for the value as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Quantity>,
    /// A target for the average over pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_value: Option<Quantity>,
    /// A target for the average over pods, in percent of their requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_utilization: Option<i32>,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// A metric of one Kubernetes object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ObjectMetricSource {
    /// The object the metric describes.
    #[serde(default)]
    pub described_object: CrossVersionObjectReference,
    /// The metric.
    #[serde(default)]
    pub metric: MetricIdentifier,
    /// `value` or `averageValue`.
    #[serde(default)]
    pub target: MetricTarget,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// A custom metric of each pod, averaged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PodsMetricSource {
    /// The metric.
    #[serde(default)]
    pub metric: MetricIdentifier,
    /// `averageValue`.
    #[serde(default)]
    pub target: MetricTarget,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// A resource (cpu, memory, …) of each pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResourceMetricSource {
    /// The resource's name.
    #[serde(default)]
    pub name: String,
    /// `averageUtilization` or `averageValue`.
    #[serde(default)]
    pub target: MetricTarget,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// A resource of one container in each pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ContainerResourceMetricSource {
    /// The resource's name.
    #[serde(default)]
    pub name: String,
    /// `averageUtilization` or `averageValue`.
    #[serde(default)]
    pub target: MetricTarget,
    /// The container's name.
    #[serde(default)]
    pub container: String,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// A metric that belongs to no Kubernetes object, for example a queue's length at a provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExternalMetricSource {
    /// The metric.
    #[serde(default)]
    pub metric: MetricIdentifier,
    /// `value` or `averageValue`.
    #[serde(default)]
    pub target: MetricTarget,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}
