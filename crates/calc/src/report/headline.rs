//! The first line of a report: the decision in one sentence.

use std::fmt::Display;

use jiff::SignedDuration;

use super::{
    error_texts::FORBIDDEN,
    failed_write, failure,
    inputs::Inputs,
    limits::ReplicaLimits,
    metrics::MetricReport,
    phrases::{SettingOrigin, names, paused_text},
    reported::ReportedMetrics,
    reported_failure::{ReportedFailure, blocking_condition},
    shared_target::bounds_conflict,
    short::{ShortReport, State, largest_measurement},
    target_pods::{
        absent_pods, counted_unready_pods, ignored_pods, pending_pods, unready_pods,
        unschedulable_pods,
    },
    warning::{ignored_by_reference, succeeded_pods_of_reference},
};
use crate::{
    api::{ConditionReason, ConditionStatus, ConditionType, CrossVersionObjectReference},
    behavior::EffectiveBehavior,
    decision::Decision,
    explain::{
        Explanation, Measurement, MetricFailure, Reason, counted, metric_name, minutes_and_seconds,
        one_line, window_text,
    },
    fallback::{RECOVERY, pending_since, recoveries_by_status},
    history::Direction,
    pause::Pause,
    plan::{PlanKind, SelectorRejection},
    settings::Fallback,
};

/// The decision and its reason. `doubt` is the reason why the scaling may not happen or, if
/// `lacks_controller`, states that no controller runs.
pub(super) fn sentence(
    inputs: &Inputs,
    decision: &Decision<'_>,
    metrics: &[MetricReport],
    doubt: Option<&str>,
    lacks_controller: bool,
) -> String {
    let prefix = pause_prefix(inputs);
    let remarks = remarks(inputs, doubt);
    let ending = doubt.map(|doubt| format!("; {doubt}")).unwrap_or_default();
    if let Some(conflict) = bounds_conflict(inputs) {
        return format!("{prefix}{conflict}{remarks}{ending}");
    }
    if let Some(others) = other_selecting_autoscalers(inputs) {
        let select = if others.len() == 1 { "selects" } else { "select" };
        let others = names(&others);
        return format!("{prefix}isn't scaled: {others} {select} the same pods{remarks}{ending}");
    }
    let reported = ReportedMetrics::new(inputs, decision);
    if let Some(status) = status_instead_of_decision(inputs, decision, &reported) {
        let ending = if lacks_controller { ending } else { String::new() };
        return format!("{prefix}{status}{remarks}{ending}");
    }
    let may_differ = inputs.settings.dry_run
        || is_forbidden_here(decision, &reported)
        || !lacks_controller
            && (ReportedFailure::new(inputs, decision).is_some()
                || active_fallback(inputs, decision).is_some()
                || possible_raise(inputs, decision).is_some()
                || reported.is_silent)
        || succeeded_pods_of_reference(inputs).is_some();
    let outcome = match (&inputs.scale, decision.scale_to()) {
        (Err(_), _) => "can't decide".to_owned(),
        (Ok(scale), Some(to)) => {
            let verb = if doubt.is_some() { "would scale" } else { "scales" };
            format!("{verb} from {} to {to}", scale.spec_replicas)
        }
        (Ok(scale), None) if may_differ => format!("would stay at {}", scale.spec_replicas),
        (Ok(scale), None) => format!("stays at {}", scale.spec_replicas),
    };
    let why = reason_and_values(inputs, decision, metrics, &reported);
    format!("{prefix}{outcome}: {why}{remarks}{ending}")
}

