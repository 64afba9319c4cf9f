use serde::{Deserialize, Serialize};

use super::{
    Behavior, CrossVersionObjectReference, HorizontalPodAutoscalerStatus, MetricSpec, ObjectMeta,
    ScalingRules, UnknownFields,
};
use crate::history::Direction;

/// A HorizontalPodAutoscaler of autoscaling/v2.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct HorizontalPodAutoscaler {
    /// Name, namespace, UID and other metadata.
    pub metadata: ObjectMeta,
    /// The desired scaling.
    pub spec: HorizontalPodAutoscalerSpec,
    /// The result of the last reconcile.
    #[serde(deserialize_with = "super::null_as_empty")]
    pub status: HorizontalPodAutoscalerStatus,
}

/// The desired scaling: target, bounds, metrics and behavior.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct HorizontalPodAutoscalerSpec {
    /// The object to scale, of any kind that has a scale subresource.
    pub scale_target_ref: CrossVersionObjectReference,
    /// The lower bound of replicas. The default is 1. 0 requires an Object or External metric
    /// (KEP-2021).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// The upper bound of replicas.
    pub max_replicas: i32,
    /// The metrics. The largest proposal wins.
    #[serde(deserialize_with = "super::null_as_empty", skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricSpec>,
    /// The scaling rules of both directions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behavior: Option<Box<Behavior>>,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
    /// The size of the spec as JSON, in bytes, if it is too large. Decisions then reject the spec.
    /// Not a field of the API: [`prepare_spec`](crate::defaults::prepare_spec) sets it.
    #[serde(skip)]
    pub excessive_bytes: Option<usize>,
}

impl HorizontalPodAutoscalerSpec {
    /// The effective lower bound of replicas: `minReplicas`, or 1 if it is unset.
    pub fn effective_min_replicas(&self) -> i32 {
        self.min_replicas.unwrap_or(1)
    }

    /// The rules of `behavior` for a direction, if they are set.
    pub fn scaling_rules(&self, direction: Direction) -> Option<&ScalingRules> {
        let behavior = self.behavior.as_deref()?;
        match direction {
            Direction::Up => behavior.scale_up.as_ref(),
            Direction::Down => behavior.scale_down.as_ref(),
        }
    }

    /// Whether a metric exists without pods, so that it can scale the target up from zero. True for
    /// a spec that is too large, because its metrics may have been dropped.
    pub(crate) fn has_object_or_external_metric(&self) -> bool {
        self.excessive_bytes.is_some()
            || self.metrics.iter().any(|metric| metric.source_type.exists_without_pods())
    }
}
