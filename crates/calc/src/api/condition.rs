use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{UnknownFields, enums::open_enum};

open_enum! {
    /// The type of a condition.
    ConditionType {
        /// Whether the target's scale can be read and written.
        AbleToScale = "AbleToScale",
        /// Whether the autoscaler has settings of its own (see [`crate::settings`]). Not in the
        /// reference.
        CustomSettings = "CustomSettings",
        /// Whether the fallback of a metric is active (KEP-5679). Not in the reference.
        ExternalMetricFallbackActive = "ExternalMetricFallbackActive",
        /// Whether forecasts of the load would have helped in the past (see
        /// [`MetricForecast`](crate::MetricForecast)). Not in the reference.
        ForecastActive = "ForecastActive",
        /// Whether a direction is paused (see [`crate::pause`]). Not in the reference.
        Paused = "Paused",
        /// Whether pods without a request or limit are left out (see
        /// [`MissingRequests`](crate::settings::MissingRequests)). Not in the reference.
        PodsSkipped = "PodsSkipped",
        /// Whether the autoscaler scaled the workload to zero (KEP-2021).
        ScaledToZero = "ScaledToZero",
        /// Whether the replicas can be computed from the metrics.
        ScalingActive = "ScalingActive",
        /// Whether a bound or a rate limit changed the desired replicas.
        ScalingLimited = "ScalingLimited",
        /// Whether the selector matches more pods than the target has, and has done so for longer
        /// than a rollout takes. Not in the reference.
        SelectorMatchesExtraPods = "SelectorMatchesExtraPods",
    }
}

open_enum! {
    /// The status of a condition.
    ConditionStatus {
        /// The condition doesn't hold.
        False = "False",
        /// The condition holds.
        True = "True",
        /// The controller can't determine whether the condition holds.
        Unknown = "Unknown",
    }
}

open_enum! {
    /// The reason of a condition, from the reference controller or from this project.
    ConditionReason {
        /// Several autoscalers select the same pods.
        AmbiguousSelector = "AmbiguousSelector",
        /// The desired replicas are within bounds and rate limits.
        DesiredWithinRange = "DesiredWithinRange",
        /// A ContainerResource metric could not be read or computed.
        FailedGetContainerResourceMetric = "FailedGetContainerResourceMetric",
        /// An External metric could not be read or computed.
        FailedGetExternalMetric = "FailedGetExternalMetric",
        /// An Object metric could not be read or computed.
        FailedGetObjectMetric = "FailedGetObjectMetric",
        /// The pods that the target owns can't be determined. Not in the reference.
        FailedGetOwners = "FailedGetOwners",
        /// A Pods metric could not be read or computed.
        FailedGetPodsMetric = "FailedGetPodsMetric",
        /// A Resource metric could not be read or computed.
        FailedGetResourceMetric = "FailedGetResourceMetric",
        /// The target's scale could not be read.
        FailedGetScale = "FailedGetScale",
        /// The target's scale could not be written.
        FailedUpdateScale = "FailedUpdateScale",
        /// A metric has failed for the duration of its fallback. Not in the reference.
        FallbackActive = "FallbackActive",
        /// No fallback is active any more. Not in the reference.
        FallbackEnded = "FallbackEnded",
        /// Forecasts would have helped in the past two weeks. Not in the reference.
        Forecasting = "Forecasting",
        /// The metric's type is unknown, or the spec has no metrics.
        InvalidMetricSourceType = "InvalidMetricSourceType",
        /// The target's selector is missing or does not parse.
        InvalidSelector = "InvalidSelector",
        /// Annotations or fields of the autoscaler are ignored or not used as written. Not in the
        /// reference.
        InvalidSettings = "InvalidSettings",
        /// Pods lack the request or limit that a utilization is a percentage of, and are left out.
        /// Not in the reference.
        MissingRequests = "MissingRequests",
        /// Forecasts would not have helped. Not in the reference.
        NoBenefit = "NoBenefit",
        /// The load doesn't depend on the time of day or the day of the week. Not in the reference.
        NoSeason = "NoSeason",
        /// The load's history is too short or incomplete for forecasts. Not in the reference.
        NotEnoughHistory = "NotEnoughHistory",
        /// The autoscaler did not scale the workload to zero.
        NotScaledToZero = "NotScaledToZero",
        /// An annotation or a field pauses scaling. Not in the reference.
        PausedByAnnotation = "PausedByAnnotation",
        /// The selector matches more pods than the target has. Not in the reference.
        PodsOfOthers = "PodsOfOthers",
        /// Stabilization did not change the recommendation.
        ReadyForNewScale = "ReadyForNewScale",
        /// A policy limited scaling down.
        ScaleDownLimit = "ScaleDownLimit",
        /// A recent higher recommendation limited scaling down.
        ScaleDownStabilized = "ScaleDownStabilized",
        /// A policy, or the limit without `behavior`, limited scaling up.
        ScaleUpLimit = "ScaleUpLimit",
        /// A recent lower recommendation limited scaling up.
        ScaleUpStabilized = "ScaleUpStabilized",
        /// The autoscaler scaled the workload to zero.
        ScaledToZero = "ScaledToZero",
        /// The target is at zero replicas, and the autoscaler may not scale it up from there.
        ScalingDisabled = "ScalingDisabled",
        /// Annotations or fields of the autoscaler override the controller's settings. Not in the
        /// reference.
        SetOnAutoscaler = "SetOnAutoscaler",
        /// The load's history can't be read. Not in the reference.
        SourceFailed = "SourceFailed",
        /// The spec is larger than supported. Not in the reference.
        SpecTooLarge = "SpecTooLarge",
        /// The target's scale was read.
        SucceededGetScale = "SucceededGetScale",
        /// The target's scale was written.
        SucceededRescale = "SucceededRescale",
        /// `minReplicas` applied.
        TooFewReplicas = "TooFewReplicas",
        /// The spec has more metrics than supported. Not in the reference.
        TooManyMetrics = "TooManyMetrics",
        /// `maxReplicas` applied.
        TooManyReplicas = "TooManyReplicas",
        /// The replicas were computed from the metrics.
        ValidMetricFound = "ValidMetricFound",
    }
}

/// One condition of an autoscaler's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// The type of the condition.
    #[serde(rename = "type")]
    pub condition_type: ConditionType,
    /// Whether the condition holds.
    pub status: ConditionStatus,
    /// The time of the last change of `status`, in whole seconds on the wire.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "whole_seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub last_transition_time: Option<Timestamp>,
    /// The reason for the status, in CamelCase on the wire.
    #[serde(skip_serializing_if = "is_empty")]
    pub reason: ConditionReason,
    /// The human-readable message.
    #[serde(
        deserialize_with = "crate::messages::deserialize",
        skip_serializing_if = "str::is_empty"
    )]
    pub message: std::borrow::Cow<'static, str>,
    /// The `metadata.generation` that the condition was determined for (since Kubernetes 1.37).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

fn is_empty(reason: &ConditionReason) -> bool {
    reason.as_str().is_empty()
}

/// Serializes a time like meta/v1 `Time`: RFC 3339 in whole seconds.
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
