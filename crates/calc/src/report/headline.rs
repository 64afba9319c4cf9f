//! The first line of a report: the decision in one sentence.

use std::fmt::Display;

use jiff::Timestamp;

use super::{
    error_texts::FORBIDDEN,
    failed_write, failure,
    inputs::Inputs,
    limits::ReplicaLimits,
    metrics::MetricReport,
    phrases::{SettingOrigin, names, paused_text},
    reported::ReportedMetrics,
    reported_failure::{ReportedFailure, failed_read},
    shared_target::bounds_conflict,
    target_pods::{absent_pods, counted_unready_pods, ignored_pods, unready_pods},
    warning::{ignored_by_reference, succeeded_pods_of_reference},
};
use crate::{
    api::{
        ConditionReason, ConditionStatus, ConditionType, CrossVersionObjectReference,
        HorizontalPodAutoscalerStatus,
    },
    behavior::EffectiveBehavior,
    decision::Decision,
    explain::{Explanation, Reason, counted, one_line, window_text},
    history::Direction,
    pause::Pause,
    plan::{PlanKind, SelectorRejection},
};

/// The decision and its reason. `doubt` is the reason why the scaling may not happen or, if
/// `is_idle`, states that no controller runs.
pub(super) fn sentence(
    inputs: &Inputs,
    decision: &Decision<'_>,
    metrics: &[MetricReport],
    doubt: Option<&str>,
    is_idle: bool,
) -> String {
    let prefix = pause_prefix(inputs);
    let remarks = remarks(inputs, doubt);
    let ending = doubt.map(|doubt| format!("; {doubt}")).unwrap_or_default();
    if let Some(conflict) = bounds_conflict(inputs) {
        return format!("{prefix}{conflict}{remarks}{ending}");
    }
    if let Some(others) = other_selecting_autoscalers(inputs) {
        let select = if others.len() == 1 { "selects" } else { "select" };
        let others = names(others.iter().map(String::as_str));
        return format!("{prefix}isn't scaled: {others} {select} the same pods{remarks}{ending}");
    }
    let reported = ReportedMetrics::new(inputs, decision);
    if let Some(status) = status_instead_of_decision(inputs, decision, &reported) {
        let ending = if is_idle { ending } else { String::new() };
        return format!("{prefix}{status}{remarks}{ending}");
    }
    let why = reason(inputs, decision, &reported);
    let may_differ = inputs.settings.dry_run
        || is_forbidden_here(decision, &reported)
        || !is_idle && ReportedFailure::new(inputs, decision).is_some()
        || succeeded_pods_of_reference(inputs).is_some();
    let absent = absent_pods(inputs, decision);
    let others = match absent {
        Some(_) => None,
        None => ignored_pods(inputs, decision)
            .or_else(|| failure::pods_without_metrics(inputs, decision)),
    };
    let unready = unready_pods(inputs, decision).filter(|_| others.is_none());
    let winner = decision.explanation().winner.and_then(|index| metrics.get(index));
    let old_samples = winner.and_then(|metric| failure::stale_metric(inputs, metric));
    let counted_unready = winner.and_then(counted_unready_pods);
    let negative = winner.and_then(|metric| failure::negative_value(inputs, metric));
    let negative = negative.map(|value| {
        format!("{value} counts as the largest number, as in kube-controller-manager")
    });
    let clauses = [Some(why), negative, old_samples, absent, others, unready, counted_unready];
    let why = clauses.into_iter().flatten().collect::<Vec<_>>().join("; ");
    let outcome = match (&inputs.scale, decision.scale_to()) {
        (Err(_), _) => "can't decide".to_owned(),
        (Ok(scale), Some(to)) => {
            let verb = if doubt.is_some() { "would scale" } else { "scales" };
            format!("{verb} from {} to {to}", scale.spec_replicas)
        }
        (Ok(scale), None) if may_differ => format!("would stay at {}", scale.spec_replicas),
        (Ok(scale), None) => format!("stays at {}", scale.spec_replicas),
    };
    format!("{prefix}{outcome}: {why}{remarks}{ending}")
}

/// The clauses about an invalid spec, and about settings that kube-controller-manager ignores and
/// pods that it counts, each after a separator, without those that the doubt has.
fn remarks(inputs: &Inputs, doubt: Option<&str>) -> String {
    let ignored = ignored_by_reference(&inputs.settings);
    let clauses = invalid_bounds(inputs).into_iter().chain(ignored);
    let clauses = clauses.chain(succeeded_pods_of_reference(inputs));
    let clauses = clauses.filter(|clause| doubt.is_none_or(|doubt| !doubt.contains(clause)));
    clauses.flat_map(|clause| ["; ".to_owned(), clause]).collect()
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
    let pause = || format!("is {} and ", paused_text(hpa, settings.pause));
    let pause = (settings.pause != Pause::NONE).then(pause);
    let dry_run = || format!("is in dry run by {} and ", SettingOrigin::of_dry_run(hpa));
    pause.into_iter().chain(settings.dry_run.then(dry_run)).collect()
}

