use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    Condition, ConditionStatus, ConditionType, CrossVersionObjectReference, MetricIdentifier,
    MetricSourceType, UnknownFields, condition::whole_seconds,
};
use crate::quantity::Quantity;

/// What was last decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HorizontalPodAutoscalerStatus {
    /// The generation of the spec that this was decided on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the scale was last written; whole seconds on the wire.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "whole_seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub last_scale_time: Option<Timestamp>,
    /// The target's `spec.replicas` when it was read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub current_replicas: i32,
    /// The replicas decided on.
    #[serde(default)]
    pub desired_replicas: i32,
    /// What the metrics read, in the order of `spec.metrics`.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub current_metrics: Vec<MetricStatus>,
    /// The conditions, in the order they first came up.
    #[serde(
        default,
        deserialize_with = "super::null_as_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub conditions: Vec<Condition>,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

impl HorizontalPodAutoscalerStatus {
    /// The condition of this type, if it ever came up.
    pub fn condition(&self, condition_type: &ConditionType) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.condition_type == *condition_type)
    }

    /// Whether the condition of this type is `True`.
    pub fn is_true(&self, condition_type: &ConditionType) -> bool {
        self.condition(condition_type)
            .is_some_and(|condition| condition.status == ConditionStatus::True)
    }
}

// The signature serde asks for.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// What one metric read; exactly the member named by `type` is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct MetricStatus {
    /// Which member is set.
    #[serde(default, rename = "type")]
    pub source_type: MetricSourceType,
    /// A metric of one Kubernetes object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<Box<ObjectMetricStatus>>,
    /// A custom metric of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<Box<PodsMetricStatus>>,
    /// A resource of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<Box<ResourceMetricStatus>>,
    /// A resource of one container in each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_resource: Option<Box<ContainerResourceMetricStatus>>,
    /// A metric that belongs to no Kubernetes object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<Box<ExternalMetricStatus>>,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// A metric's value as it was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct MetricValueStatus {
    /// The value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Quantity>,
    /// The average over pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_value: Option<Quantity>,
    /// The average over pods, in percent of their requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_utilization: Option<i32>,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// What a metric of one Kubernetes object read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ObjectMetricStatus {
    /// The metric.
    #[serde(default)]
    pub metric: MetricIdentifier,
    /// Its value.
    #[serde(default)]
    pub current: MetricValueStatus,
    /// The object it describes.
    #[serde(default)]
    pub described_object: CrossVersionObjectReference,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// What a custom metric of each pod read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PodsMetricStatus {
    /// The metric.
    #[serde(default)]
    pub metric: MetricIdentifier,
    /// Its average.
    #[serde(default)]
    pub current: MetricValueStatus,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// What a resource of each pod read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResourceMetricStatus {
    /// The resource's name.
    #[serde(default)]
    pub name: String,
    /// Its average.
    #[serde(default)]
    pub current: MetricValueStatus,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// What a resource of one container in each pod read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ContainerResourceMetricStatus {
    /// The resource's name.
    #[serde(default)]
    pub name: String,
    /// The container's name.
    #[serde(default)]
    pub container: String,
    /// Its average.
    #[serde(default)]
    pub current: MetricValueStatus,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// What a metric that belongs to no Kubernetes object read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExternalMetricStatus {
    /// The metric.
    #[serde(default)]
    pub metric: MetricIdentifier,
    /// Its value.
    #[serde(default)]
    pub current: MetricValueStatus,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}
