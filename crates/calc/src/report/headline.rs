//! The first line of a report: the decision in one sentence. Its parts, in order: a pause and a dry
//! run, the [`outcome`], the [`reason_and_values`], the [`remarks`], and the [`Doubts`].

use super::{
    doubt::{
        Context, Doubts, active_limit, last_reported, pending_fallback, pending_fallback_time,
        reported_block, unwritten_scale,
    },
    failure,
    inputs::Inputs,
    limits::{ReplicaLimits, history_limits, time_since_scaling},
    metrics::MetricReport,
    phrases::{SettingOrigin, names, paused_since, paused_text},
    shared_target::bounds_conflict,
    target_pods::{
        absent_pods, counted_unready_pods, ignored_pods, missing_unready_pods, pending_pods,
        unready_pods, unschedulable_pods,
    },
    warning::{counted_succeeded_pods, ignored_by_built_in},
};
use crate::{
    api::{ConditionReason, ConditionType, CrossVersionObjectReference},
    explain::{MetricFailure, Reason, counted, minutes_and_seconds},
    history::Direction,
    pause::Pause,
    plan::{PlanKind, SelectorRejection},
};

/// The decision and its reason, unless another autoscaler or the controller's status replaces them.
pub(super) fn sentence(context: &Context<'_>, metrics: &[MetricReport], doubts: &Doubts) -> String {
    let inputs = context.inputs;
    let (main, shows_doubts) = if let Some(conflict) = bounds_conflict(inputs) {
        (conflict.to_owned(), true)
    } else if let Some(others) = other_selecting_autoscalers(inputs) {
        let select = if others.len() == 1 { "selects" } else { "select" };
        (format!("isn't scaled: {} {select} the same pods", names(&others)), true)
    } else if let Some(status) = status_instead_of_decision(context) {
        // The status is the controller's own: only the absence of a controller makes it doubtful.
        (status, doubts.lacks_controller)
    } else {
        (format!("{}: {}", outcome(context, doubts), reason_and_values(context, metrics)), true)
    };
    let doubts_after = doubts.clauses.iter().filter(|_| shows_doubts).cloned();
    let clauses = [main].into_iter().chain(remarks(inputs, doubts)).chain(doubts_after);
    pause_prefix(inputs) + &clauses.collect::<Vec<_>>().join("; ")
}

/// The replicas before and after the decision.
fn outcome(context: &Context<'_>, doubts: &Doubts) -> String {
    match (&context.inputs.scale, context.decision.scale_to()) {
        (Err(_), _) => "can't decide".to_owned(),
        (Ok(scale), Some(to)) => {
            let verb = if doubts.clauses.is_empty() { "scales" } else { "would scale" };
            format!("{verb} from {} to {to}", scale.spec_replicas)
        }
        (Ok(scale), None) => {
            let verb = if doubts.would_stay(context) { "would stay" } else { "stays" };
            format!("{verb} at {}", scale.spec_replicas)
        }
    }
}

/// The reason for the decision, then clauses about a fallback, unusual values and pods.
fn reason_and_values(context: &Context<'_>, metrics: &[MetricReport]) -> String {
    let &Context { inputs, decision, .. } = context;
    let absent = absent_pods(inputs, decision);
    // At most one of these clauses, the most serious one, is about the same pods.
    let uncounted = match absent {
        Some(_) => None,
        None => ignored_pods(inputs, decision)
            .or_else(|| failure::pods_without_metrics(inputs, decision)),
    };
    let pending = || pending_pods(inputs, decision).filter(|_| absent.is_none());
    let unready = unready_pods(inputs, decision).or_else(pending).filter(|_| uncounted.is_none());
    let winner = decision.explanation().winner.and_then(|index| metrics.get(index));
    // Without a decision, the age of the samples may be the cause.
    let unsampled =
        || metrics.iter().find(|one| one.explanation.failure == Some(MetricFailure::NoSamples));
    let old_samples = winner.or_else(unsampled);
    let old_samples = old_samples.and_then(|metric| failure::stale_metric(inputs, metric));
    let counted_unready = winner.and_then(counted_unready_pods);
    let missing_unready = winner.and_then(missing_unready_pods);
    let negative = winner.and_then(|metric| failure::negative_value_effect(inputs, metric));
    let unschedulable = unschedulable_pods(inputs, decision);
    // Without the history, the fallback is a doubt.
    let fallback = pending_fallback(context).filter(|_| inputs.history.is_some());
    let pods = [absent, uncounted, unschedulable, unready, missing_unready, counted_unready];
    let clauses = [Some(reason(context)), fallback, negative, old_samples].into_iter().chain(pods);
    clauses.flatten().collect::<Vec<_>>().join("; ")
}

/// The clauses about an invalid spec, about settings that kube-controller-manager ignores, and
/// about pods that only it counts. Those that are doubts are left out.
fn remarks(inputs: &Inputs, doubts: &Doubts) -> impl Iterator<Item = String> {
    let ignored = ignored_by_built_in(&inputs.settings);
    let clauses = invalid_bounds(inputs).into_iter().chain(ignored);
    let clauses = clauses.chain(counted_succeeded_pods(inputs));
    clauses.filter(move |clause| !doubts.clauses.contains(clause))
}

/// Describes bounds that exclude each other. The API server refuses them, so only a file has them.
pub(super) fn invalid_bounds(inputs: &Inputs) -> Option<String> {
    let spec = &inputs.hpa.spec;
    let max = spec.max_replicas;
    let min = spec.min_replicas.filter(|min| *min > max)?;
    Some(format!("the spec is invalid, because minReplicas {min} is above maxReplicas {max}"))
}

