//! The Kubernetes events of a decision.

use crate::api::MetricSourceType;

/// Whether an event tells of normal life or of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Normal life.
    Normal,
    /// Trouble.
    Warning,
}

impl EventType {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Why an event is emitted: the reasons of the reference controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventReason {
    /// Several autoscalers select the same pods.
    AmbiguousSelector,
    /// No replica count could be computed.
    FailedComputeMetricsReplicas,
    /// A ContainerResource metric could not be used.
    FailedGetContainerResourceMetric,
    /// An External metric could not be used.
    FailedGetExternalMetric,
    /// An Object metric could not be used.
    FailedGetObjectMetric,
    /// A Pods metric could not be used.
    FailedGetPodsMetric,
    /// A Resource metric could not be used.
    FailedGetResourceMetric,
    /// The target's scale could not be read.
    FailedGetScale,
    /// The target's scale could not be written.
    FailedRescale,
    /// The autoscaler's status could not be written.
    FailedUpdateStatus,
    /// An annotation has a value that is not known, and is not heeded; not of the reference.
    InvalidAnnotation,
    /// A metric spec's type is not known.
    InvalidMetricSourceType,
    /// The target's selector does not parse.
    InvalidSelector,
    /// The target has no selector.
    SelectorRequired,
    /// The target's scale was written.
    SuccessfulRescale,
}

impl EventReason {
    /// The reason in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AmbiguousSelector => "AmbiguousSelector",
            Self::FailedComputeMetricsReplicas => "FailedComputeMetricsReplicas",
            Self::FailedGetContainerResourceMetric => "FailedGetContainerResourceMetric",
            Self::FailedGetExternalMetric => "FailedGetExternalMetric",
            Self::FailedGetObjectMetric => "FailedGetObjectMetric",
            Self::FailedGetPodsMetric => "FailedGetPodsMetric",
            Self::FailedGetResourceMetric => "FailedGetResourceMetric",
            Self::FailedGetScale => "FailedGetScale",
            Self::FailedRescale => "FailedRescale",
            Self::FailedUpdateStatus => "FailedUpdateStatus",
            Self::InvalidAnnotation => "InvalidAnnotation",
            Self::InvalidMetricSourceType => "InvalidMetricSourceType",
            Self::InvalidSelector => "InvalidSelector",
            Self::SelectorRequired => "SelectorRequired",
            Self::SuccessfulRescale => "SuccessfulRescale",
        }
    }

    /// The reason of a metric that could not be used.
    pub(crate) fn of_failed(source_type: &MetricSourceType) -> Self {
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

/// One Kubernetes event about the autoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Normal life or trouble.
    pub event_type: EventType,
    /// Why.
    pub reason: EventReason,
    /// The same for a person.
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
