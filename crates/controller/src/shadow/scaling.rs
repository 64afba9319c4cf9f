//! A scaling of the peer, compared with our decision on the metric values of the peer's status.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use hpa_calc::{
    MilliValue,
    api::{HorizontalPodAutoscalerStatus, MetricValueStatus, Scale},
    decide::Decision,
    quantity::Quantity,
    readings::{PodSample, PodSamples, Reading},
};
use jiff::Timestamp;

use super::{
    comparison::{Comparison, PeerStatus, compare},
    record::DecisionInputs,
};

/// How a scaling of the peer differs from our decision. Once the peer has scaled, both may agree
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalingDifference {
    /// On the metric values of the peer's status, the scaling goes further than the metrics ask
    /// for here, and no past recommendation raises the replicas here. Other windows and policies
    /// can't be the cause: they only reduce scalings.
    Exceeding,
    /// None of our inputs reproduces the metric values of the peer's status, or only those read
    /// after the scaling do.
    NotReproduced,
}

/// A total that an average in a status can stand for: an average over pods is rounded down to
/// milli-units, one by replica is rounded up.
#[derive(Clone, Copy, Debug)]
enum Total {
    Smallest,
    Largest,
}

/// Compares a scaling of the peer that differs from our decision in `comparison` once more, on the
/// metric values of the peer's status. `inputs` are those of our reconciles, newest first. `decide`
/// decides on inputs and a scale, which is `scale` but for its status replicas.
///
/// The result is a comparison without a difference if there is one. If the scaling exceeds our
/// decision, the result has the differences and the explanation on the peer's metric values.
pub(crate) fn compare_scaling<'a>(
    mut comparison: Comparison,
    inputs: &[Arc<DecisionInputs>],
    scale: &Scale,
    peer: PeerStatus<'_>,
    now: Timestamp,
    decide: impl Fn(&DecisionInputs, Scale) -> Decision<'a>,
) -> Comparison {
    if !comparison.differs_in_replicas() || peer.scaled_to().is_none() {
        return comparison;
    }
    let (mut exceeding, mut is_explained) = (None, false);
    // The peer divided totals by the status replicas that it read. During a rollout, for example,
    // these are the pods that the target had then.
    let earlier_pods = inputs.iter().skip(1).map(|inputs| inputs.selected.pods.len());
    let earlier_pods = earlier_pods.filter_map(|pods| i32::try_from(pods).ok());
    let all_status_replicas: BTreeSet<i32> = earlier_pods
        .filter(|pods| *pods > 0)
        .chain([peer.status.current_replicas, scale.status_replicas])
        .collect();
    for pods in pods_of_peer(inputs) {
        for status_replicas in all_status_replicas.iter().copied() {
            for total in [Total::Smallest, Total::Largest] {
                let inputs = with_peer_values(&pods, peer.status, status_replicas, total);
                let scale = Scale { status_replicas, ..scale.clone() };
                let other = compare(decide(&inputs, scale), peer, now);
                if !other.has_same_metrics {
                    continue;
                }
                if other.differences.is_empty() {
                    let has_read_peer_metrics = comparison.has_read_peer_metrics;
                    return Comparison { has_read_peer_metrics, ..other };
                }
                if exceeds(peer.status, &other) {
                    exceeding = Some(other);
                } else {
                    is_explained = true;
                }
            }
        }
    }
    if is_explained {
        return comparison;
    }
    // The inputs read now already have the pods that the scaling created.
    let has_inputs_before = inputs.len() > 1;
    comparison.scaling_difference = match exceeding.filter(|_| has_inputs_before) {
        Some(exceeding) => {
            comparison.differences = exceeding.differences;
            comparison.conclusion.explanation = exceeding.conclusion.explanation;
            Some(ScalingDifference::Exceeding)
        }
        None => Some(ScalingDifference::NotReproduced),
    };
    comparison
}