/// The reason for the decision, then clauses about a fallback, unusual values and pods.
fn reason_and_values(
    inputs: &Inputs,
    decision: &Decision<'_>,
    metrics: &[MetricReport],
    reported: &ReportedMetrics<'_>,
) -> String {
    let absent = absent_pods(inputs, decision);
    let others = match absent {
        Some(_) => None,
        None => ignored_pods(inputs, decision)
            .or_else(|| failure::pods_without_metrics(inputs, decision)),
    };
    let pending = || pending_pods(inputs, decision).filter(|_| absent.is_none());
    let unready = unready_pods(inputs, decision).or_else(pending).filter(|_| others.is_none());
    let winner = decision.explanation().winner.and_then(|index| metrics.get(index));
    // Without a decision, their age may be the cause.
    let unsampled =
        || metrics.iter().find(|one| one.explanation.failure == Some(MetricFailure::NoSamples));
    let old_samples = winner.or_else(unsampled);
    let old_samples = old_samples.and_then(|metric| failure::stale_metric(inputs, metric));
    let counted_unready = winner.and_then(counted_unready_pods);
    let negative = winner.and_then(|metric| failure::negative_value_effect(inputs, metric));
    let unschedulable = unschedulable_pods(inputs, decision);
    // Without the history, the fallback is a doubt.
    let fallback = pending_fallback(inputs, decision).filter(|_| inputs.history.is_some());
    let pods = [absent, others, unschedulable, unready, counted_unready];
    let reason = reason(inputs, decision, reported);
    let clauses = [Some(reason), fallback, negative, old_samples].into_iter().chain(pods);
    clauses.flatten().collect::<Vec<_>>().join("; ")
}

/// The clauses about an invalid spec, about settings that kube-controller-manager ignores, and
/// about pods that only it counts, each after a separator. Clauses that the doubt contains are left
/// out.
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
    let dry_run = || format!("is in dry run by {} and ", SettingOrigin::new(hpa, "dry-run"));
    pause.into_iter().chain(settings.dry_run.then(dry_run)).collect()
}

/// The values that the controller reported last, for metrics that can't be read here, with the
/// limits and the failure of the scale that it reported, and pods that can't be scheduled. `None`
/// unless there are such values and nothing is scaled without them: the controller decides on them.
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
        let failed = unwritten_scale(inputs)
            .or_else(|| blocking_condition(inputs).map(|failed| last_reported(&failed.reason)));
        let bounds = [ConditionReason::TooManyReplicas, ConditionReason::TooFewReplicas];
        let limits = [history_limits(Direction::Up), history_limits(Direction::Down), bounds];
        let limits = limits.iter().filter_map(|limits| reported_limit(inputs, limits));
        let limits: Vec<&str> = limits.map(ConditionReason::as_str).collect();
        let limits = (!limits.is_empty()).then(|| last_reported(&limits.join(" and ")));
        let unschedulable = unschedulable_pods(inputs, decision);
        let texts = [Some(values), Some(causes), unknown, failed, limits, unschedulable];
        let texts = texts.into_iter().flatten().filter(|text| !text.is_empty());
        let texts: Vec<String> = texts.collect();
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

/// The sentence of the explanation. The time for which the stabilization lasts replaces the length
/// of the window, if the history is known.
fn decided_sentence(inputs: &Inputs, explanation: &Explanation) -> String {
    let sentence = explanation.sentence(&inputs.hpa);
    if explanation.reason() == Reason::Paused && inputs.history.is_none() {
        return sentence + ", unless stabilization or a policy holds it";
    }
    match (explanation.stabilization_window_seconds, stabilization_time(inputs, explanation)) {
        (Some(window), Some(time)) => sentence.replacen(&window_text(window), &time, 1),
        _ => sentence,
    }
}

/// The durations in the [`sentence`] that differ in each report.
pub(super) fn durations(inputs: &Inputs, decision: &Decision<'_>) -> Vec<String> {
    let metric = metric_with_inactive_fallback(inputs, decision);
    let failure = metric.and_then(|(index, _)| time_of_failure(inputs, index));
    let stabilization = stabilization_time(inputs, decision.explanation());
    let stabilization = stabilization.map(|time| format!(" {time}"));
    [stabilization, failure, time_since_scaling(inputs)].into_iter().flatten().collect()
}

