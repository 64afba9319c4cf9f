//! The settings of one metric.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::fallback::Fallback;
use crate::{api::GO_ZERO_TIME, quantity::MilliValue, time::before};

/// The settings of one metric. The defaults are those of the reference.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct MetricSettings {
    /// The replicas to propose if the metric has failed for long.
    pub fallback: Option<Fallback>,
    /// The base of a utilization.
    pub utilization_of: UtilizationOf,
    /// The requests and limits that count during an in-place resize.
    pub requests: RequestsSource,
    /// The effect of a pod without the request, limit or container.
    pub missing_requests: MissingRequests,
    /// The aggregation of the samples of the pods to one value.
    pub aggregate: Aggregate,
    /// Samples of pods that are older than this count as missing. If all are older, or if the value
    /// of an Object or External metric is, the metric fails.
    pub max_sample_age: Option<SignedDuration>,
    /// The metric scales up from zero replicas only if its value is above this one.
    pub activation: Option<MilliValue>,
}

impl MetricSettings {
    /// Whether a sample is older than [`MetricSettings::max_sample_age`]. Go's zero time stands for
    /// no time, and is not old.
    pub(crate) fn is_too_old(&self, timestamp: Timestamp, now: Timestamp) -> bool {
        let limit = self.max_sample_age;
        limit.is_some_and(|limit| timestamp < before(now, limit) && timestamp > GO_ZERO_TIME)
    }
}

/// The base of a utilization: a utilization is a percentage of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UtilizationOf {
    /// The requests, as in the reference.
    #[default]
    Requests,
    /// The limits.
    Limits,
}

impl UtilizationOf {
    /// `requests` or `limits`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Limits => "limits",
        }
    }

    /// `request` or `limit`.
    pub(crate) const fn singular(self) -> &'static str {
        match self {
            Self::Requests => "request",
            Self::Limits => "limit",
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::Requests
    }
}

/// The requests and limits of a pod that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestsSource {
    /// The requests and limits of the pod's spec, as in the reference.
    #[default]
    Spec,
    /// The requests and limits that the kubelet has applied, from the pod's status.
    Actual,
}

/// The effect of a pod without the request, limit or container of a utilization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingRequests {
    /// The metric fails, as in the reference.
    #[default]
    Fail,
    /// The pod is left out.
    SkipPod,
}

/// The aggregation of the samples of the pods to one value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aggregate {
    /// The mean, as in the reference.
    #[default]
    Average,
    /// The value that 90 % of the pods don't exceed.
    P90,
    /// The value that 95 % of the pods don't exceed.
    P95,
    /// The value that 99 % of the pods don't exceed.
    P99,
    /// The highest value.
    Max,
}

impl Aggregate {
    /// The value of the annotation `aggregate`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Average => "average",
            Self::P90 => "p90",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::Max => "max",
        }
    }
}

/// The pods of the selector that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodSelection {
    /// All pods that the selector matches, as in the reference.
    #[default]
    Selected,
    /// Only pods whose chain of controller references ends at the target (KEP-5325).
    Owned,
}

/// Whether the surge pods of a rollout count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rollout {
    /// They count, as in the reference.
    #[default]
    CountSurge,
    /// Pods in excess of `spec.replicas` don't raise the proposal (kubernetes#138505).
    IgnoreSurge,
}
