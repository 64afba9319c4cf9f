//! The target's pods that don't exist, are not ready or don't count.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    inputs::Inputs,
    metrics::{MetricReport, PodReport},
    phrases::{age, namespace},
    short::CREATION_PERIOD,
};
use crate::{
    api::{Pod, PodPhase, Scale},
    decision::Decision,
    explain::{MetricExplanation, Reason, counted, none_ready_text},
    pods::{self, PodClass, is_pending_or_unready, is_unready},
    replicas::{Rule, pod_count},
    shell::{quote, quote_always},
};

/// Describes pods that don't exist or don't count, if they keep the replicas from following the
/// metrics, have been missing for longer than their creation takes, or can't be created.
pub(super) fn absent_pods(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    let (winner, scale) = winner_and_scale(inputs, decision)?;
    let (existing, replicas) = (scale.status_replicas, scale.spec_replicas);
    let failure = inputs.selected.replica_failure.as_ref().filter(|_| existing < replicas);
    // A quota or a webhook may refuse the pods.
    let is_missing_for_long = lacks_existing_pods(inputs) && has_settled(inputs);
    if failure.is_none() && !is_held_back(inputs, decision) && !is_missing_for_long {
        return None;
    }
    let pods = match winner.counted_pods {
        Some(count) if existing >= replicas => part_of_pods(inputs, count, replicas, "count"),
        _ => part_of_pods(inputs, pod_count(existing), replicas, "exist"),
    };
    Some(match failure {
        Some(failure) => format!("{pods}: {failure}"),
        None => pods,
    })
}

/// Describes the pods that count, if fewer count than the target has replicas. There are two cases.
/// Other pods are ignored, and the proposal is smaller than the ratio of the metric suggests. Or
/// other pods have no sample, and nothing is assumed for them, because the metric is exactly at its
/// target.
pub(super) fn ignored_pods(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    let (winner, scale) = winner_and_scale(inputs, decision)?;
    let (count, replicas) = (winner.counted_pods?, scale.spec_replicas);
    let is_smaller =
        winner.rule == Some(Rule::Proportional) && winner.pods.is_some_and(|pods| pods.ignored > 0);
    let is_at_target = winner.ratio.is_some_and(|ratio| ratio.total_cmp(&1.0).is_eq());
    let lacks_samples = is_at_target && winner.rebalanced_ratio.is_some();
    (count < pod_count(replicas) && (is_smaller || lacks_samples))
        .then(|| part_of_pods(inputs, count, replicas, "count"))
}

/// Whether pods that don't exist or don't count keep the replicas from following the metrics.
fn is_held_back(inputs: &Inputs, decision: &Decision<'_>) -> bool {
    let Some((winner, scale)) = winner_and_scale(inputs, decision) else { return false };
    let scales_up = decision.scale_to().is_some_and(|to| to > scale.spec_replicas);
    !scales_up && lacks_pods(winner, scale.spec_replicas)
}

/// Whether the target has fewer pods than replicas.
///
/// A status without pods doesn't count: maybe no controller writes it, as with a custom resource.
/// If the selector matches as many active pods as replicas, the status doesn't count either: it is
/// outdated, or has only some of the pods, such as the ready ones.
pub(super) fn lacks_existing_pods(inputs: &Inputs) -> bool {
    let Ok(scale) = &inputs.scale else { return false };
    (1..scale.spec_replicas).contains(&scale.status_replicas)
        && active_pods(inputs).count() < pod_count(scale.spec_replicas)
}

/// Whether the pods of the last scaling have had the time to be created or deleted.
fn has_settled(inputs: &Inputs) -> bool {
    let scaled = inputs.hpa.status.last_scale_time;
    scaled.is_none_or(|scaled| inputs.now.duration_since(scaled) >= CREATION_PERIOD)
}

