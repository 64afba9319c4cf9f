use super::{
    AverageRules, CalculationError, Load, PodAverage, Proposal, RuleChanges,
    aggregate::value_at_rank,
    proportional, rebalanced,
    surge::{ignore_surge_pods, included_pods},
};
use crate::{
    api::Pod,
    pods::{PodClass, PodCounts, classify},
    quantity::{MilliValue, saturate},
    readings::PodSamples,
    settings::{Aggregate, ReadinessRules, Rollout, Tolerances},
};

/// A target for the average of a metric over pods.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AverageTarget {
    /// The target's `spec.replicas`.
    pub current_replicas: i32,
    /// The average to reach.
    pub target: MilliValue,
    /// Whether the metric is CPU. Whether a CPU sample counts also depends on the pod's readiness
    /// (see [`classify`]).
    pub is_cpu: bool,
    /// The range of ratios that need no change.
    pub tolerances: Tolerances,
}

/// The proposal of a Resource, ContainerResource or Pods metric with an `averageValue` target.
///
/// Samples of pods that the selector doesn't match count in the average, as in the reference.
pub fn average_value<'a>(
    target: &AverageTarget,
    pods: impl IntoIterator<Item = &'a Pod>,
    samples: &PodSamples,
    readiness: &ReadinessRules,
) -> Result<Proposal, CalculationError> {
    let average =
        average_value_with_rules(target, AverageRules::default(), pods, samples, readiness)?;
    Ok(average.proposal)
}

/// Like [`average_value`], with the settings of the metric.
pub(crate) fn average_value_with_rules<'a>(
    target: &AverageTarget,
    rules: AverageRules<'_>,
    pods: impl IntoIterator<Item = &'a Pod>,
    samples: &PodSamples,
    readiness: &ReadinessRules,
) -> Result<PodAverage, CalculationError> {
    let aggregate = rules.settings.aggregate;
    let mut counts = PodCounts::default();
    let (mut counted, mut total) = (samples.len(), samples.total());
    let mut values = Vec::new();
    for pod in pods {
        let sample = samples.get(&pod.name);
        let class = classify(pod, sample, target.is_cpu, readiness);
        counts.add(class);
        match (class, sample) {
            (PodClass::Ignored | PodClass::Unready, Some(sample)) => {
                counted -= 1;
                total -= i128::from(sample.value.as_milli());
            }
            (PodClass::Ready, Some(sample)) if aggregate != Aggregate::Average => {
                values.push(sample.value.as_milli());
            }
            _ => {}
        }
    }
    if counts.total() == 0 {
        return Err(CalculationError::NoPods);
    }
    let mut changes = RuleChanges::default();
    if aggregate != Aggregate::Average {
        counted = values.len();
        let mean = average(values.iter().copied().map(i128::from).sum(), counted);
        let value = value_at_rank(&mut values, aggregate, i64::cmp).unwrap_or(0);
        total = i128::from(value) * counted as i128;
        changes.set_aggregate(counted, value as f64, mean.as_milli() as f64);
    }
    if counted == 0 {
        return Err(CalculationError::NoSamples);
    }
    let propose = |rollout| propose(target, counts, counted, total, rollout);
    let proposal = propose(rules.rollout);
    let ignores_surge = rules.rollout == Rollout::IgnoreSurge;
    changes.replicas_with_surge = ignores_surge.then(|| propose(Rollout::CountSurge).replicas);
    Ok(PodAverage { proposal, changes })
}

fn propose(
    target: &AverageTarget,
    counts: PodCounts,
    mut counted: usize,
    mut total: i128,
    rollout: Rollout,
) -> Proposal {
    let AverageTarget { current_replicas: current, tolerances, .. } = *target;
    let target_milli = target.target.as_milli();
    let ratio_of = |usage: MilliValue| usage.as_milli() as f64 / target_milli as f64;
    let usage = average(total, counted);
    let ratio = ratio_of(usage);
    let (unready, missing) = included_pods(counts, ratio, current, rollout);
    let (replicas, rule, rebalanced_ratio) = if unready == 0 && missing == 0 {
        counted = counts.ready;
        let (replicas, rule) = proportional(current, ratio, counted, tolerances);
        (replicas, rule, None)
    } else {
        if ratio < 1.0 {
            total += i128::from(target_milli) * missing as i128;
            counted += missing;
        } else if ratio > 1.0 {
            counted += missing + unready;
        }
        let new_ratio = ratio_of(average(total, counted));
        let (replicas, rule) = rebalanced(current, ratio, new_ratio, counted, tolerances);
        (replicas, rule, Some(new_ratio))
    };
    let per_replica = target_milli as f64;
    let proposal = Proposal {
        replicas,
        usage,
        utilization: None,
        ratio,
        rebalanced_ratio,
        rule,
        pods: Some(counts),
        counted_pods: Some(counted),
        total: None,
        load: Load::of_pods(per_replica, ratio, counts.ready, current, rollout),
    };
    ignore_surge_pods(proposal, current, tolerances, rollout)
}

/// `total / counted`, truncated to whole milli-units, or 0 if nothing is counted.
pub(super) fn average(total: i128, counted: usize) -> MilliValue {
    let average =
        i64::try_from(counted).ok().and_then(|counted| saturate(total).checked_div(counted));
    MilliValue::from_milli(average.unwrap_or(0))
}