/// Whether a target is a `DaemonSet`, which has no scale subresource.
pub(super) fn is_daemon_set(target: &CrossVersionObjectReference) -> bool {
    target.kind == "DaemonSet" && target.api_version.starts_with("apps/")
}

/// The other autoscalers that select pods of the target, if that prevents scaling.
pub(super) fn other_selecting_autoscalers(inputs: &Inputs) -> Option<Vec<String>> {
    let plan = inputs.plan();
    let PlanKind::SelectorRejected(SelectorRejection::Ambiguous { autoscalers, .. }) = &plan.kind
    else {
        return None;
    };
    if let Some(own) = &inputs.selected.own_name {
        return Some(autoscalers.iter().filter(|name| *name != own).cloned().collect());
    }
    let own = inputs.hpa.metadata.qualified_name();
    // An autoscaler of the custom API can have the same name, which has a prefix here.
    let of_custom_api = format!("/{own}");
    let is_own = |name: &String| *name == own || name.ends_with(&of_custom_api);
    let is_single = autoscalers.iter().filter(|name| is_own(name)).count() == 1;
    let others = autoscalers.iter().filter(|name| !is_single || !is_own(name));
    Some(others.cloned().collect())
}

/// The text about a pause and a dry run, which precedes the outcome.
fn pause_prefix(Inputs { hpa, settings, .. }: &Inputs) -> String {
    let pause = || format!("is {}{} and ", paused_text(hpa, settings.pause), paused_since(hpa));
    let pause = (settings.pause != Pause::NONE).then(pause);
    let dry_run = || format!("is in dry run by {} and ", SettingOrigin::new(hpa, "dry-run"));
    pause.into_iter().chain(settings.dry_run.then(dry_run)).collect()
}

/// Describes the controller's last status instead of the decision, if only the controller can read
/// some metrics: the reported values, failures, limits, and unschedulable pods. `Some` only if
/// `ScalingActive` is true, the status has values of such metrics, and the decision doesn't scale.
fn status_instead_of_decision(context: &Context<'_>) -> Option<String> {
    let Context { inputs, decision, reported, .. } = context;
    let (scale, Inputs { hpa, .. }) = (inputs.scale.as_ref().ok()?, inputs);
    let is_active = hpa.status.is_true(&ConditionType::ScalingActive);
    if decision.scale_to().is_some() || !is_active || reported.values.is_empty() {
        return None;
    }
    let explanation = decision.explanation();
    let values = reported.values_text(explanation, "");
    let causes = reported.causes_text(hpa, explanation, &values);
    let unknown = reported.unknown_names(hpa);
    let unknown = (!unknown.is_empty()).then(|| format!("no value of {}", unknown.join(" and ")));
    let failed = unwritten_scale(context).or_else(|| reported_block(context));
    let bounds = [ConditionReason::TooManyReplicas, ConditionReason::TooFewReplicas];
    let limits = [history_limits(Direction::Up), history_limits(Direction::Down), bounds];
    let limits: Vec<_> = limits.iter().filter_map(|one| active_limit(inputs, one)).collect();
    let limits = (!limits.is_empty()).then(|| last_reported(limits.join(" and ")));
    let unschedulable = unschedulable_pods(inputs, decision);
    let texts = [Some(values), Some(causes), unknown, failed, limits, unschedulable];
    let texts = texts.into_iter().flatten().filter(|text| !text.is_empty());
    Some(format!(
        "has {}, {} desired: {}",
        counted(scale.spec_replicas, "replica"),
        hpa.status.desired_replicas,
        texts.collect::<Vec<_>>().join("; ")
    ))
}

/// The reason for the decision, with the metrics that could not be read.
fn reason(context: &Context<'_>) -> String {
    let Context { inputs, decision, reported, .. } = context;
    let (explanation, hpa) = (decision.explanation(), &inputs.hpa);
    let failures = explanation.failures(hpa);
    let mut failures = failures.map(|_| reported.failures(hpa, explanation).unwrap_or_default());
    let target = &hpa.spec.scale_target_ref;
    match decision.error().filter(|_| failures.is_none()) {
        Some(_) if inputs.scale.is_err() && is_daemon_set(target) => {
            return format!("DaemonSet {} has no scale", target.name);
        }
        Some(error) if !error.is_partial() => return error.cause().to_owned(),
        _ => {}
    }
    let time = stabilization_time(context);
    let mut sentence = explanation.sentence_with(hpa, &mut failures, time.as_deref());
    if explanation.reason() == Reason::Paused && inputs.history.is_none() {
        sentence += ", unless stabilization or a policy holds it";
    }
    match failures {
        Some(failures) => format!("{sentence}; {failures}"),
        None => sentence,
    }
}

/// The durations in the [`sentence`] that differ in each report.
pub(super) fn durations(context: &Context<'_>) -> Vec<String> {
    let stabilization = stabilization_time(context).map(|time| format!(" {time}"));
    let times = [stabilization, pending_fallback_time(context), time_since_scaling(context.inputs)];
    times.into_iter().flatten().collect()
}

/// The time until the recommendation that holds the replicas leaves the window. A duration, not a
/// time of day, because recommendations have the time of the controller's clock, which may be
/// wrong. `None` if the history is unknown.
fn stabilization_time(context: &Context<'_>) -> Option<String> {
    let (inputs, explanation) = (context.inputs, context.decision.explanation());
    let is_named = matches!(explanation.reason(), Reason::Stabilization | Reason::Metrics);
    if inputs.history.is_none() || !is_named {
        return None;
    }
    let until = ReplicaLimits::new(inputs, explanation)?.stabilization.held_by?.until;
    let seconds = until.duration_since(inputs.now).as_secs_f64();
    Some(format!("for another {}", minutes_and_seconds(seconds)))
}
