use serde::{Deserialize, Serialize};

use super::{
    Behavior, CrossVersionObjectReference, HorizontalPodAutoscalerStatus, MetricSpec, ObjectMeta,
    UnknownFields,
};

/// autoscaling/v2 HorizontalPodAutoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HorizontalPodAutoscaler {
    /// Name, namespace, identity.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is asked for.
    #[serde(default)]
    pub spec: HorizontalPodAutoscalerSpec,
    /// What was last decided.
    #[serde(default, deserialize_with = "super::null_as_empty")]
    pub status: HorizontalPodAutoscalerStatus,
}

/// What is asked for: a scale target, bounds, metrics and rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HorizontalPodAutoscalerSpec {
    /// The object to scale: any kind with a scale subresource.
    #[serde(default)]
    pub scale_target_ref: CrossVersionObjectReference,
    /// The lower bound of replicas; unset: 1. 0 needs an Object or External metric (KEP-2021).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// The upper bound of replicas.
    #[serde(default)]
    pub max_replicas: i32,
    /// The metrics; the largest proposal wins.
    #[serde(
        default,
        deserialize_with = "super::null_as_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub metrics: Vec<MetricSpec>,
    /// The rules of scaling in each direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behavior: Option<Box<Behavior>>,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

impl HorizontalPodAutoscalerSpec {
    /// The lower bound of replicas in force: `minReplicas`, or 1 where it is unset.
    pub fn effective_min_replicas(&self) -> i32 {
        self.min_replicas.unwrap_or(1)
    }
}
