use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{UnknownFields, open_enum::open_enum};

open_enum! {
    /// What a condition is about.
    ConditionType {
        /// Whether the scale can be read and written.
        AbleToScale = "AbleToScale",
        /// Whether a direction of scaling is paused; not of the reference (see [`crate::pause`]).
        Paused = "Paused",
        /// Whether the workload is at zero because the autoscaler put it there (KEP-2021).
        ScaledToZero = "ScaledToZero",
        /// Whether replicas can be computed from the metrics.
        ScalingActive = "ScalingActive",
        /// Whether a bound or a rate held the wish back.
        ScalingLimited = "ScalingLimited",
    }
}

open_enum! {
    /// Whether a condition holds.
    ConditionStatus {
        /// It does not.
        False = "False",
        /// It does.
        True = "True",
        /// Nobody can say.
        Unknown = "Unknown",
    }
}

open_enum! {
    /// Why a condition is as it is: the reasons of the reference controller.
    ConditionReason {
        /// Several autoscalers select the same pods.
        AmbiguousSelector = "AmbiguousSelector",
        /// The wish is within bounds and rates.
        DesiredWithinRange = "DesiredWithinRange",
        /// A ContainerResource metric could not be used.
        FailedGetContainerResourceMetric = "FailedGetContainerResourceMetric",
        /// An External metric could not be used.
        FailedGetExternalMetric = "FailedGetExternalMetric",
        /// An Object metric could not be used.
        FailedGetObjectMetric = "FailedGetObjectMetric",
        /// A Pods metric could not be used.
        FailedGetPodsMetric = "FailedGetPodsMetric",
        /// A Resource metric could not be used.
        FailedGetResourceMetric = "FailedGetResourceMetric",
        /// The target's scale could not be read.
        FailedGetScale = "FailedGetScale",
        /// The target's scale could not be written.
        FailedUpdateScale = "FailedUpdateScale",
        /// A metric spec's type is not known.
        InvalidMetricSourceType = "InvalidMetricSourceType",
        /// The target's selector is missing or does not parse.
        InvalidSelector = "InvalidSelector",
        /// The workload is not at zero by the autoscaler's doing.
        NotScaledToZero = "NotScaledToZero",
        /// An annotation says so; not of the reference.
        PausedByAnnotation = "PausedByAnnotation",
        /// Stabilization changed nothing.
        ReadyForNewScale = "ReadyForNewScale",
        /// The downward rate held the wish back.
        ScaleDownLimit = "ScaleDownLimit",
        /// A recent higher recommendation holds.
        ScaleDownStabilized = "ScaleDownStabilized",
        /// The upward rate held the wish back.
        ScaleUpLimit = "ScaleUpLimit",
        /// A recent lower recommendation holds.
        ScaleUpStabilized = "ScaleUpStabilized",
        /// The autoscaler scaled the workload to zero.
        ScaledToZero = "ScaledToZero",
        /// The target is at zero replicas by somebody else's doing.
        ScalingDisabled = "ScalingDisabled",
        /// The target's scale was read.
        SucceededGetScale = "SucceededGetScale",
        /// The target's scale was written.
        SucceededRescale = "SucceededRescale",
        /// The lower bound held the wish back.
        TooFewReplicas = "TooFewReplicas",
        /// The upper bound held the wish back.
        TooManyReplicas = "TooManyReplicas",
        /// A replica count was computed.
        ValidMetricFound = "ValidMetricFound",
    }
}

/// One condition of an autoscaler's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about.
    #[serde(default, rename = "type")]
    pub condition_type: ConditionType,
    /// Whether it holds.
    #[serde(default)]
    pub status: ConditionStatus,
    /// When `status` last changed; whole seconds on the wire.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "whole_seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub last_transition_time: Option<Timestamp>,
    /// Why.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub reason: ConditionReason,
    /// The same for a person.
    #[serde(
        default,
        deserialize_with = "crate::messages::read",
        skip_serializing_if = "str::is_empty"
    )]
    pub message: std::borrow::Cow<'static, str>,
    /// The generation of the spec that this was decided on (Kubernetes 1.37).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

fn is_empty(reason: &ConditionReason) -> bool {
    reason.as_str().is_empty()
}

/// Writes a time as meta/v1 Time does: RFC 3339 in whole seconds.
#[expect(clippy::ref_option, reason = "the signature serde asks for")]
pub(super) fn whole_seconds<S: serde::Serializer>(
    time: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.collect_str(&format_args!("{time:.0}")),
        None => serializer.serialize_none(),
    }
}
