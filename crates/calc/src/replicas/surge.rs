//! The rules of `rollout=ignore-surge`: the surge of a rolling update doesn't raise the proposal
//! (kubernetes#138505). The surge is the number of pods in excess of `spec.replicas`.
//!
//! - The tolerance applies to the load divided by `spec.replicas`. Within tolerance, nothing
//!   changes, regardless of the number of pods that share the load at the moment.
//! - If the pods are not above the target on average, the proposal is at most `spec.replicas`. So
//!   usage that each new pod adds, such as memory, doesn't ratchet the replicas up. If there is
//!   more load than the surge pods can take, the average rises, and the target is scaled up at
//!   once. The same applies to Object and External metrics with an average target, but up to the
//!   target plus its tolerance.
//! - For a scale-up, unready and missing pods in excess of `spec.replicas` don't count. Otherwise,
//!   they would hide that the other pods are above the target.

use super::{Proposal, Rule, ValueTarget, pod_count};
use crate::{
    api::Pod,
    pods::PodCounts,
    settings::{Rollout, Tolerances},
};

/// The numbers of unready and of missing pods that the ratio has to include. Unready pods count
/// only for a scale-up. If the surge pods are ignored, a scale-up leaves out those in excess of
/// `current_replicas`.
pub(super) fn included_pods(
    counts: PodCounts,
    ratio: f64,
    current_replicas: i32,
    rollout: Rollout,
) -> (usize, usize) {
    let is_scale_up = ratio > 1.0;
    match rollout {
        _ if !is_scale_up => (0, counts.missing),
        Rollout::CountSurge => (counts.unready, counts.missing),
        Rollout::IgnoreSurge => {
            let pods = counts.ready + counts.unready + counts.missing;
            let surge = pods.saturating_sub(pod_count(current_replicas));
            let unready = counts.unready.saturating_sub(surge);
            let missing = counts.missing.saturating_sub(surge - (counts.unready - unready));
            (unready, missing)
        }
    }
}

/// The proposal of an average over pods. If the surge pods are ignored, it stays at
/// `current_replicas` while the load divided by them is within tolerance, and it is at most
/// `current_replicas` while the pods are not above the target.
pub(super) fn ignore_surge_pods(
    proposal: Proposal,
    current_replicas: i32,
    tolerances: Tolerances,
    rollout: Rollout,
) -> Proposal {
    let (Rollout::IgnoreSurge, Some(counted), 1..) =
        (rollout, proposal.counted_pods, current_replicas)
    else {
        return proposal;
    };
    let ratio = proposal.rebalanced_ratio.unwrap_or(proposal.ratio);
    let rule = if tolerances.contain(ratio * counted as f64 / f64::from(current_replicas)) {
        Rule::WithinTolerance
    } else if ratio <= 1.0 && proposal.replicas > current_replicas {
        Rule::SurgeIgnored
    } else {
        return proposal;
    };
    Proposal { replicas: current_replicas, rule, ..proposal }
}

/// The proposal of an average by replica. If surge pods share the load, and the load by pod is at
/// most the target plus its tolerance, the proposal is at most `target.replicas`, which are
/// `spec.replicas`. Only pods that are ready and not terminating share the load: unready pods serve
/// nothing, and terminating pods soon won't.
pub(crate) fn ignore_surge_pods_by_replica<'a>(
    proposal: Proposal,
    target: &ValueTarget,
    pods: impl IntoIterator<Item = &'a Pod>,
) -> Proposal {
    let replicas = target.replicas;
    if replicas <= 0 || proposal.replicas <= replicas {
        return proposal;
    }
    let is_serving = |pod: &&Pod| !pod.terminating && pod.is_running_and_ready();
    let serving = pods.into_iter().filter(is_serving).count() as f64;
    let ratio_by_pod = proposal.ratio * f64::from(replicas) / serving;
    if serving <= f64::from(replicas) || ratio_by_pod > 1.0 + target.tolerances.up {
        return proposal;
    }
    Proposal { replicas, rule: Rule::SurgeIgnored, ..proposal }
}
