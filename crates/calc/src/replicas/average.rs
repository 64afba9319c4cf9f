use super::{CalculationError, Proposal, in_proportion, rebalanced, saturate};
use crate::{
    api::Pod,
    pods::{PodClass, PodCounts, classify},
    readings::PodSamples,
    settings::{Readiness, Tolerances},
};

/// A target for the average of a metric over pods.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AverageTarget {
    /// The replicas the scale target is asked to have.
    pub current_replicas: i32,
    /// The average to reach, in milli-units.
    pub target: i64,
    /// Whether the metric is CPU, whose samples count only from pods that are up.
    pub is_cpu: bool,
    /// When no change is called for.
    pub tolerances: Tolerances,
}

/// The proposal of a metric of each pod with an `averageValue` target: Resource, ContainerResource, Pods.
///
/// Samples of pods that the selector does not match count in the average.
pub fn average_value<'a>(
    target: &AverageTarget,
    pods: impl IntoIterator<Item = &'a Pod>,
    samples: &PodSamples,
    rules: &Readiness,
) -> Result<Proposal, CalculationError> {
    let mut census = PodCounts::default();
    let (mut counted, mut total) = (samples.len(), samples.total());
    let mut any_pod = false;
    for pod in pods {
        any_pod = true;
        let sample = samples.get(&pod.name);
        let class = classify(pod, sample, target.is_cpu, rules);
        census.count(class);
        if let (PodClass::Ignored | PodClass::Unready, Some(sample)) = (class, sample) {
            counted -= 1;
            total -= i128::from(sample.value);
        }
    }
    if !any_pod {
        return Err(CalculationError::NoPods);
    }
    if counted == 0 {
        return Err(CalculationError::NoSamples);
    }
    Ok(propose(target, census, counted, total))
}

fn propose(
    target: &AverageTarget,
    census: PodCounts,
    mut counted: usize,
    mut total: i128,
) -> Proposal {
    let ratio_of = |usage: i64| usage as f64 / target.target as f64;
    let usage = average(total, counted);
    let ratio = ratio_of(usage);
    let count_unready = census.unready > 0 && ratio > 1.0;
    let (replicas, rule, rebalanced_ratio) = if !count_unready && census.missing == 0 {
        let within = target.tolerances.are_met_by(ratio);
        let (replicas, rule) = in_proportion(target.current_replicas, ratio, census.ready, within);
        (replicas, rule, None)
    } else {
        if ratio < 1.0 {
            total += i128::from(target.target) * census.missing as i128;
            counted += census.missing;
        } else if ratio > 1.0 {
            counted += census.missing;
        }
        if count_unready {
            counted += census.unready;
        }
        let new_ratio = ratio_of(average(total, counted));
        let within = target.tolerances.are_met_by(new_ratio);
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
        pods: Some(census),
    }
}

/// The average, truncated to whole milli-units; 0 of nothing.
pub(super) fn average(total: i128, counted: usize) -> i64 {
    i64::try_from(counted)
        .ok()
        .and_then(|counted| saturate(total).checked_div(counted))
        .unwrap_or(0)
}
