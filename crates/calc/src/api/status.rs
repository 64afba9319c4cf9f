use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    Condition, ConditionStatus, ConditionType, CrossVersionObjectReference, MetricIdentifier,
    MetricSourceType, UnknownFields, condition::whole_seconds,
};
use crate::quantity::Quantity;

/// The result of the last reconcile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct HorizontalPodAutoscalerStatus {
    /// The `metadata.generation` that was reconciled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the scale was last written, in whole seconds on the wire.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "whole_seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub last_scale_time: Option<Timestamp>,
    /// The target's `spec.replicas` when the scale was read.
    #[serde(skip_serializing_if = "is_zero")]
    pub current_replicas: i32,
    /// The replicas of the last decision.
    pub desired_replicas: i32,
    /// The measured values, in the order of `spec.metrics`.
    #[serde(deserialize_with = "super::null_as_empty")]
    pub current_metrics: Vec<MetricStatus>,
    /// The conditions, in the order in which they were first set.
    #[serde(deserialize_with = "super::null_as_empty", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

impl HorizontalPodAutoscalerStatus {
    /// The condition of a type, if it is set.
    pub fn condition(&self, condition_type: &ConditionType) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.condition_type == *condition_type)
    }

    /// The condition of a type, if its status is `True`.
    pub fn true_condition(&self, condition_type: &ConditionType) -> Option<&Condition> {
        let condition = self.condition(condition_type);
        condition.filter(|condition| condition.status == ConditionStatus::True)
    }

    /// Whether the condition of a type is `True`.
    pub fn is_true(&self, condition_type: &ConditionType) -> bool {
        self.true_condition(condition_type).is_some()
    }

    /// The condition that prevents scaling, if there is one: `AbleToScale` or else `ScalingActive`
    /// is `False`.
    pub fn failed_condition(&self) -> Option<&Condition> {
        let types = [ConditionType::AbleToScale, ConditionType::ScalingActive];
        let mut conditions = types.iter().filter_map(|one| self.condition(one));
        conditions.find(|condition| condition.status == ConditionStatus::False)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// The measured value of one metric. The member that `type` names is set. A failed metric may have
/// none: kube-controller-manager stores an empty entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct MetricStatus {
    /// The source, which names the member that is set.
    #[serde(rename = "type")]
    pub source_type: MetricSourceType,
    /// A metric of one Kubernetes object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<Box<ObjectMetricStatus>>,
    /// A custom metric of each pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<Box<PodsMetricStatus>>,
    /// The usage of a resource by each pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<Box<ResourceMetricStatus>>,
    /// The usage of a resource by one container of each pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_resource: Option<Box<ContainerResourceMetricStatus>>,
    /// A metric from outside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<Box<ExternalMetricStatus>>,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

impl MetricStatus {
    /// The value of the member that is set, even if `type` names another. If several are set, the
    /// first in the order of this function counts.
    pub fn current(&self) -> Option<&MetricValueStatus> {
        let resource = self.resource.as_ref().map(|source| &source.current);
        let container = self.container_resource.as_ref().map(|source| &source.current);
        let pods = self.pods.as_ref().map(|source| &source.current);
        let object = self.object.as_ref().map(|source| &source.current);
        let external = self.external.as_ref().map(|source| &source.current);
        resource.or(container).or(pods).or(object).or(external)
    }
}

/// A measured value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct MetricValueStatus {
    /// The current value, not an average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Quantity>,
    /// The average over pods or replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_value: Option<Quantity>,
    /// The average over pods in percent of their requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_utilization: Option<i32>,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// The measured value of a metric of one Kubernetes object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMetricStatus {
    /// The metric's name and selector.
    pub metric: MetricIdentifier,
    /// The value.
    pub current: MetricValueStatus,
    /// The object that the metric describes.
    pub described_object: CrossVersionObjectReference,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// The measured value of a custom metric of each pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct PodsMetricStatus {
    /// The metric's name and selector.
    pub metric: MetricIdentifier,
    /// The average.
    pub current: MetricValueStatus,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// The measured usage of a resource by each pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceMetricStatus {
    /// The resource's name.
    pub name: String,
    /// The average.
    pub current: MetricValueStatus,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// The measured usage of a resource by one container of each pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerResourceMetricStatus {
    /// The resource's name.
    pub name: String,
    /// The container's name.
    pub container: String,
    /// The average.
    pub current: MetricValueStatus,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// The measured value of a metric from outside the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ExternalMetricStatus {
    /// The metric's name and selector.
    pub metric: MetricIdentifier,
    /// The value.
    pub current: MetricValueStatus,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}