/// The time until the recommendation that holds the replicas leaves the window. A duration, not a
/// time of day, because recommendations have the time of the controller's clock, which may be
/// wrong.
fn stabilization_time(inputs: &Inputs, explanation: &Explanation) -> Option<String> {
    if inputs.history.is_none()
        || !matches!(explanation.reason(), Reason::Stabilization | Reason::Metrics)
    {
        return None;
    }
    let (proposed, stabilized) = (explanation.proposed_replicas?, explanation.stabilized_replicas?);
    let limits = ReplicaLimits::new(inputs, proposed, stabilized);
    let until = limits.stabilization.held_by?.until;
    let seconds = until.duration_since(inputs.now).as_secs_f64();
    Some(format!("for another {}", minutes_and_seconds(seconds)))
}

/// Whether a metric is missing because this user may not read it, and the controller didn't report
/// that it can't read it either.
fn is_forbidden_here(decision: &Decision<'_>, reported: &ReportedMetrics<'_>) -> bool {
    let metrics = decision.explanation().metrics.iter().enumerate();
    let mut others = metrics.filter(|(index, _)| reported.cause(*index).is_none());
    let is_forbidden = |error: Option<&str>| error.is_some_and(|error| error.contains(FORBIDDEN));
    others.any(|(_, metric)| is_forbidden(metric.error.as_deref()))
}

/// The reason why the controller may decide differently: metrics that can't be read here, a
/// condition that the controller reported, an absent status, or an unknown history.
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
    let silence = || reported.is_silent.then(|| silent_status(inputs));
    let Some(to) = decision.scale_to() else {
        let failure = failure.map(|failure| last_reported(failure.reason()));
        let active = || active_fallback(inputs, decision);
        let raise = || possible_raise(inputs, decision);
        let doubt = failure.or_else(active).or_else(raise).or_else(silence);
        let pending = || pending_fallback(inputs, decision).filter(|_| inputs.history.is_none());
        return doubt.or_else(pending);
    };
    if inputs.history.is_none() && inputs.hpa.status.conditions.is_empty() {
        return Some("no controller has stored a status".to_owned());
    }
    let explanation = decision.explanation();
    let direction = Direction::of_change(explanation.current_replicas, to);
    let limit = unknown_limit(inputs, decision, direction);
    let fallback = || active_fallback(inputs, decision).filter(|_| failure.is_none());
    if let Some(reported) = unwritten_scale(inputs).or_else(fallback) {
        let limit = limit.map(|limit| format!("{limit}, and "));
        return Some(limit.unwrap_or_default() + &reported);
    }
    // With a known history, the decision has applied the limit. While reads fail, the controller
    // doesn't update it.
    let is_current = inputs.history.is_none() && failure.is_none();
    let reported = reported_limit(inputs, &history_limits(direction)).filter(|_| is_current);
    if let Some(reported) = reported {
        let raise = possible_raise(inputs, decision).map(|raise| format!(", and {raise}"));
        return Some(last_reported(reported) + &raise.unwrap_or_default());
    }
    if failure.is_none()
        && let Some(stay) = stay_by_status(inputs, decision)
    {
        let limit = limit.map(|limit| format!("{limit}, and "));
        return Some(limit.unwrap_or_default() + &stay);
    }
    match (failure, limit) {
        (Some(failure), Some(limit)) => {
            Some(format!("{}, and {limit}", last_reported(failure.reason())))
        }
        (None, Some(limit)) => Some(limit),
        (_, None) => {
            let failed = blocking_condition(inputs).map(|failed| last_reported(&failed.reason));
            failed.or_else(silence).or_else(|| steady_by_status(inputs, decision))
        }
    }
}

/// A clause about a last status that says nothing about the metrics.
fn silent_status(inputs: &Inputs) -> String {
    let able = inputs.hpa.status.condition(&ConditionType::AbleToScale);
    let reason = able.map(|able| format!("{}, and ", able.reason)).unwrap_or_default();
    last_reported(&format!("{reason}neither a value nor a failure of a metric"))
}

/// Advice beside [`stay_by_status`].
const ADVICE_ABOUT_STAY: &str = "If the replicas stay for longer than two sync \
     periods, the controller may not see the newest pods, for example because it lacks the right \
     to watch pods. With its debug API, hpa status says how old its cache of pods is.";