/// Advice about pods in excess of the replicas, which an average by replica counts. A `StatefulSet`
/// and a `ReplicaSet` have such pods only while they scale down.
pub(super) fn about_surge_pods(inputs: &Inputs, metrics: &[MetricReport]) -> Option<String> {
    let scale = inputs.scale.as_ref().ok()?;
    let is_by_replica = metrics.iter().any(|metric| metric.explanation.total.is_some());
    let has_no_surge =
        matches!(&*inputs.hpa.spec.scale_target_ref.kind, "StatefulSet" | "ReplicaSet");
    let surge = scale.status_replicas.saturating_sub(scale.spec_replicas);
    let deleted = inputs.selected.pods.iter().filter(|pod| pod.terminating).count();
    let active = active_pods(inputs).count();
    // A person may have scaled the target down, and the status still counts the pods.
    let is_kept =
        surge > 0 && (pod_count(surge) > deleted || active > pod_count(scale.spec_replicas));
    let has_surge = is_kept && has_settled(inputs);
    (is_by_replica && has_surge && !has_no_surge).then(|| {
        format!(
            "The target has {} for {}, as during a rolling update. An average by replica counts \
             all of them, so it may ask for as many. Lower maxSurge to limit that.",
            counted(scale.status_replicas, "pod"),
            counted(scale.spec_replicas, "replica")
        )
    })
}

fn winner_and_scale<'a>(
    inputs: &'a Inputs,
    decision: &'a Decision<'_>,
) -> Option<(&'a MetricExplanation, &'a Scale)> {
    decision.explanation().winning_metric().zip(inputs.scale.as_ref().ok())
}

/// A clause such as `1 of 3 pods counts (2 being deleted)`. `verb` is in the plural.
fn part_of_pods(inputs: &Inputs, part: usize, replicas: i32, verb: &str) -> String {
    let ending = if part == 1 { "s" } else { "" };
    let states = ignored_pods_by_state(inputs).map(|states| format!(" ({states})"));
    let states = states.unwrap_or_default();
    format!("{part} of {} {verb}{ending}{states}", counted(replicas, "pod"))
}

/// Counts the pods that no metric by pod counts, by state: `1 Failed, 2 being deleted`. `None` if
/// there are none.
pub(super) fn ignored_pods_by_state(inputs: &Inputs) -> Option<String> {
    let ignored = inputs.selected.pods.iter().filter(|pod| !pod.is_active());
    let states: Vec<&str> = ignored.filter_map(|pod| idle_state(pod)).collect();
    (!states.is_empty()).then(|| count_states(&states))
}

/// The state of a pod that is not ready according to its condition.
pub(super) const NOT_READY: &str = "not ready";

/// The state of a pod. `None` if it runs and may be ready.
pub(super) fn idle_state(pod: &Pod) -> Option<&str> {
    match &pod.phase {
        _ if pod.terminating => Some("being deleted"),
        PodPhase::Running if is_unready(pod) => Some(NOT_READY),
        PodPhase::Pending | PodPhase::Failed | PodPhase::Succeeded => Some(pod.phase.as_str()),
        _ => None,
    }
}

/// The name of a pod that runs and may be ready.
pub(super) fn running_pod(inputs: &Inputs) -> Option<&str> {
    let pod = inputs.selected.pods.iter().find(|pod| idle_state(pod).is_none())?;
    Some(&pod.name)
}

/// Counts equal states: `1 Failed, 2 being deleted`.
pub(super) fn count_states(states: &[&str]) -> String {
    let counts = count_equal(states.iter().copied());
    let counts: Vec<_> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
    counts.join(", ")
}

fn count_equal<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for text in texts {
        *counts.entry(text).or_default() += 1;
    }
    counts
}

/// Whether a metric is above its target, but asks for at most the current replicas, because fewer
/// pods count.
pub(super) fn lacks_pods(metric: &MetricExplanation, replicas: i32) -> bool {
    let is_above = metric
        .ratio
        .zip(metric.tolerances)
        .is_some_and(|(ratio, (up, _))| ratio.is_finite() && ratio > 1.0 + up);
    metric.rule == Some(Rule::Proportional)
        && is_above
        && metric.proposed_replicas.is_some_and(|proposed| proposed <= replicas)
        && metric.counted_pods.is_some_and(|counted| counted < pod_count(replicas))
}

/// Counts the pods that are not ready: first those that have had the time to start, then the
/// others. `None` if there are none of the first.
pub(super) fn unready_pods(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    let unready = long_unready_pods(inputs, decision)?;
    let pods = active_pods(inputs);
    let starting = pods.filter(|pod| is_pending_or_unready(pod) && is_in_start_up(inputs, pod));
    Some(match starting.count() {
        0 => unready,
        1 => format!("{unready}, 1 is starting"),
        starting => format!("{unready}, {starting} are starting"),
    })
}