/// The values that the controller reported last, for metrics that can't be read here, with the
/// limits and the failure of the scale that it reported. `None` unless there are such values and
/// nothing is scaled without them: the controller decides on them.
fn status_instead_of_decision(
    inputs: &Inputs,
    decision: &Decision<'_>,
    reported: &ReportedMetrics<'_>,
) -> Option<String> {
    let (scale, status) = (inputs.scale.as_ref().ok()?, &inputs.hpa.status);
    let is_active = status.is_true(&ConditionType::ScalingActive);
    let is_decided = decision.scale_to().is_some() || !is_active;
    (!is_decided && !reported.values.is_empty()).then(|| {
        let (hpa, explanation) = (&inputs.hpa, decision.explanation());
        let values = reported.values_text(explanation, "");
        let causes = reported.causes_text(hpa, explanation, &values);
        let unknown = reported.unknown_names(hpa);
        let unknown =
            (!unknown.is_empty()).then(|| format!("no value of {}", unknown.join(" and ")));
        let failed = unwritten_scale(status)
            .or_else(|| failed_read(inputs).map(|failed| last_reported(&failed.reason)));
        let bounds = [ConditionReason::TooManyReplicas, ConditionReason::TooFewReplicas];
        let limits = [history_limits(Direction::Up), history_limits(Direction::Down), bounds];
        let limits = limits.iter().filter_map(|limits| reported_limit(inputs, limits));
        let limits: Vec<&str> = limits.map(ConditionReason::as_str).collect();
        let limits = (!limits.is_empty()).then(|| last_reported(&limits.join(" and ")));
        let texts = [Some(values), Some(causes), unknown, failed, limits].into_iter().flatten();
        let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
        format!(
            "has {}, {} desired: {}",
            counted(scale.spec_replicas, "replica"),
            status.desired_replicas,
            texts.join("; ")
        )
    })
}

/// The reason for the decision, with the metrics that could not be read.
fn reason(inputs: &Inputs, decision: &Decision<'_>, reported: &ReportedMetrics<'_>) -> String {
    let (explanation, hpa) = (decision.explanation(), &inputs.hpa);
    let Some(failed_here) = explanation.failures(hpa) else {
        return match decision.error() {
            Some(_) if inputs.scale.is_err() && is_daemon_set(&hpa.spec.scale_target_ref) => {
                format!("DaemonSet {} has no scale", hpa.spec.scale_target_ref.name)
            }
            Some(error) if !error.is_partial() => error.cause().to_owned(),
            _ => decided_sentence(inputs, explanation),
        };
    };
    let (sentence, failed_here) = (decided_sentence(inputs, explanation), one_line(&failed_here));
    let failures = reported.failures(hpa, explanation).unwrap_or_default();
    if sentence.contains(&*failed_here) {
        sentence.replacen(&*failed_here, &failures, 1)
    } else {
        // The other metrics decided.
        format!("{sentence}; {failures}")
    }
}

/// The sentence of the explanation. The end of the stabilization replaces the length of the window,
/// if the history is known. It is a time of day, which stays the same in later reports.
fn decided_sentence(inputs: &Inputs, explanation: &Explanation) -> String {
    let sentence = explanation.sentence(&inputs.hpa);
    if explanation.reason() == Reason::Paused && inputs.history.is_none() {
        return sentence + ", unless stabilization or a policy holds it";
    }
    match (explanation.stabilization_window_seconds, stabilization_end(inputs, explanation)) {
        (Some(window), Some(end)) => {
            let end = format!("until {}", end.strftime("%H:%M:%SZ"));
            sentence.replacen(&window_text(window), &end, 1)
        }
        _ => sentence,
    }
}

/// The time at which the recommendation that holds the replicas leaves the window.
fn stabilization_end(inputs: &Inputs, explanation: &Explanation) -> Option<Timestamp> {
    if inputs.history.is_none() || explanation.reason() != Reason::Stabilization {
        return None;
    }
    let (proposed, stabilized) = (explanation.proposed_replicas?, explanation.stabilized_replicas?);
    let limits = ReplicaLimits::new(inputs, proposed, stabilized);
    limits.stabilization.held_by.map(|held| held.until)
}

/// Whether a metric is missing because this user may not read it, and the controller didn't report
/// that it can't read it either.
fn is_forbidden_here(decision: &Decision<'_>, reported: &ReportedMetrics<'_>) -> bool {
    let metrics = decision.explanation().metrics.iter().enumerate();
    let mut others = metrics.filter(|(index, _)| reported.cause(*index).is_none());
    let is_forbidden = |error: Option<&str>| error.is_some_and(|error| error.contains(FORBIDDEN));
    others.any(|(_, metric)| is_forbidden(metric.error.as_deref()))
}

