//! The API types that a decision reads and writes: autoscaling/v2 HorizontalPodAutoscaler, and of core/v1 Pod and
//! autoscaling/v1 Scale the little that matters.
//!
//! They are JSON-compatible with the API. What this crate does not know is kept, not dropped: a field of a newer
//! Kubernetes lands in the `unknown` map of its struct and is written back as it came; a value of an enumeration
//! that is not known is carried by its `Other` variant.

mod behavior;
mod condition;
mod meta;
mod metric;
mod open_enum;
mod pod;
mod scale;
mod spec;
mod status;
#[cfg(test)]
mod tests;

pub use behavior::{Behavior, PolicySelect, PolicyType, ScalingPolicy, ScalingRules};
pub use condition::{Condition, ConditionReason, ConditionStatus, ConditionType};
pub use meta::ObjectMeta;
pub use metric::{
    ContainerResourceMetricSource, CrossVersionObjectReference, ExternalMetricSource,
    MetricIdentifier, MetricSourceType, MetricSpec, MetricTarget, MetricTargetType,
    ObjectMetricSource, PodsMetricSource, ResourceMetricSource,
};
pub use pod::{
    ContainerRequests, Pod, PodPhase, PodRequests, PodSpec, PodStatus, ReadyCondition,
    ResourceName, ResourceRequest,
};
pub use scale::Scale;
pub use spec::{HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec};
pub use status::{
    ContainerResourceMetricStatus, ExternalMetricStatus, HorizontalPodAutoscalerStatus,
    MetricStatus, MetricValueStatus, ObjectMetricStatus, PodsMetricStatus, ResourceMetricStatus,
};

/// Fields of an object that this crate has no name for, kept as they came.
pub type UnknownFields = serde_json::Map<String, serde_json::Value>;

/// Reads a list that the API may give as `null`.
pub(crate) fn null_as_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de> + Default,
{
    Ok(<Option<T> as serde::Deserialize>::deserialize(deserializer)?.unwrap_or_default())
}