/// Whether the peer scaled further than our decision and its metrics ask for.
fn exceeds(peer: &HorizontalPodAutoscalerStatus, ours: &Comparison) -> bool {
    let explanation = &ours.conclusion.explanation;
    let desired = explanation.desired_replicas;
    let proposed = explanation.proposed_replicas.unwrap_or(desired);
    if peer.desired_replicas > peer.current_replicas {
        // The peer may keep a higher recommendation.
        explanation.stabilized_by.is_none() && peer.desired_replicas > desired.max(proposed)
    } else {
        peer.desired_replicas < desired.min(proposed)
    }
}

/// Inputs with the pods that the peer may have decided on: those of our reconciles, and the pods of
/// the previous reconcile as they are now, without those that the scaling created.
fn pods_of_peer(inputs: &[Arc<DecisionInputs>]) -> Vec<DecisionInputs> {
    let mut all: Vec<_> = inputs.iter().map(|inputs| DecisionInputs::clone(inputs)).collect();
    if let [newest, previous, ..] = inputs {
        let names: HashSet<&str> = previous.selected.pods.iter().map(|pod| &*pod.name).collect();
        let mut existing = DecisionInputs::clone(newest);
        existing.selected.pods.retain(|pod| names.contains(&*pod.name));
        all.push(existing);
    }
    all
}

/// The inputs, with the metric values of the peer's status instead of those that were read.
/// `replicas` is the number by which the peer divided totals.
fn with_peer_values(
    inputs: &DecisionInputs,
    peer: &HorizontalPodAutoscalerStatus,
    replicas: i32,
    total: Total,
) -> DecisionInputs {
    let mut inputs = inputs.clone();
    let names: HashSet<&str> = inputs.selected.pods.iter().map(|pod| &*pod.name).collect();
    for (metric, status) in peer.current_metrics.iter().enumerate() {
        let Some(Ok(reading)) = inputs.readings.get(metric) else { continue };
        let Some(current) = status.current() else { continue };
        if let Some(reading) = peer_value(reading, current, &names, replicas, total) {
            inputs.readings.insert(metric, Ok(reading));
        }
    }
    inputs
}

/// The reading with the value of a status. `None` if the status has no such value.
fn peer_value(
    reading: &Reading,
    current: &MetricValueStatus,
    pods: &HashSet<&str>,
    replicas: i32,
    total: Total,
) -> Option<Reading> {
    let average = current.average_value.as_ref().map(Quantity::milli_value);
    let value = || {
        let value = current.value.as_ref().map(Quantity::milli_value);
        value.or_else(|| Some(total_of_replicas(average?, replicas, total)))
    };
    Some(match reading {
        Reading::Pods(samples) => {
            Reading::Pods(samples_with_average(samples, pods, average?, total))
        }
        Reading::Object(_) => Reading::Object(value()?.into()),
        Reading::External(_) => Reading::External(vec![value()?].into()),
    })
}

/// The total of an average by replica, which is rounded up. At zero replicas, it is the total.
fn total_of_replicas(average: MilliValue, replicas: i32, total: Total) -> MilliValue {
    let replicas = i64::from(replicas.max(1));
    let largest = average.as_milli().saturating_mul(replicas);
    MilliValue::from_milli(match total {
        Total::Smallest => largest.saturating_sub(replicas - 1),
        Total::Largest => largest,
    })
}

/// The samples of these pods, each with the average, which is rounded down. One also has the
/// remainder of the total.
fn samples_with_average(
    samples: &PodSamples,
    pods: &HashSet<&str>,
    average: MilliValue,
    total: Total,
) -> PodSamples {
    let counted: Vec<_> = samples.iter().filter(|(pod, _)| pods.contains(pod)).collect();
    let mut rest = match total {
        Total::Smallest => 0,
        Total::Largest => i64::try_from(counted.len()).unwrap_or(i64::MAX).saturating_sub(1),
    };
    let samples = counted.into_iter().map(|(pod, sample)| {
        let value = average.saturating_add(MilliValue::from_milli(std::mem::take(&mut rest)));
        (pod, PodSample { value, ..*sample })
    });
    samples.collect()
}
