//! The replica calculations: from the samples of one metric to one proposal.
//!
//! | metric type | `averageValue` or `averageUtilization` | `value` |
//! |---|---|---|
//! | Resource, ContainerResource | [`utilization`], [`average_value`] | |
//! | Pods | [`average_value`] | |
//! | Object | [`object_average_value`] | [`value`] |
//! | External | [`external_average_value`] | [`value`] of [`external_total`] |
//!
//! The averages of Object and External metrics are by replica, the others over pods.
//!
//! Values and their targets are [`MilliValue`]s; a utilization is in whole percent. With the
//! default settings, the calculations allocate nothing unless they fail: they classify the pods and
//! add up their samples in one pass.
//!
//! ```
//! use hpa_calc::{
//!     MilliValue, Pod, PodSample, PodSamples, Settings,
//!     replicas::{AverageTarget, average_value},
//!     settings::{ReadinessRules, Tolerances},
//! };
//! use jiff::{SignedDuration, Timestamp};
//! use serde_json::json;
//!
//! let pods: Vec<Pod> = serde_json::from_value(json!([
//!     { "metadata": { "name": "web-0" }, "status": { "phase": "Running" } },
//!     { "metadata": { "name": "web-1" }, "status": { "phase": "Running" } },
//! ]))?;
//! let now: Timestamp = "2026-01-01T00:00:00Z".parse()?;
//! let sample = |requests| PodSample {
//!     value: MilliValue::from_units(requests),
//!     timestamp: now,
//!     window: SignedDuration::from_secs(30),
//! };
//! let samples = PodSamples::from_iter([("web-0", sample(150)), ("web-1", sample(90))]);
//!
//! // Two pods serve 120 requests per second on average, and should serve 80: three are needed.
//! let target = AverageTarget {
//!     current_replicas: 2,
//!     target: MilliValue::from_units(80),
//!     is_cpu: false,
//!     tolerances: Tolerances { up: 0.1, down: 0.1 },
//! };
//! let readiness = ReadinessRules::new(now, &Settings::default());
//! let proposal = average_value(&target, &pods, &samples, &readiness)?;
//! assert_eq!((proposal.replicas, proposal.ratio), (3, 1.5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Source of the rules: the [algorithm details] in the Kubernetes documentation.
//!
//! [algorithm details]: https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details

mod aggregate;
mod amount;
mod average;
mod object;
mod rules;
mod surge;
#[cfg(test)]
mod tests;
mod utilization;

pub(crate) use amount::request_or_limit;
pub(crate) use average::average_value_with_rules;
pub use average::{AverageTarget, average_value};
pub(crate) use object::value_with_rollout;
pub use object::{
    ValueTarget, external_average_value, external_total, object_average_value, value,
};
use rules::RuleChanges;
pub(crate) use rules::{AverageRules, PodAverage, SkippedPods};
pub(crate) use surge::ignore_surge_pods_by_replica;
pub(crate) use utilization::utilization_with_rules;
pub use utilization::{UtilizationTarget, utilization};

use serde::Serialize;

use crate::{
    pods::PodCounts,
    quantity::{MilliValue, QuantityError},
    settings::{MetricSettings, MissingRequests, Rollout, Tolerances},
};

/// The proposal of one metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    /// The proposed replicas.
    pub replicas: i32,
    /// The usage that the status reports: the value, or the average (or other aggregate) over pods
    /// or replicas.
    pub usage: MilliValue,
    /// The usage in percent of the requests or limits, truncated, for utilization targets.
    pub utilization: Option<i32>,
    /// Usage divided by target.
    pub ratio: f64,
    /// The ratio with unready and missing pods, if any are included.
    pub rebalanced_ratio: Option<f64>,
    /// The rule that led to the replicas.
    pub rule: Rule,
    /// The number of pods by class, or `None` if the calculation counts no pods.
    pub pods: Option<PodCounts>,
    /// The number of pods that count. Outside the tolerance, the rebalanced ratio, or else the
    /// ratio, is multiplied by this number. `None` if the calculation doesn't multiply a ratio.
    pub counted_pods: Option<usize>,
    /// The whole value of an average by replica. Outside the tolerance, this value is divided by
    /// the target.
    pub total: Option<MilliValue>,
    /// The load that the usage measures.
    pub load: Load,
}

/// The load that a metric measures over all pods, in the metric's unit (cores, bytes, requests).
///
/// A `value` is assumed to fall as replicas are added. So its load is the value times the counted
/// pods or, within tolerance, times the replicas. At zero replicas, the load is the value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// The load of all pods that count.
    pub total: f64,
    /// The load of one pod at its target.
    pub per_replica: f64,
}

impl Load {
    /// `per_replica` is the load of one pod at its target in milli-units. `needed` is the number of
    /// pods that the load needs, not rounded.
    fn new(per_replica: f64, needed: f64) -> Self {
        let per_replica = per_replica / 1000.0;
        Self { total: needed * per_replica, per_replica }
    }

