use super::{CalculationError, Proposal, proportional, rebalanced, saturate};
use crate::{
    api::Pod,
    pods::{PodClass, PodCounts, classify},
    quantity::MilliValue,
    readings::PodSamples,
    settings::{Readiness, Tolerances},
};

/// A target for the average of a metric over pods.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AverageTarget {
    /// The target's `spec.replicas`.
    pub current_replicas: i32,
    /// The average to reach.
    pub target: MilliValue,
    /// Whether the metric is CPU, the samples of which count only if the pod is ready (see
    /// [`classify`]).
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
    readiness: &Readiness,
) -> Result<Proposal, CalculationError> {
    let mut counts = PodCounts::default();
    let (mut counted, mut total) = (samples.len(), samples.total());
    for pod in pods {
        let sample = samples.get(&pod.name);
        let class = classify(pod, sample, target.is_cpu, readiness);
        counts.add(class);
        if let (PodClass::Ignored | PodClass::Unready, Some(sample)) = (class, sample) {
            counted -= 1;
            total -= i128::from(sample.value.as_milli());
        }
    }
    if counts.total() == 0 {
        return Err(CalculationError::NoPods);
    }
    if counted == 0 {
        return Err(CalculationError::NoSamples);
    }
    Ok(propose(target, counts, counted, total))
}

fn propose(
    target: &AverageTarget,
    counts: PodCounts,
    mut counted: usize,
    mut total: i128,
) -> Proposal {
    let target_milli = target.target.as_milli();
    let ratio_of = |usage: MilliValue| usage.as_milli() as f64 / target_milli as f64;
    let usage = average(total, counted);
    let ratio = ratio_of(usage);
    let include_unready = counts.unready > 0 && ratio > 1.0;
    let (replicas, rule, rebalanced_ratio) = if !include_unready && counts.missing == 0 {
        let within = target.tolerances.contain(ratio);
        counted = counts.ready;
        let (replicas, rule) = proportional(target.current_replicas, ratio, counted, within);
        (replicas, rule, None)
    } else {
        if ratio < 1.0 {
            total += i128::from(target_milli) * counts.missing as i128;
            counted += counts.missing;
        } else if ratio > 1.0 {
            counted += counts.missing;
        }
        if include_unready {
            counted += counts.unready;
        }
        let new_ratio = ratio_of(average(total, counted));
        let within = target.tolerances.contain(new_ratio);
        let (replicas, rule) =
            rebalanced(target.current_replicas, ratio, new_ratio, counted, within);
        (replicas, rule, Some(new_ratio))
    };
    Proposal {
        replicas,
        usage,
        utilization: None,
        ratio,
        rebalanced_ratio,
        rule,
        pods: Some(counts),
        counted: Some(counted),
        total: None,
    }
}

/// `total / counted`, truncated to whole milli-units, or 0 if nothing is counted.
pub(super) fn average(total: i128, counted: usize) -> MilliValue {
    let average =
        i64::try_from(counted).ok().and_then(|counted| saturate(total).checked_div(counted));
    MilliValue::from_milli(average.unwrap_or(0))
}