/// Counts the pods that are not ready, except those in their start-up. `None` if there are none, or
/// if another part of the sentence is about them: the ratio that includes unready pods, the failure
/// of a metric, or the pods that don't count.
fn long_unready_pods(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    let explanation = decision.explanation();
    let winner = explanation.winning_metric();
    let is_rebalanced = winner.is_some_and(|winner| winner.rebalanced_ratio.is_some());
    let is_named = is_rebalanced || is_held_back(inputs, decision);
    if is_named || explanation.reason() == Reason::Failed {
        return None;
    }
    let total = active_pods(inputs).count();
    let unready = active_pods(inputs).filter(|pod| is_pending_or_unready(pod));
    let none_is_ready = unready.clone().count() == total;
    let long_unready = unready.filter(|pod| !is_in_start_up(inputs, pod)).count();
    match long_unready {
        0 => None,
        _ if none_is_ready => Some(none_ready_text(total)),
        1 => Some(format!("1 of {total} pods is not ready")),
        _ => Some(format!("{long_unready} of {total} pods are not ready")),
    }
}

/// Counts the [pods that stay pending](long_pending_count), for example because no node has room.
/// `None` if there are none, or if the ratio includes no unready pods: then [`unready_pods`] counts
/// them.
pub(super) fn pending_pods(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    decision.explanation().winning_metric()?.rebalanced_ratio?;
    let total = active_pods(inputs).count();
    match long_pending_count(inputs) {
        0 => None,
        1 => Some(format!("1 of {} is pending", counted(total, "pod"))),
        pending => Some(format!("{pending} of {total} pods are pending")),
    }
}

/// The number of pods that are pending although the last scaling [has settled](has_settled), except
/// those in their start-up and those that the scheduler can't place.
pub(super) fn long_pending_count(inputs: &Inputs) -> usize {
    if !has_settled(inputs) {
        return 0;
    }
    let pending = active_pods(inputs).filter(|pod| pod.phase == PodPhase::Pending);
    pending.filter(|pod| !pod.unschedulable && !is_in_start_up(inputs, pod)).count()
}

/// Counts the pods that the scheduler can't place, with the most frequent reason, if one is known.
/// `None` if there are none.
pub(super) fn unschedulable_pods(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    let pods = decision.explanation().unschedulable_pods?;
    let unschedulable = active_pods(inputs).filter(|pod| pod.unschedulable);
    let failures = &inputs.selected.scheduling_failures;
    let failures = unschedulable.filter_map(|pod| failures.get(&*pod.name));
    let counts = count_equal(failures.map(String::as_str));
    Some(match counts.into_iter().max_by_key(|(_, count)| *count) {
        Some((failure, _)) => format!("{pods} ({failure})"),
        None => pods.to_string(),
    })
}

/// Counts the unready pods of the deciding metric whose samples count, if its ratio includes other
/// pods without their samples.
pub(super) fn counted_unready_pods(winner: &MetricReport) -> Option<String> {
    let MetricExplanation { ratio, pods, .. } = &winner.explanation;
    winner.explanation.rebalanced_ratio?;
    let is_sampled = |pod: &&PodReport| pod.is_unready && pod.class == PodClass::Ready;
    let count = winner.pod_list.iter().filter(is_sampled).count();
    let is_up = ratio.is_some_and(|ratio| ratio > 1.0);
    let has_others = is_up && pods.is_some_and(|pods| pods.unready > 0);
    let unready = if has_others { "other unready" } else { "unready" };
    match count {
        0 => None,
        1 => Some(format!("the sample of 1 {unready} pod counts")),
        _ => Some(format!("the samples of {count} {unready} pods count")),
    }
}

/// Counts the pods that the ratio of the deciding metric includes as missing, and that are not
/// ready, except those in their start-up. Pods that crash again and again often have no sample.
pub(super) fn missing_unready_pods(winner: &MetricReport) -> Option<String> {
    winner.explanation.rebalanced_ratio?;
    let missing = winner.pod_list.iter().filter(|pod| pod.class == PodClass::Missing);
    let unready = missing.filter(|pod| pod.is_unready && !pod.is_starting);
    match unready.count() {
        0 => None,
        1 => Some("1 missing pod is not ready".to_owned()),
        count => Some(format!("{count} missing pods are not ready")),
    }
}

