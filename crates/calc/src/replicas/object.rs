use super::{CalculationError, Load, Proposal, Rule, ceil_to_replicas, pod_count};
use crate::{
    api::Pod,
    pods::PodCounts,
    quantity::MilliValue,
    settings::{Rollout, Tolerances},
};

/// A target for one value: that of an Object metric, or the sum of an External metric's series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueTarget {
    /// For [`value`], the scale's `spec.replicas`. For the averages, its `status.replicas`, or its
    /// `spec.replicas` if the surge pods of a rollout are ignored.
    pub replicas: i32,
    /// The value, or the average by replica, to reach.
    pub target: MilliValue,
    /// The range of ratios that need no change.
    pub tolerances: Tolerances,
}

/// The proposal of an Object or External metric with a `value` target.
///
/// Outside the tolerance, the ratio of usage to target is multiplied by the number of running,
/// ready pods, including terminating ones. At zero replicas, neither pods nor tolerance count: a
/// ratio above 0 scales up (KEP-2021).
pub fn value<'a>(
    target: &ValueTarget,
    usage: MilliValue,
    pods: impl IntoIterator<Item = &'a Pod>,
) -> Result<Proposal, CalculationError> {
    value_with_rollout(target, Rollout::CountSurge, usage, pods)
}

/// Like [`value`]. If the surge pods of a rollout are ignored, at most `spec.replicas` pods count.
pub(crate) fn value_with_rollout<'a>(
    target: &ValueTarget,
    rollout: Rollout,
    usage: MilliValue,
    pods: impl IntoIterator<Item = &'a Pod>,
) -> Result<Proposal, CalculationError> {
    let ratio = usage.as_milli() as f64 / target.target.as_milli() as f64;
    let counted = |pods: PodCounts| match rollout {
        Rollout::CountSurge => pods.ready,
        Rollout::IgnoreSurge => pods.ready.min(pod_count(target.replicas)),
    };
    let proposal = |replicas, rule, pods: Option<PodCounts>| {
        let counted_pods = pods.map(counted);
        let load_pods = match counted_pods {
            Some(count) => count as f64,
            None => f64::from(target.replicas.max(1)),
        };
        Proposal {
            replicas,
            usage,
            utilization: None,
            ratio,
            rebalanced_ratio: None,
            rule,
            pods,
            counted_pods,
            total: None,
            load: Load::new(target.target.as_milli() as f64, ratio * load_pods),
        }
    };
    if target.replicas == 0 {
        return Ok(proposal(ceil_to_replicas(ratio), Rule::Proportional, None));
    }
    if target.tolerances.contain(ratio) {
        return Ok(proposal(target.replicas, Rule::WithinTolerance, None));
    }
    let counts = count_ready(pods).ok_or(CalculationError::NoPodsForValue)?;
    let replicas = ceil_to_replicas(ratio * counted(counts) as f64);
    Ok(proposal(replicas, Rule::Proportional, Some(counts)))
}

/// Counts ready and unready pods, or returns `None` if there are no pods at all.
fn count_ready<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Option<PodCounts> {
    let mut counts = PodCounts::default();
    for pod in pods {
        if pod.is_running_and_ready() {
            counts.ready += 1;
        } else {
            counts.unready += 1;
        }
    }
    (counts.total() > 0).then_some(counts)
}

/// The proposal of an Object metric with an `averageValue` target: the value divided by that
/// target. The usage is the value divided by [`ValueTarget::replicas`].
///
/// Within tolerance, the proposal is [`ValueTarget::replicas`]: usually `status.replicas` and not
/// `spec.replicas`, as in the reference.
pub fn object_average_value(target: &ValueTarget, usage: MilliValue) -> Proposal {
    propose_by_replica(
        target,
        usage.as_milli(),
        average_by_replica(usage.as_milli(), target.replicas),
    )
}

/// The proposal of an External metric with an `averageValue` target, like [`object_average_value`]
/// for the sum of all series.
///
/// If the sum overflows or becomes negative at any step, it counts as the largest value, as in the
/// reference.
pub fn external_average_value(target: &ValueTarget, values: &[MilliValue]) -> Proposal {
    let mut values = values.iter().map(|value| value.as_milli());
    let usage = values.try_fold(0_i64, |sum, value| sum.checked_add(value).filter(|sum| *sum >= 0));
    let usage = usage.unwrap_or(i64::MAX);
    // The reference compares floats. As a float, a sum slightly below the largest value equals it.
    let is_unlimited = usage as f64 >= i64::MAX as f64;
    let average = if is_unlimited { i64::MAX } else { average_by_replica(usage, target.replicas) };
    propose_by_replica(target, usage, average)
}

/// The sum of all series of an External metric. If the sum overflows, the result is the largest
/// value, whatever the remaining series are. If it underflows, it continues from the smallest
/// value.
pub fn external_total(values: &[MilliValue]) -> MilliValue {
    let mut total = MilliValue::ZERO;
    for value in values {
        match total.as_milli().checked_add(value.as_milli()) {
            Some(sum) => total = MilliValue::from_milli(sum),
            None if *value > MilliValue::ZERO => return MilliValue::MAX,
            None => total = MilliValue::MIN,
        }
    }
    total
}

fn propose_by_replica(target: &ValueTarget, usage: i64, average: i64) -> Proposal {
    let per_replica = target.target.as_milli() as f64;
    let ratio = usage as f64 / (per_replica * f64::from(target.replicas));
    let (replicas, rule) = if target.tolerances.contain(ratio) {
        (target.replicas, Rule::WithinTolerance)
    } else {
        (ceil_to_replicas(usage as f64 / per_replica), Rule::Proportional)
    };
    Proposal {
        replicas,
        usage: MilliValue::from_milli(average),
        utilization: None,
        ratio,
        rebalanced_ratio: None,
        rule,
        pods: None,
        counted_pods: None,
        total: Some(MilliValue::from_milli(usage)),
        load: Load::new(per_replica, usage as f64 / per_replica),
    }
}

/// The usage of one replica, rounded up. At zero replicas it is the whole usage
/// (kubernetes#140958).
#[expect(clippy::cast_possible_truncation, reason = "`as` saturates")]
fn average_by_replica(usage: i64, replicas: i32) -> i64 {
    if replicas == 0 { usage } else { (usage as f64 / f64::from(replicas)).ceil() as i64 }
}