/// The reason why the controller may decide otherwise: metrics that can't be read here, a condition
/// that the controller reported, an absent status, or an unknown history.
pub(super) fn doubt(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    if bounds_conflict(inputs).is_some() {
        // Bounds apply whatever the metrics ask for and the controller reported last.
        return None;
    }
    let reported = ReportedMetrics::new(inputs, decision);
    if !reported.values.is_empty() {
        return Some("the controller reads metrics that could not be read here".to_owned());
    }
    if is_forbidden_here(decision, &reported) {
        return Some("the controller may read the metrics that you may not read".to_owned());
    }
    let failure = ReportedFailure::new(inputs, decision);
    let Some(to) = decision.scale_to() else {
        return failure.map(|failure| last_reported(failure.reason()));
    };
    if inputs.history.is_none() && inputs.hpa.status.conditions.is_empty() {
        return Some("no controller has stored a status".to_owned());
    }
    let explanation = decision.explanation();
    let direction = Direction::of_change(explanation.current_replicas, to);
    let mut obstacle = unwritten_scale(&inputs.hpa.status);
    // With a known history, the decision has applied the limit. While reads fail, the controller
    // doesn't update it.
    if inputs.history.is_none() && failure.is_none() {
        let limit = reported_limit(inputs, &history_limits(direction));
        obstacle = obstacle.or_else(|| limit.map(last_reported));
    }
    if obstacle.is_some() {
        return obstacle;
    }
    match (failure, unknown_limit(inputs, explanation, direction)) {
        (Some(failure), Some(limit)) => {
            Some(format!("{}, and {limit}", last_reported(failure.reason())))
        }
        (None, Some(limit)) => Some(limit),
        (_, None) => failed_read(inputs).map(|failed| last_reported(&failed.reason)),
    }
}

fn last_reported(reasons: &impl Display) -> String {
    format!("the controller last reported {reasons}")
}

/// The cause of `AbleToScale=False`, unless it is that the scale could not be read.
fn unwritten_scale(status: &HorizontalPodAutoscalerStatus) -> Option<String> {
    let able = status.condition(&ConditionType::AbleToScale)?;
    let is_write = able.reason != ConditionReason::FailedGetScale;
    (able.status == ConditionStatus::False && is_write)
        .then(|| failed_write::sentence(status).unwrap_or_else(|| last_reported(&able.reason)))
}

/// The limit that the next controller may apply to a scaling, if no controller acts now. `None` if
/// it applies none.
pub(super) fn limit_after_idleness(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    // Bounds apply whatever the history is.
    let to = decision.scale_to().filter(|_| bounds_conflict(inputs).is_none())?;
    let explanation = decision.explanation();
    unknown_limit(inputs, explanation, Direction::of_change(explanation.current_replicas, to))
}

/// The limit that the controller may apply to a scaling, because of a history that is not known
/// here. `None` if the history is known, or if it prevents nothing.
fn unknown_limit(
    inputs: &Inputs,
    explanation: &Explanation,
    direction: Direction,
) -> Option<String> {
    if inputs.history.is_some() {
        return None;
    }
    // Without a proposal, the replicas were out of bounds: no history delays that scaling.
    explanation.proposed_replicas?;
    let behavior = EffectiveBehavior::new(&inputs.hpa.spec, &inputs.settings);
    let rules = behavior.rules(direction);
    let window = rules.stabilization_window().as_secs();
    if window > 0 {
        return Some(format!("a stabilization window of {window}s may hold it"));
    }
    let since = inputs.now.duration_since(inputs.hpa.status.last_scale_time?);
    let is_counted = behavior.is_set() && since < rules.longest_policy_period();
    is_counted.then(|| format!("it last scaled {}s ago, so policies may hold it", since.as_secs()))
}

/// The limits in a direction that depend on the history.
fn history_limits(direction: Direction) -> [ConditionReason; 2] {
    match direction {
        Direction::Up => [ConditionReason::ScaleUpStabilized, ConditionReason::ScaleUpLimit],
        Direction::Down => [ConditionReason::ScaleDownStabilized, ConditionReason::ScaleDownLimit],
    }
}

/// The first of these limits that the controller reported last.
fn reported_limit<'a>(
    inputs: &'a Inputs,
    limits: &[ConditionReason],
) -> Option<&'a ConditionReason> {
    let conditions = inputs.hpa.status.conditions.iter();
    let mut active = conditions.filter(|condition| condition.status == ConditionStatus::True);
    active.find(|condition| limits.contains(&condition.reason)).map(|condition| &condition.reason)
}
