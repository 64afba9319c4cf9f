//! The API types that a decision reads and writes: the HorizontalPodAutoscaler of autoscaling/v2,
//! and the needed parts of Pod and Scale.
//!
//! Spec and status deserialize from the JSON of the API and serialize to it without losing data.
//! Fields of newer API versions are kept in the `unknown` map of their struct, unknown values of an
//! enumeration in its `Other` variant, and both are written back unchanged. Metadata and pods have
//! only the fields that are needed. [`Scale`] has a flat form of its own.

mod behavior;
mod condition;
pub(crate) mod enums;
mod meta;
mod metric;
mod pod;
mod scale;
mod spec;
mod status;
#[cfg(test)]
mod tests;

pub use behavior::{Behavior, PolicySelect, PolicyType, ScalingPolicy, ScalingRules};
pub use condition::{Condition, ConditionReason, ConditionStatus, ConditionType};
pub use meta::{ObjectMeta, OwnerReference};
pub use metric::{
    ContainerResourceMetricSource, CrossVersionObjectReference, ExternalMetricSource,
    MetricIdentifier, MetricSourceType, MetricSpec, MetricTarget, MetricTargetType,
    ObjectMetricSource, PodsMetricSource, ResourceMetricSource, plural,
};
pub(crate) use pod::GO_ZERO_TIME;
pub use pod::{
    ContainerResources, Pod, PodPhase, PodResources, PodSpec, PodStatus, ReadyCondition,
    ResourceAmount, ResourceAmounts, ResourceName,
};
pub use scale::Scale;
pub use spec::{HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec};
pub use status::{
    ContainerResourceMetricStatus, ExternalMetricStatus, HorizontalPodAutoscalerStatus,
    MetricStatus, MetricValueStatus, ObjectMetricStatus, PodsMetricStatus, ResourceMetricStatus,
};

/// Fields of an object that this crate doesn't know, unchanged.
pub type UnknownFields = serde_json::Map<String, serde_json::Value>;

/// Deserializes `null` as the default, since Go writes nil lists and maps as `null`.
pub(crate) fn null_as_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de> + Default,
{
    Ok(<Option<T> as serde::Deserialize>::deserialize(deserializer)?.unwrap_or_default())
}
