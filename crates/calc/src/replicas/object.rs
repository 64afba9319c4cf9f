use super::{CalculationError, Proposal, Rule, ceil_to_replicas};
use crate::{api::Pod, pods::PodCounts, settings::Tolerances};

/// A target for one value: of an object's metric, or of all series of an external metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueTarget {
    /// For a `value` target the replicas the scale target is asked to have (`spec.replicas`), for `averageValue`
    /// the replicas it has (`status.replicas`).
    pub replicas: i32,
    /// The value, or the average by replica, to reach; in milli-units.
    pub target: i64,
    /// When no change is called for.
    pub tolerances: Tolerances,
}

/// The proposal of an Object or External metric with a `value` target.
///
/// The pods counted are those that run and are ready, terminating ones included. From zero replicas neither pods nor
/// tolerance count: a ratio above 0 wakes the workload (KEP-2021).
pub fn value<'a>(
    target: &ValueTarget,
    usage: i64,
    pods: impl IntoIterator<Item = &'a Pod>,
) -> Result<Proposal, CalculationError> {
    let ratio = usage as f64 / target.target as f64;
    let proposal = |replicas, rule, pods| Proposal {
        replicas,
        usage,
        utilization: None,
        ratio,
        rebalanced_ratio: None,
        rule,
        pods,
    };
    if target.replicas == 0 {
        return Ok(proposal(ceil_to_replicas(ratio), Rule::Proportional, None));
    }
    if target.tolerances.are_met_by(ratio) {
        return Ok(proposal(target.replicas, Rule::WithinTolerance, None));
    }
    let census = ready_pods(pods).ok_or(CalculationError::NoPodsToCount)?;
    Ok(proposal(ceil_to_replicas(ratio * census.ready as f64), Rule::Proportional, Some(census)))
}

fn ready_pods<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Option<PodCounts> {
    let mut census = PodCounts::default();
    let mut any_pod = false;
    for pod in pods {
        any_pod = true;
        if pod.is_running_and_ready() {
            census.ready += 1;
        } else {
            census.unready += 1;
        }
    }
    any_pod.then_some(census)
}

/// The proposal of an Object metric with an `averageValue` target: the value spread over the replicas the target has.
///
/// Within tolerance the proposal is `status.replicas`, not `spec.replicas`.
pub fn object_average_value(target: &ValueTarget, usage: i64) -> Proposal {
    let (replicas, ratio, rule) = spread(target, usage);
    Proposal {
        replicas,
        usage: by_replica(usage, target.replicas),
        utilization: None,
        ratio,
        rebalanced_ratio: None,
        rule,
        pods: None,
    }
}

/// The proposal of an External metric with an `averageValue` target, like [`object_average_value`] for the sum of
/// all series. A sum that turns negative stands for one beyond all bounds, as in the reference.
pub fn external_average_value(target: &ValueTarget, values: &[i64]) -> Proposal {
    let usage =
        values.iter().try_fold(0_i64, |sum, value| sum.checked_add(*value).filter(|sum| *sum >= 0));
    let usage = usage.unwrap_or(i64::MAX);
    let (replicas, ratio, rule) = spread(target, usage);
    // The reference compares as floats, which the largest values round up to.
    let unbounded = usage as f64 >= i64::MAX as f64;
    let shown = if unbounded { i64::MAX } else { by_replica(usage, target.replicas) };
    Proposal {
        replicas,
        usage: shown,
        utilization: None,
        ratio,
        rebalanced_ratio: None,
        rule,
        pods: None,
    }
}

/// The sum of all series of an external metric, held within bounds.
pub fn external_total(values: &[i64]) -> i64 {
    let mut total = 0_i64;
    for value in values {
        match total.checked_add(*value) {
            Some(sum) => total = sum,
            None if *value > 0 => return i64::MAX,
            None => total = i64::MIN,
        }
    }
    total
}

fn spread(target: &ValueTarget, usage: i64) -> (i32, f64, Rule) {
    let ratio = usage as f64 / (target.target as f64 * f64::from(target.replicas));
    if target.tolerances.are_met_by(ratio) {
        (target.replicas, ratio, Rule::WithinTolerance)
    } else {
        (ceil_to_replicas(usage as f64 / target.target as f64), ratio, Rule::Proportional)
    }
}

/// The part of one replica, rounded up; the whole where there is none (kubernetes#140958).
#[expect(clippy::cast_possible_truncation, reason = "`as` saturates, which is the rule")]
fn by_replica(usage: i64, replicas: i32) -> i64 {
    if replicas == 0 { usage } else { (usage as f64 / f64::from(replicas)).ceil() as i64 }
}
