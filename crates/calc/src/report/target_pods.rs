//! The target's pods that don't exist, are not ready or don't count.

use super::{failure, inputs::Inputs, metrics::is_unready, phrases::namespace};
use crate::{
    api::{Pod, PodPhase},
    decision::Decision,
    explain::{MetricExplanation, Reason, counted},
    replicas::Rule,
    shell::{quote, quote_always},
};

/// Describes the pods that keep the replicas from following the metrics, because they don't exist
/// or don't count.
pub(super) fn absent_pods(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    let explanation = decision.explanation();
    let winner = explanation.metrics.get(explanation.winner?)?;
    let scale = inputs.scale.as_ref().ok()?;
    let (existing, replicas) = (scale.status_replicas, scale.spec_replicas);
    if decision.scale_to().is_some() || !lacks_pods(winner, replicas) {
        return None;
    }
    let pods = counted(replicas, "pod");
    Some(match winner.counted_pods {
        Some(count) if existing >= replicas => format!("{count} of {pods} count"),
        _ => format!("{existing} of {pods} exist"),
    })
}

/// Whether a metric above its target asks for the current replicas, because fewer pods count.
pub(super) fn lacks_pods(metric: &MetricExplanation, replicas: i32) -> bool {
    let is_above = metric
        .ratio
        .zip(metric.tolerances)
        .is_some_and(|(ratio, (up, _))| ratio.is_finite() && ratio > 1.0 + up);
    let counted = metric.counted_pods.and_then(|counted| i32::try_from(counted).ok());
    metric.rule == Some(Rule::Proportional)
        && is_above
        && metric.proposed_replicas == Some(replicas)
        && counted.is_some_and(|counted| counted < replicas)
}

/// Counts the pods that are not ready, except those that started recently. `None` if there are
/// none, or if another part of the sentence is about them: the ratio that includes unready pods,
/// the failure of a metric, or the pods that don't count.
pub(super) fn unready_pods(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    let explanation = decision.explanation();
    let winner = explanation.winner.and_then(|index| explanation.metrics.get(index));
    let is_rebalanced = winner.is_some_and(|winner| winner.rebalanced_ratio.is_some());
    let is_named = is_rebalanced || absent_pods(inputs, decision).is_some();
    if is_named || explanation.reason() == Reason::Failed {
        return None;
    }
    let active = inputs.selected.pods.iter().filter(|pod| pod.is_active());
    let total = active.clone().count();
    let unready = active.filter(|pod| is_pending_or_unready(pod));
    let unready = unready.filter(|pod| !failure::started_recently(inputs, pod)).count();
    match (unready, total) {
        (0, _) => None,
        (_, 1) => Some("the only pod is not ready".to_owned()),
        (1, _) => Some(format!("1 of {total} pods is not ready")),
        _ => Some(format!("{unready} of {total} pods are not ready")),
    }
}

fn is_pending_or_unready(pod: &Pod) -> bool {
    pod.phase == PodPhase::Pending || is_unready(pod)
}

/// Advice about the pods of [`absent_pods`].
pub(super) fn about_absent_pods(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    let absent = absent_pods(inputs, decision)?;
    let scale = inputs.scale.as_ref().ok()?;
    let (target, namespace) = (&inputs.hpa.spec.scale_target_ref, namespace(&inputs.hpa));
    let (selector, kind) = (quote_always(&scale.selector), &target.kind);
    if scale.status_replicas >= scale.spec_replicas {
        return Some(format!(
            "Only {absent}: the others have failed or are being deleted: kubectl get pods \
             --selector {selector} --namespace {namespace}"
        ));
    }
    let objects = match kind.as_str() {
        "Deployment" => format!("replicasets --selector {selector}"),
        _ => format!("{} {}", quote(kind), quote(&target.name)),
    };
    let owner = if kind == "Deployment" { "ReplicaSet" } else { kind };
    Some(format!(
        "Only {absent}. The events of the {owner} say why it creates no more: kubectl describe \
         {objects} --namespace {namespace}"
    ))
}

/// Advice about the pods of [`unready_pods`].
pub(super) fn about_unready_pods(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    let unready = unready_pods(inputs, decision)?;
    let scale = inputs.scale.as_ref().ok()?;
    Some(format!(
        "Check why {unready}: kubectl describe pods --selector {} --namespace {}",
        quote_always(&scale.selector),
        namespace(&inputs.hpa)
    ))
}
