//! One metric → one proposal: the seven replica calculations.
//!
//! | target | average over pods | value |
//! |---|---|---|
//! | Resource, ContainerResource | [`utilization`], [`average_value`] | |
//! | Pods | [`average_value`] | |
//! | Object | [`object_average_value`] | [`value`] |
//! | External | [`external_average_value`] | [`value`] of [`external_total`] |
//!
//! All amounts are milli-units. A calculation allocates nothing: a pod's part in it is added up as it is classified.

mod average;
mod object;
#[cfg(test)]
mod tests;
mod utilization;

pub use average::{AverageTarget, average_value};
pub use object::{
    ValueTarget, external_average_value, external_total, object_average_value, value,
};
pub use utilization::{UtilizationTarget, utilization};

use serde::Serialize;

use crate::pods::PodCounts;

/// What one metric proposes, and how it came to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    /// The proposed replicas.
    pub replicas: i32,
    /// The usage a status shows, in milli-units.
    pub usage: i64,
    /// The usage in percent of the requests, truncated; for utilization targets.
    pub utilization: Option<i32>,
    /// Usage over target.
    pub ratio: f64,
    /// The ratio with the pods counted in that are not ready or have no sample, where there are any.
    pub rebalanced_ratio: Option<f64>,
    /// The rule that gave the replicas.
    pub rule: Rule,
    /// The pods by class; `None` where pods play no part.
    pub pods: Option<PodCounts>,
}

/// The rule that turned a ratio into replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Rule {
    /// The ratio is within tolerance: no change.
    WithinTolerance,
    /// Replicas in proportion to the ratio, rounded up.
    Proportional,
    /// Counting in the pods without a usable sample would turn the direction: no change.
    DirectionReversed,
}

/// Why a calculation gave no proposal; in the reference controller's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CalculationError {
    /// The selector matches no pod.
    #[error("no pods returned by selector while calculating replica count")]
    NoPods,
    /// The selector matches no pod, as a Value target says it.
    #[error(
        "unable to calculate ready pods: no pods returned by selector while calculating replica count"
    )]
    NoPodsToCount,
    /// No sample counts.
    #[error("did not receive metrics for targeted pods (pods might be unready)")]
    NoSamples,
    /// No pod with a sample requests anything.
    #[error("no metrics returned matched known pods")]
    NothingRequested,
    /// A container has no request for the resource.
    #[error("missing request for {resource} in container {container} of Pod {pod}")]
    MissingRequest {
        /// The resource.
        resource: String,
        /// The container.
        container: String,
        /// The pod.
        pod: String,
    },
    /// A pod that says itself what it requests says nothing of the resource, nor do its containers.
    #[error("missing pod-level request for {resource} in Pod {pod}")]
    MissingPodLevelRequest {
        /// The resource.
        resource: String,
        /// The pod.
        pod: String,
    },
    /// A pod has no container of the name.
    #[error("container {container} not found in Pod {pod}")]
    NoContainer {
        /// The container.
        container: String,
        /// The pod.
        pod: String,
    },
}

/// Replicas from a float, rounded up and held within `i32`; not a number gives 0 (kubernetes#141397).
#[expect(clippy::cast_possible_truncation, reason = "`as` saturates, which is the rule")]
pub(crate) fn ceil_to_replicas(replicas: f64) -> i32 {
    replicas.ceil() as i32
}

/// An exact sum held within `i64` (kubernetes#142192).
pub(crate) fn saturate(sum: i128) -> i64 {
    i64::try_from(sum).unwrap_or(if sum < 0 { i64::MIN } else { i64::MAX })
}

/// The replicas where every pod has a sample that counts.
fn in_proportion(current: i32, ratio: f64, ready: usize, within: bool) -> (i32, Rule) {
    if within {
        (current, Rule::WithinTolerance)
    } else {
        (ceil_to_replicas(ratio * ready as f64), Rule::Proportional)
    }
}

/// The last steps of an average over pods: tolerance, and that the pods without a usable sample do not turn the
/// direction.
fn rebalanced(
    current: i32,
    ratio: f64,
    new_ratio: f64,
    counted: usize,
    within: bool,
) -> (i32, Rule) {
    if within {
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
