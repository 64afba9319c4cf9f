//! The Kubernetes events of a decision.

use crate::api::MetricSourceType;

/// The type of an event: `Normal` or `Warning`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// For information.
    Normal,
    /// Something failed or needs attention.
    Warning,
}

impl EventType {
    /// The value of the event's `type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The reason of an event, from the reference controller or from this project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventReason {
    /// Several autoscalers select the same pods.
    AmbiguousSelector,
    /// Another controller also writes the autoscaler's status. The reference has no such event.
    ConflictingController,
    /// The desired replicas could not be computed.
    FailedComputeMetricsReplicas,
    /// A ContainerResource metric could not be read or computed.
    FailedGetContainerResourceMetric,
    /// An External metric could not be read or computed.
    FailedGetExternalMetric,
    /// An Object metric could not be read or computed.
    FailedGetObjectMetric,
    /// The pods that the target owns can't be determined. The reference has no such event.
    FailedGetOwners,
    /// A Pods metric could not be read or computed.
    FailedGetPodsMetric,
    /// A Resource metric could not be read or computed.
    FailedGetResourceMetric,
    /// The target's scale could not be read.
    FailedGetScale,
    /// The target's scale could not be written.
    FailedRescale,
    /// The autoscaler's status could not be written.
    FailedUpdateStatus,
    /// Forecasts would have helped in the past, so they are used, or observed, from now on. The
    /// reference has no such event.
    ForecastStarted,
    /// Forecasts are no longer used or observed. The reference has no such event.
    ForecastStopped,
    /// An annotation or field of this project is ignored or not used as written. The reference has
    /// no such event.
    InvalidAnnotation,
    /// The metric's type is unknown.
    InvalidMetricSourceType,
    /// The target's selector does not parse.
    InvalidSelector,
    /// The fallback of a metric is no longer active. The reference has no such event.
    MetricFallbackEnded,
    /// The fallback of a metric is active. The reference has no such event.
    MetricFallbackStarted,
    /// Another client changes the target's replicas after each scaling. The reference has no such
    /// event.
    ReplicasOverwritten,
    /// The target has no selector.
    SelectorRequired,
    /// The target's scale was written.
    SuccessfulRescale,
}

impl EventReason {
    /// The value of the event's `reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AmbiguousSelector => "AmbiguousSelector",
            Self::ConflictingController => "ConflictingController",
            Self::FailedComputeMetricsReplicas => "FailedComputeMetricsReplicas",
            Self::FailedGetContainerResourceMetric => "FailedGetContainerResourceMetric",
            Self::FailedGetExternalMetric => "FailedGetExternalMetric",
            Self::FailedGetObjectMetric => "FailedGetObjectMetric",
            Self::FailedGetOwners => "FailedGetOwners",
            Self::FailedGetPodsMetric => "FailedGetPodsMetric",
            Self::FailedGetResourceMetric => "FailedGetResourceMetric",
            Self::FailedGetScale => "FailedGetScale",
            Self::FailedRescale => "FailedRescale",
            Self::FailedUpdateStatus => "FailedUpdateStatus",
            Self::ForecastStarted => "ForecastStarted",
            Self::ForecastStopped => "ForecastStopped",
            Self::InvalidAnnotation => "InvalidAnnotation",
            Self::InvalidMetricSourceType => "InvalidMetricSourceType",
            Self::InvalidSelector => "InvalidSelector",
            Self::MetricFallbackEnded => "MetricFallbackEnded",
            Self::MetricFallbackStarted => "MetricFallbackStarted",
            Self::ReplicasOverwritten => "ReplicasOverwritten",
            Self::SelectorRequired => "SelectorRequired",
            Self::SuccessfulRescale => "SuccessfulRescale",
        }
    }

    /// The reason for a failed metric of this type.
    pub(crate) fn for_failed_metric(source_type: &MetricSourceType) -> Self {
        match source_type {
            MetricSourceType::ContainerResource => Self::FailedGetContainerResourceMetric,
            MetricSourceType::External => Self::FailedGetExternalMetric,
            MetricSourceType::Object => Self::FailedGetObjectMetric,
            MetricSourceType::Pods => Self::FailedGetPodsMetric,
            MetricSourceType::Resource => Self::FailedGetResourceMetric,
            MetricSourceType::Other(_) => Self::InvalidMetricSourceType,
        }
    }
}

/// A Kubernetes event about the autoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `Normal` or `Warning`.
    pub event_type: EventType,
    /// The reason, in CamelCase on the wire.
    pub reason: EventReason,
    /// The human-readable message.
    pub message: String,
}

impl Event {
    pub(crate) fn warning(reason: EventReason, message: impl Into<String>) -> Self {
        Self { event_type: EventType::Warning, reason, message: message.into() }
    }

    pub(crate) fn normal(reason: EventReason, message: impl Into<String>) -> Self {
        Self { event_type: EventType::Normal, reason, message: message.into() }
    }
}