/// A clause about a scale-up that the controller's last status lacks, although the same metric was
/// above its target and no limit held the replicas. The controller may count fewer pods, because
/// its cache of pods is stale or pods have become ready since. `None` if the history is known: the
/// caller then also knows the pods that the controller counted.
pub(super) fn stay_by_status(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    let (hpa, settings, explanation) = (&inputs.hpa, &inputs.settings, decision.explanation());
    let (winner, replicas) = (explanation.winner?, explanation.current_replicas);
    explanation.metrics.get(winner)?.counted_pods?;
    let scales_up = decision.scale_to().is_some_and(|to| to > replicas);
    if !scales_up || !has_stayed(inputs, decision, |state| state == State::WaitingForPods) {
        return None;
    }
    let (Measurement { metric, current, unit, .. }, _) = largest_measurement(hpa, settings)?;
    (metric == metric_name(&hpa.spec.metrics, winner)).then(|| {
        format!(
            "the controller last desired {replicas} with {metric} at {current}{unit}, so it may \
             count fewer pods"
        )
    })
}

/// Advice beside [`steady_by_status`].
pub(super) const ADVICE_ABOUT_STEADY: &str = "If the replicas stay for longer than two sync \
     periods, the controller may not be able to read the metrics or to store its status: see hpa \
     status and the controller's log.";

/// A clause about the controller's last status, which desires the current replicas. The spec or the
/// value of the metric may have changed since then, or the controller can no longer decide or store
/// its status, for example because it has lost its rights. `None` if the history is known.
pub(super) fn steady_by_status(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    let explanation = decision.explanation();
    let last = Measurement::of_status(&inputs.hpa, &inputs.settings, explanation.winner?)?;
    let Measurement { metric, current, unit, .. } = last;
    let replicas = explanation.current_replicas;
    // For this state, there is `stay_by_status`.
    let is_stay = |state: State| state.is_by_metrics() && state != State::WaitingForPods;
    has_stayed(inputs, decision, is_stay)
        .then(|| format!("the controller last desired {replicas} with {metric} at {current}{unit}"))
}

/// Advice beside a clause of [`stay_by_status`] or [`steady_by_status`] in a doubt. `None` for any
/// other doubt, and for a clause of the latter if a bound that limited the status has changed.
pub(super) fn advice_about_status(
    inputs: &Inputs,
    decision: &Decision<'_>,
    doubt: &str,
) -> Option<&'static str> {
    let is_in_doubt = |clause: Option<String>| clause.is_some_and(|clause| doubt.contains(&clause));
    if is_in_doubt(stay_by_status(inputs, decision)) {
        return Some(ADVICE_ABOUT_STAY);
    }
    let has_old_bounds = has_status_of_other_bounds(inputs, decision);
    (is_in_doubt(steady_by_status(inputs, decision)) && !has_old_bounds)
        .then_some(ADVICE_ABOUT_STEADY)
}

/// Whether a bound limited the last status, and has changed since then.
fn has_status_of_other_bounds(inputs: &Inputs, decision: &Decision<'_>) -> bool {
    let (status, bounds) = (&inputs.hpa.status, decision.bounds);
    let limited = status.true_condition(&ConditionType::ScalingLimited);
    match limited.map(|limited| &limited.reason) {
        Some(ConditionReason::TooManyReplicas) => status.desired_replicas != bounds.max_replicas,
        Some(ConditionReason::TooFewReplicas) => status.desired_replicas != bounds.min_replicas,
        _ => false,
    }
}

/// The time within which a controller stores a status with the replicas that it has scaled to, or
/// with changed values of metrics.
pub(super) const STATUS_PERIOD: SignedDuration = SignedDuration::from_mins(1);