    /// The load of `pods` pods with this average ratio of usage to target. With
    /// [`Rollout::IgnoreSurge`], at most `current_replicas` of them count.
    fn of_pods(
        per_replica: f64,
        ratio: f64,
        pods: usize,
        current_replicas: i32,
        rollout: Rollout,
    ) -> Self {
        let counted = match rollout {
            Rollout::CountSurge => pods,
            Rollout::IgnoreSurge => pods.min(pod_count(current_replicas)),
        };
        Self::new(per_replica, ratio * counted as f64)
    }
}

/// The rule that leads from a ratio to replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum Rule {
    /// The ratio is within tolerance, so nothing changes.
    WithinTolerance,
    /// The replicas are in proportion to the ratio, rounded up.
    Proportional,
    /// With unready and missing pods included, the ratio or the replicas would change in the
    /// opposite direction, so nothing changes.
    DirectionReversed,
    /// The average is at most the target (by replica: the target plus its tolerance), and the
    /// proposal exceeds `spec.replicas` only because of surge pods. It is limited to
    /// `spec.replicas` (see [`Rollout`]).
    SurgeIgnored,
}

/// The error of a calculation without a proposal. Where the reference controller has the error, the
/// text is the same, because conditions and events contain it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CalculationError {
    /// The selector matches no pod.
    #[error("no pods returned by selector while calculating replica count")]
    NoPods,
    /// The selector matches no pod. The reference has another text for `value` targets.
    #[error(
        "unable to calculate ready pods: no pods returned by selector while calculating replica \
            count"
    )]
    NoPodsForValue,
    /// There is no sample, or only samples of pods that don't count.
    #[error("did not receive metrics for targeted pods (pods might be unready)")]
    NoSamples,
    /// The requests or limits of the pods that count add up to zero.
    #[error("no metrics returned matched known pods")]
    NothingRequested,
    /// A container has no request or limit for the resource. Or the pod has pod-level requests, and
    /// neither these nor any container has a request for the resource. The text names the amount
    /// and its place, such as `request for cpu in container app of Pod web-0`.
    #[error("missing {0}")]
    MissingAmount(String),
    /// A request or limit of a container or of the pod is too long to be read. A pod-level request
    /// may be a sum that includes one from a container. The text is as in [`Self::MissingAmount`].
    #[error("unreadable {}: {}", .0, QuantityError::TooLong)]
    UnreadableAmount(String),
    /// A pod has no container of that name.
    #[error("container {container} not found in Pod {pod}")]
    NoContainer {
        /// The container.
        container: String,
        /// The pod.
        pod: String,
    },
}

impl CalculationError {
    /// Whether `settings` leave out the pod of this error, because the pod lacks the container, the
    /// request or the limit.
    pub(crate) fn skips_pod(&self, settings: &MetricSettings) -> bool {
        let allows_skipping = matches!(self, Self::MissingAmount(_) | Self::NoContainer { .. });
        allows_skipping && settings.missing_requests == MissingRequests::SkipPod
    }
}

/// Rounds up to replicas, limited to the range of `i32`. NaN becomes 0 (kubernetes#141397).
#[expect(clippy::cast_possible_truncation, reason = "`as` saturates")]
pub(crate) fn ceil_to_replicas(replicas: f64) -> i32 {
    replicas.ceil() as i32
}

/// The number of pods of this many replicas. Negative replicas have no pods.
pub(crate) fn pod_count(replicas: i32) -> usize {
    usize::try_from(replicas).unwrap_or(0)
}

/// The replicas if neither unready nor missing pods are included.
fn proportional(current: i32, ratio: f64, counted: usize, tolerances: Tolerances) -> (i32, Rule) {
    if tolerances.contain(ratio) {
        (current, Rule::WithinTolerance)
    } else {
        (ceil_to_replicas(ratio * counted as f64), Rule::Proportional)
    }
}

/// The replicas if unready or missing pods are included: they must not reverse the direction that
/// the ready pods alone ask for.
fn rebalanced(
    current: i32,
    ratio: f64,
    new_ratio: f64,
    counted: usize,
    tolerances: Tolerances,
) -> (i32, Rule) {
    if tolerances.contain(new_ratio) {
        return (current, Rule::WithinTolerance);
    }
    if (ratio < 1.0 && new_ratio > 1.0) || (ratio > 1.0 && new_ratio < 1.0) {
        return (current, Rule::DirectionReversed);
    }
    let replicas = ceil_to_replicas(new_ratio * counted as f64);
    if (new_ratio < 1.0 && replicas > current) || (new_ratio > 1.0 && replicas < current) {
        return (current, Rule::DirectionReversed);
    }
    (replicas, Rule::Proportional)
}
