//! The Kubernetes events of a decision.

use crate::api::{MetricSourceType, enums::closed_enum};

closed_enum! {
    /// The type of an event: `Normal` or `Warning`.
    EventType {
        /// For information.
        Normal,
        /// Something failed or needs attention.
        Warning,
    }
}

closed_enum! {
    /// The reason of an event, from the reference controller or from this project.
    #[non_exhaustive]
    EventReason {
        /// Several autoscalers select the same pods.
        AmbiguousSelector,
        /// Another controller also writes the autoscaler's status. Not in the reference.
        ConflictingController,
        /// The desired replicas could not be computed.
        FailedComputeMetricsReplicas,
        /// A ContainerResource metric could not be read or computed.
        FailedGetContainerResourceMetric,
        /// An External metric could not be read or computed.
        FailedGetExternalMetric,
        /// An Object metric could not be read or computed.
        FailedGetObjectMetric,
        /// The pods that the target owns can't be determined. Not in the reference.
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
        /// Forecasts would have helped in the past, so they are used, or observed, from now on. Not
        /// in the reference.
        ForecastStarted,
        /// Forecasts are no longer used or observed. Not in the reference.
        ForecastStopped,
        /// An annotation or field of this project is ignored or not used as written. Not in the
        /// reference.
        InvalidAnnotation,
        /// The metric's type is unknown.
        InvalidMetricSourceType,
        /// The target's selector does not parse.
        InvalidSelector,
        /// The fallback of a metric is no longer active. Not in the reference.
        MetricFallbackEnded,
        /// The fallback of a metric is active. Not in the reference.
        MetricFallbackStarted,
        /// Another client changes the target's replicas after each scaling. Not in the reference.
        ReplicasOverwritten,
        /// The target has no selector.
        SelectorRequired,
        /// The target's scale was written.
        SuccessfulRescale,
    }
}

impl EventReason {
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