/// Whether the last status desires the current replicas, and has a state for which `is_stay` holds,
/// although the decision changes them. `false` directly after a scaling, and if the history is
/// known: the caller then also knows the last decision.
fn has_stayed(
    inputs: &Inputs,
    decision: &Decision<'_>,
    is_stay: impl FnOnce(State) -> bool,
) -> bool {
    let (hpa, status) = (&inputs.hpa, &inputs.hpa.status);
    let replicas = decision.explanation().current_replicas;
    let is_old = |scaled| inputs.now.duration_since(scaled) > STATUS_PERIOD;
    inputs.history.is_none()
        && decision.scale_to().is_some()
        && status.desired_replicas == replicas
        && (status.current_replicas == replicas || status.last_scale_time.is_some_and(is_old))
        && is_stay(ShortReport::new(hpa, &inputs.settings).state)
}

fn last_reported(reasons: &impl Display) -> String {
    format!("the controller last reported {reasons}")
}

/// The cause of `AbleToScale=False`, unless it is that the scale could not be read. `None` in a dry
/// run, because it is that of another controller, or from before the dry run.
fn unwritten_scale(inputs: &Inputs) -> Option<String> {
    let status = &inputs.hpa.status;
    if inputs.settings.dry_run {
        return None;
    }
    let able = status.condition(&ConditionType::AbleToScale)?;
    let is_write = able.reason != ConditionReason::FailedGetScale;
    (able.status == ConditionStatus::False && is_write)
        .then(|| failed_write::sentence(status).unwrap_or_else(|| last_reported(&able.reason)))
}

/// The limit that the next controller may apply to a scaling, if no controller acts now. `None` if
/// it applies none.
pub(super) fn limit_of_next_controller(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    // Bounds apply whatever the history is.
    let to = decision.scale_to().filter(|_| bounds_conflict(inputs).is_none())?;
    let current = decision.explanation().current_replicas;
    unknown_limit(inputs, decision, Direction::of_change(current, to))
}

/// The effect that the controller's history may have on a scaling, if the history is not known
/// here. `None` if it is known, or if it changes nothing.
fn unknown_limit(inputs: &Inputs, decision: &Decision<'_>, direction: Direction) -> Option<String> {
    if inputs.history.is_some() {
        return None;
    }
    let explanation = decision.explanation();
    // Without a proposal, the replicas were out of bounds: no history delays that scaling.
    explanation.proposed_replicas?;
    let behavior = EffectiveBehavior::new(&inputs.hpa.spec, &inputs.settings);
    let rules = behavior.rules(direction);
    let window = rules.stabilization_window().as_secs();
    if window > 0 {
        let hold = format!("a stabilization window of {window}s may hold it");
        if !may_raise_replicas(inputs, decision) {
            return Some(hold);
        }
        let desired = higher_desired(inputs, decision).unwrap_or_default();
        return Some(format!("{hold} or raise the replicas{desired}"));
    }
    if let Some(raise) = possible_raise(inputs, decision) {
        return Some(raise);
    }
    let since = inputs.now.duration_since(inputs.hpa.status.last_scale_time?);
    let is_counted = behavior.is_set() && since < rules.longest_policy_period();
    let time = time_since_scaling(inputs).filter(|_| is_counted)?;
    Some(format!("policies may hold it after the last scaling{time}"))
}

/// The time since the last scaling: ` (45s ago)`.
fn time_since_scaling(inputs: &Inputs) -> Option<String> {
    let since = inputs.now.duration_since(inputs.hpa.status.last_scale_time?);
    // The clock of the controller may be ahead.
    Some(format!(" ({}s ago)", since.as_secs().max(0)))
}

/// Whether past recommendations, which are not known here, may raise the replicas. Without
/// `behavior`, the highest one in the window applies, even if it is above the current replicas: for
/// example, after another client has lowered them, or after a pause. With `behavior`,
/// recommendations only hold the replicas.
fn may_raise_replicas(inputs: &Inputs, decision: &Decision<'_>) -> bool {
    let explanation = decision.explanation();
    let behavior = EffectiveBehavior::new(&inputs.hpa.spec, &inputs.settings);
    inputs.history.is_none()
        && !behavior.is_set()
        && behavior.down().stabilization_window().is_positive()
        && explanation.proposed_replicas.is_some()
        && !inputs.settings.pause.up
        && explanation.current_replicas < decision.bounds.max_replicas
}

