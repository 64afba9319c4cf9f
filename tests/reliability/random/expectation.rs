//! The requirements on a run: the replicas at its end, which follow from the plan, the loads and
//! the stored objects, and regular reconciles.

use std::time::Duration;

use super::{
    FAULTS_END,
    faults::PlannedFault,
    plan::{Change, MAX_RESTART_DELAY, Plan, Step},
};
use crate::{
    LEASE_DURATION, PERIOD,
    cluster::Cluster,
    invariants::{bounds_of, longest_gaps},
    targets::Target,
};

/// The maximum time between two reconciles of an autoscaler that no fault affects.
const LONGEST_GAP: Duration = Duration::from_secs(2 * PERIOD.as_secs());

/// Targets whose replicas don't match their load.
pub(super) fn unexpected_replicas(plan: &Plan, cluster: &Cluster) -> Vec<String> {
    let mismatch = |(index, target): (usize, &Target)| {
        let expected = expected(plan, index, cluster)?;
        let replicas = cluster.replicas(target);
        (replicas != expected).then(|| {
            let load = cluster.loads.now(&target.id);
            format!("{} has {replicas} replicas, but needs {expected} for load {load}", target.id)
        })
    };
    plan.shape.targets.iter().enumerate().filter_map(mismatch).collect()
}

/// The expected replicas. `None` if they depend on timing, or if there is no autoscaler.
fn expected(plan: &Plan, index: usize, cluster: &Cluster) -> Option<i64> {
    let target = &plan.shape.targets[index];
    let is_pause = |change: Change| matches!(change, Change::Scale(0));
    // The restored state may be from before or after the pause.
    if plan.restores() && plan.changes_of(index).any(is_pause) {
        return None;
    }
    // Timing decides whether a recreated, edited or restored autoscaler finds its target at zero.
    let is_edited = |change: Change| matches!(change, Change::RecreateAutoscaler | Change::Min(_));
    if target.can_scale_to_zero && (plan.restores() || plan.changes_of(index).any(is_edited)) {
        return None;
    }
    let sets_replicas =
        |change: &Change| matches!(change, Change::Scale(_) | Change::RecreateTarget(_));
    if plan.changes_of(index).filter(sets_replicas).last().is_some_and(is_pause) {
        return Some(0);
    }
    let object = cluster.autoscaler(target)?;
    let (min, max) = bounds_of(&object["spec"], &object["metadata"]["annotations"]);
    Some(cluster.loads.now(&target.id).clamp(min, max))
}

/// Gaps between the reconciles of an autoscaler that are too long, and that no fault or incident
/// explains.
pub(super) fn unexplained_gaps(plan: &Plan, cluster: &Cluster) -> Vec<String> {
    let reconciles = cluster.journal.reconciles();
    let mut violations = Vec::new();
    for span in healthy_spans(plan) {
        let Span { from, to, longest_gap } = span;
        let gaps = longest_gaps(&reconciles, from, to);
        for target in &plan.shape.targets {
            let explains = |fault: &PlannedFault| {
                fault.affects(target) && fault.from < to && from < fault.until + longest_gap
            };
            let gap = gaps.get(&target.id).copied().unwrap_or(to.saturating_sub(from));
            if gap > longest_gap && !plan.faults.iter().any(explains) {
                violations.push(format!(
                    "{} was not reconciled for {gap:?} between {from:?} and {to:?}",
                    target.id
                ));
            }
        }
    }
    violations
}

/// A time span in which autoscalers that no fault affects are reconciled regularly.
struct Span {
    from: Duration,
    to: Duration,
    longest_gap: Duration,
}

/// The time spans without incidents. With leader election, also those with changes of the leader.
fn healthy_spans(plan: &Plan) -> Vec<Span> {
    let mut spans = spans_between(&plan.incidents, LONGEST_GAP);
    if plan.shape.has_leader_election {
        let changes_leader = |step: &Step| matches!(step, Step::Kill | Step::Stop | Step::Start);
        let others = plan.incidents.iter().filter(|(_, step)| !changes_leader(step)).cloned();
        let others: Vec<_> = others.collect();
        spans.extend(spans_between(&others, LONGEST_GAP + LEASE_DURATION));
    }
    spans
}

fn spans_between(incidents: &[(Duration, Step)], longest_gap: Duration) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut from = PERIOD;
    for (at, step) in incidents {
        spans.push(Span { from, to: *at, longest_gap });
        let outage = match step {
            Step::RestartApi(down_for) => *down_for,
            Step::Kill | Step::Stop => MAX_RESTART_DELAY,
            // The leader may lose the lease.
            Step::Skew(_) => LEASE_DURATION,
            _ => Duration::ZERO,
        };
        from = from.max(*at + outage + longest_gap);
    }
    spans.push(Span { from, to: FAULTS_END, longest_gap });
    spans.retain(|span| span.from + span.longest_gap < span.to);
    spans
}
