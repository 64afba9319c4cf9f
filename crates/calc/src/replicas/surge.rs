//! The rules of `rollout=ignore-surge`: pods beyond the desired replicas, as during a rollout,
//! don't raise the proposal (kubernetes#138505).
//!
//! - The tolerance applies to the load per desired replica. Within it, nothing changes, regardless
//!   of the number of pods that share the load at the moment.
//! - Pods that are below the target on average never ask for more than the desired replicas. So
//!   usage that each new pod adds, such as memory, doesn't ratchet the replicas up. More load than
//!   the pods of the surge can take raises the average, and scales up at once. The same holds for
//!   Object and External metrics with an average target, such as the jobs that all pods work on.
//! - Of the pods without a sample that counts, those beyond the desired replicas don't count for a
//!   scale-up: they would hide that the others are above the target.

use super::{Proposal, Rule, ValueTarget};
use crate::{
    api::Pod,
    pods::PodCounts,
    settings::{Rollout, Tolerances},
};

/// The pods of a scale-up: without unready and missing ones beyond the desired replicas.
pub(super) fn counts_for_scale_up(
    counts: PodCounts,
    current_replicas: i32,
    rollout: Rollout,
) -> PodCounts {
    if rollout == Rollout::CountSurge {
        return counts;
    }
    let pods = counts.ready + counts.unready + counts.missing;
    let surge = pods.saturating_sub(usize::try_from(current_replicas).unwrap_or(0));
    let unready = counts.unready.saturating_sub(surge);
    let missing = counts.missing.saturating_sub(surge - (counts.unready - unready));
    PodCounts { unready, missing, ..counts }
}

/// The proposal of an average over pods, without the effect of the surge.
pub(super) fn without_surge(
    proposal: Proposal,
    current_replicas: i32,
    tolerances: Tolerances,
    rollout: Rollout,
) -> Proposal {
    if rollout == Rollout::CountSurge || current_replicas <= 0 {
        return proposal;
    }
    let ratio = proposal.rebalanced_ratio.unwrap_or(proposal.ratio);
    let counted = proposal.counted.unwrap_or(0) as f64;
    let rule = if tolerances.contain(ratio * counted / f64::from(current_replicas)) {
        Rule::WithinTolerance
    } else if ratio <= 1.0 && proposal.replicas > current_replicas {
        Rule::SurgeIgnored
    } else {
        return proposal;
    };
    Proposal { replicas: current_replicas, rule, ..proposal }
}

/// The proposal of an average by replica, without the effect of the surge. The replicas of the
/// target are the desired ones. Unready pods serve nothing, and terminating pods soon won't serve
/// anything, so neither can take a part of the load.
pub(crate) fn average_without_surge<'a>(
    proposal: Proposal,
    target: &ValueTarget,
    pods: impl IntoIterator<Item = &'a Pod>,
) -> Proposal {
    let desired = target.replicas;
    if desired <= 0 || proposal.replicas <= desired {
        return proposal;
    }
    let serving = |pod: &&Pod| !pod.terminating && pod.is_running_and_ready();
    let serving = pods.into_iter().filter(serving).count() as f64;
    let ratio_by_pod = proposal.ratio * f64::from(desired) / serving;
    if serving <= f64::from(desired) || ratio_by_pod > 1.0 + target.tolerances.up {
        return proposal;
    }
    Proposal { replicas: desired, rule: Rule::SurgeIgnored, ..proposal }
}