/// The replicas that the controller desired last, in parentheses, if [past recommendations may
/// raise the replicas](may_raise_replicas) and these are more than the current ones and those of
/// the decision. The replicas have been lowered since then, or could not be written.
fn higher_desired(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    let (current, desired) =
        (decision.explanation().current_replicas, inputs.hpa.status.desired_replicas);
    let decided = decision.scale_to().map_or(current, |to| to.max(current));
    (may_raise_replicas(inputs, decision) && desired > decided)
        .then(|| format!(" (the controller last desired {desired})"))
}

/// A clause about [`higher_desired`] replicas.
fn possible_raise(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    let desired = higher_desired(inputs, decision)?;
    Some(format!("stabilization may raise the replicas{desired}"))
}

/// A clause about a fallback that is active by the last status, although its metric can be read
/// here. `None` if the fallback doesn't change the decision, in a dry run, and if the history is
/// known: the decision then has the fallback.
fn active_fallback(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    let Inputs { hpa, settings, readings, now, .. } = inputs;
    if inputs.history.is_some() || settings.dry_run {
        return None;
    }
    let recoveries = recoveries_by_status(hpa, settings, readings, *now);
    let current = decision.explanation().current_replicas;
    let proposal_of =
        |(index, fallback, _): &(usize, Fallback, _)| (fallback.proposal(current), *index);
    let (proposal, index) = recoveries.iter().map(proposal_of).max()?;
    let mut history = inputs.effective_history();
    history.failing_metrics.extend(recoveries.iter().map(|(_, _, failure)| *failure));
    let with_fallback = inputs.plan().decide(readings.clone(), history, *now);
    (with_fallback.resulting_replicas() != decision.resulting_replicas()).then(|| {
        format!(
            "{}: the fallback of {} proposes {} until it has been read for {}s",
            last_reported(&ConditionReason::FallbackActive),
            metric_name(&hpa.spec.metrics, index),
            counted(proposal, "replica"),
            RECOVERY.as_secs()
        )
    })
}

/// A clause about a fallback that is not active, but will be if its metric keeps failing. `None` if
/// the history is known and lacks the failure: the controller could read the metric last.
fn pending_fallback(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    let (index, fallback) = metric_with_inactive_fallback(inputs, decision)?;
    let time = time_of_failure(inputs, index);
    if inputs.history.is_some() && time.is_none() {
        return None;
    }
    let name = metric_name(&inputs.hpa.spec.metrics, index);
    let proposal = fallback.proposal(decision.explanation().current_replicas);
    let replicas = counted(proposal, "replica");
    let delay = fallback.failure_duration_seconds;
    let time = time.unwrap_or_default();
    let effect = format!("the fallback of {name} proposes {replicas}");
    Some(format!("{effect} once it has failed for {delay}s{time}"))
}

/// The first metric that fails and has a fallback, but no proposal of it.
fn metric_with_inactive_fallback(
    inputs: &Inputs,
    decision: &Decision<'_>,
) -> Option<(usize, Fallback)> {
    let mut metrics = decision.explanation().metrics.iter().enumerate();
    metrics.find_map(|(index, metric)| {
        let fallback = inputs.settings.metric(index).fallback?;
        let is_counted = metric.failure? != MetricFailure::InvalidSpec;
        (is_counted && metric.proposed_replicas.is_none()).then_some((index, fallback))
    })
}

/// The time, in parentheses, for which the controller has failed to read a metric whose fallback
/// isn't active. `None` if the history is unknown, or doesn't have the failure.
fn time_of_failure(inputs: &Inputs, index: usize) -> Option<String> {
    let since = pending_since(inputs.hpa.spec.metrics.get(index)?, inputs.history.as_ref()?)?;
    let seconds = inputs.now.duration_since(since).as_secs().max(0);
    Some(format!(" ({seconds}s so far)"))
}

/// The limits in a direction that depend on the history.
pub(super) fn history_limits(direction: Direction) -> [ConditionReason; 2] {
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