/// The pods that neither have finished nor are being deleted.
fn active_pods(inputs: &Inputs) -> impl Iterator<Item = &Pod> + Clone {
    inputs.selected.pods.iter().filter(|pod| pod.is_active()).map(AsRef::as_ref)
}

/// Advice about the pods of [`absent_pods`].
pub(super) fn about_absent_pods(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    let absent = absent_pods(inputs, decision)?;
    let scale = inputs.scale.as_ref().ok()?;
    Some(if scale.status_replicas >= scale.spec_replicas {
        format!("Only {absent}. Check the target's pods: {}", pods_command(inputs, "get"))
    } else {
        let scaled = inputs.hpa.status.last_scale_time;
        let scaled =
            scaled.map(|at| format!(" The autoscaler last scaled {} ago.", age(at, inputs.now)));
        let events = match inputs.hpa.spec.scale_target_ref.kind.as_str() {
            "StatefulSet" => {
                "By default, a StatefulSet creates a pod only when those before it are ready. \
                 Otherwise, the"
            }
            _ => "The",
        };
        let scaled = scaled.unwrap_or_default();
        format!("Only {absent}.{scaled} {events} {}", creation_events(inputs))
    })
}

/// The command that prints the pods of the target's selector. `verb` is `get` or `describe`.
pub(super) fn pods_command(inputs: &Inputs, verb: &str) -> String {
    let selector = quote_always(inputs.scale.as_ref().map_or("", |scale| &scale.selector));
    format!("kubectl {verb} pods --selector {selector} --namespace {}", namespace(&inputs.hpa))
}

/// The rest of a sentence that starts with `the`, with a command that shows why the target doesn't
/// have more pods.
pub(super) fn creation_events(inputs: &Inputs) -> String {
    let (target, namespace) = (&inputs.hpa.spec.scale_target_ref, namespace(&inputs.hpa));
    let kind = &target.kind;
    let selector = quote_always(inputs.scale.as_ref().map_or("", |scale| &scale.selector));
    let objects = match kind.as_str() {
        "Deployment" => format!("replicasets --selector {selector}"),
        _ => format!("{} {}", quote(kind), quote(&target.name)),
    };
    let owner = if kind == "Deployment" { "ReplicaSet" } else { kind };
    format!(
        "events of the {owner} explain why it doesn't create more: kubectl describe {objects} \
         --namespace {namespace}"
    )
}

/// Pods that need a check.
struct PodsToCheck {
    /// A clause with their number and state.
    clause: String,
    includes: fn(&Pod) -> bool,
}

/// The pods that the scheduler can't place, or else those of [`long_unready_pods`], or else of
/// [`pending_pods`].
fn pods_to_check(inputs: &Inputs, decision: &Decision<'_>) -> Option<PodsToCheck> {
    if let Some(pods) = decision.explanation().unschedulable_pods {
        return Some(PodsToCheck { clause: pods.to_string(), includes: |pod| pod.unschedulable });
    }
    if let Some(clause) = long_unready_pods(inputs, decision) {
        return Some(PodsToCheck { clause, includes: is_pending_or_unready });
    }
    let clause = pending_pods(inputs, decision)?;
    Some(PodsToCheck { clause, includes: |pod| pod.phase == PodPhase::Pending })
}

/// Advice about the [`pods_to_check`].
pub(super) fn about_unready_pods(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    let PodsToCheck { clause, .. } = pods_to_check(inputs, decision)?;
    Some(format!("Check why {clause}: {}", pods_command(inputs, "describe")))
}

/// The names of the [`pods_to_check`].
pub(super) fn pods_with_advice<'a>(
    inputs: &'a Inputs,
    decision: &Decision<'_>,
) -> BTreeSet<&'a str> {
    let Some(pods) = pods_to_check(inputs, decision) else { return BTreeSet::new() };
    active_pods(inputs).filter(|pod| (pods.includes)(pod)).map(|pod| &*pod.name).collect()
}

/// Whether a pod may be unready or not measured because it is
/// [still starting](pods::is_in_start_up). A pod without a start time is not on a node yet, and may
/// be new until the last scaling [has settled](has_settled).
pub(super) fn is_in_start_up(inputs: &Inputs, pod: &Pod) -> bool {
    match pod.start_time {
        Some(start) => pods::is_in_start_up(pod, start, &inputs.settings, inputs.now),
        None => pod.phase == PodPhase::Pending && !has_settled(inputs),
    }
}
