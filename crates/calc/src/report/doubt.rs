//! The doubts about a decision: the reasons why the controller may do something else.
//!
//! The table [`cases`] has the doubts that the decision and the status show, each with its clause
//! and its advice. [`Doubts`] adds those about the controller itself and about a dry run.
//!
//! - A decision *scales* if it writes the target's scale. Otherwise, it *stays*.
//! - The *status* is the last one that a controller stored: what it *last reported* is the reason
//!   of a condition, and what it *last desired* is `desiredReplicas`.
//! - The *history* is the controller's past recommendations and scalings. If it is unknown, the
//!   decision lacks its effects: a stabilization window or a policy may *hold* the replicas, and
//!   without `behavior`, a past recommendation may *raise* them.
//! - A status is *silent* if it has neither a value nor a failure of any metric, although a metric
//!   can't be read here.
//! - A status is *old* if it desires the current replicas by its values, but the decision scales.
//!   If its values ask for a scale-up as well, the controller has *missed* the scale-up.

use std::fmt::Display;

use jiff::SignedDuration;

use self::Position::{AfterLimit, Alone, BeforeLimit, BeforeRaise};
use super::{
    error_texts::FORBIDDEN,
    failed_write,
    inputs::Inputs,
    limits::{history_limits, possible_limit, possible_raise},
    reported::ReportedMetrics,
    reported_failure::{ReportedFailure, blocking_condition},
    shared_target::bounds_conflict,
    short::{ShortReport, State, largest_measurement},
    warning::{counted_succeeded_pods, uncertain_effects},
};
use crate::{
    api::{ConditionReason, ConditionStatus, ConditionType},
    decision::Decision,
    explain::{Measurement, MetricFailure, counted, metric_name},
    fallback::{RECOVERY, pending_since, recoveries_by_status},
    history::Direction,
    settings::Fallback,
};

/// The doubts that the decision and the status show, in order: the first one that applies counts.
fn cases(context: &Context<'_>) -> [Case; 15] {
    let scales = context.direction.is_some();
    let unknown = context.inputs.history.is_none();
    // The condition, the clause, its position beside a limit or a raise, and the advice.
    [
        Case(true, unread_values, Alone, None),
        Case(true, forbidden_metric, Alone, None),
        Case(scales && unknown, absent_status, Alone, None),
        Case(scales, unwritten_scale, AfterLimit, None),
        Case(true, reported_failure, BeforeLimit, None),
        Case(unknown, active_fallback, AfterLimit, None),
        Case(scales && unknown, reported_limit, BeforeRaise, None),
        Case(scales && unknown, missed_scale_up, AfterLimit, Some(ADVICE_ABOUT_MISSED_SCALE_UP)),
        Case(scales && unknown, possible_limit, Alone, None),
        Case(!scales && unknown, possible_raise, Alone, None),
        Case(scales, reported_block, Alone, None),
        Case(true, silent_status, Alone, None),
        Case(scales && unknown, status_of_other_bounds, Alone, None),
        Case(scales && unknown, old_status, Alone, Some(ADVICE_ABOUT_OLD_STATUS)),
        Case(!scales && unknown, pending_fallback, Alone, None),
    ]
}

/// A possible doubt. It applies if the condition is true and the clause is `Some`.
struct Case(bool, Clause, Position, Option<&'static str>);

type Clause = fn(&Context<'_>) -> Option<String>;

/// The position of a clause beside [`possible_limit`] or [`possible_raise`], if that is `Some`.
enum Position {
    Alone,
    AfterLimit,
    BeforeLimit,
    BeforeRaise,
}

const ADVICE_ABOUT_MISSED_SCALE_UP: &str = "If the replicas stay for longer than two sync \
     periods, the controller may not see the newest pods, for example because it lacks the right \
     to watch pods. With its debug API, hpa status says how old its cache of pods is.";

pub(super) const ADVICE_ABOUT_OLD_STATUS: &str = "If the replicas stay for longer than two sync \
     periods, the controller may not be able to read the metrics or to store its status: see hpa \
     status and the controller's log.";

/// The time within which a controller stores a status with the replicas that it has scaled to, or
/// with changed values of metrics.
pub(super) const STATUS_PERIOD: SignedDuration = SignedDuration::from_mins(1);

/// A decision, and what the controller reported about its metrics.
pub(super) struct Context<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) decision: &'a Decision<'a>,
    pub(super) reported: ReportedMetrics<'a>,
    pub(super) failure: Option<ReportedFailure<'a>>,
    /// The direction of the scaling. `None` if the decision stays.
    pub(super) direction: Option<Direction>,
}

impl<'a> Context<'a> {
    pub(super) fn new(inputs: &'a Inputs, decision: &'a Decision<'a>) -> Self {
        let reported = ReportedMetrics::new(inputs, decision);
        let failure = ReportedFailure::new(inputs, decision);
        let current = decision.explanation().current_replicas;
        let direction = decision.scale_to().map(|to| Direction::of_change(current, to));
        Self { inputs, decision, reported, failure, direction }
    }
}

/// The clauses of [`Report::doubt`](super::Report::doubt).
pub(super) struct Doubts {
    pub(super) clauses: Vec<String>,
    pub(super) advice: Option<&'static str>,
    /// Whether no controller runs.
    pub(super) lacks_controller: bool,
}

impl Doubts {
    /// `of_caller` is the caller's doubt, for example that no controller runs.
    pub(super) fn new(context: &Context<'_>, of_caller: Option<String>) -> Self {
        let (inputs, scales) = (context.inputs, context.direction.is_some());
        let lacks_controller = of_caller.is_some();
        let of_decision = match bounds_conflict(inputs) {
            // Bounds apply whatever the metrics ask for, the status says and the history is.
            Some(_) => None,
            // The next controller may apply a limit.
            None if lacks_controller => possible_limit(context).map(|limit| (limit, None)),
            None => first_case(context),
        };
        let (of_decision, advice) = of_decision.unzip();
        let uncertain = if scales { uncertain_effects(&inputs.settings) } else { Vec::new() };
        let succeeded = counted_succeeded_pods(inputs).into_iter().collect();
        let of_controller: [Vec<String>; 3] =
            [of_caller.into_iter().collect(), uncertain, succeeded];
        let of_controller = of_controller.into_iter().find(|clauses| !clauses.is_empty());
        let dry_run = (inputs.settings.dry_run && scales).then(|| "nothing is written".to_owned());
        let clauses = of_decision.into_iter().chain(of_controller.into_iter().flatten());
        let clauses = clauses.chain(dry_run).collect();
        Self { clauses, advice: advice.flatten(), lacks_controller }
    }

    /// Whether a decision that stays is printed as `would stay`: the controller may scale.
    pub(super) fn would_stay(&self, context: &Context<'_>) -> bool {
        let by_status: [Clause; 4] =
            [reported_failure, active_fallback, possible_raise, silent_status];
        context.inputs.settings.dry_run
            || forbidden_metric(context).is_some()
            || !self.lacks_controller && by_status.iter().any(|clause| clause(context).is_some())
            || counted_succeeded_pods(context.inputs).is_some()
    }
}

/// The clauses and the advice of the first of the [`cases`] that applies.
fn first_case(context: &Context<'_>) -> Option<(String, Option<&'static str>)> {
    cases(context).into_iter().find_map(|Case(condition, clause, position, advice)| {
        let clause = condition.then(|| clause(context)).flatten()?;
        let clauses = match position {
            Alone => [Some(clause), None],
            AfterLimit => [possible_limit(context), Some(clause)],
            BeforeLimit => [Some(clause), possible_limit(context)],
            BeforeRaise => [Some(clause), possible_raise(context)],
        };
        Some((clauses.into_iter().flatten().collect::<Vec<_>>().join(", and "), advice))
    })
}

fn unread_values(context: &Context<'_>) -> Option<String> {
    (!context.reported.values.is_empty())
        .then(|| "the controller reads metrics that could not be read here".to_owned())
}

/// A metric that this user may not read. The controller didn't report that it can't read it either.
fn forbidden_metric(context: &Context<'_>) -> Option<String> {
    let metrics = context.decision.explanation().metrics.iter().enumerate();
    let mut others = metrics.filter(|(index, _)| context.reported.cause(*index).is_none());
    let is_forbidden = |error: &str| error.contains(FORBIDDEN);
    others
        .any(|(_, metric)| metric.error.as_deref().is_some_and(is_forbidden))
        .then(|| "the controller may read the metrics that you may not read".to_owned())
}

fn absent_status(context: &Context<'_>) -> Option<String> {
    let conditions = &context.inputs.hpa.status.conditions;
    conditions.is_empty().then(|| "no controller has stored a status".to_owned())
}

/// The cause of `AbleToScale=False`, unless it is that the scale could not be read. `None` in a dry
/// run, because it is that of another controller, or from before the dry run.
pub(super) fn unwritten_scale(context: &Context<'_>) -> Option<String> {
    let Inputs { hpa, settings, .. } = context.inputs;
    let able = hpa.status.condition(&ConditionType::AbleToScale)?;
    let is_write = able.reason != ConditionReason::FailedGetScale;
    (able.status == ConditionStatus::False && is_write && !settings.dry_run)
        .then(|| failed_write::sentence(&hpa.status).unwrap_or_else(|| last_reported(&able.reason)))
}

/// A failure that doesn't occur here.
fn reported_failure(context: &Context<'_>) -> Option<String> {
    context.failure.as_ref().map(|failure| last_reported(failure.reason()))
}

/// A fallback that is active by the status and changes the decision, although its metric can be
/// read here. `None` in a dry run, because the status is that of another controller, and if the
/// history is known: the decision then has the fallback.
fn active_fallback(context: &Context<'_>) -> Option<String> {
    let &Context { inputs, decision, .. } = context;
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
            last_reported(ConditionReason::FallbackActive),
            metric_name(&hpa.spec.metrics, index),
            counted(proposal, "replica"),
            RECOVERY.as_secs()
        )
    })
}

/// A limit in the direction of the scaling that the controller reported last.
fn reported_limit(context: &Context<'_>) -> Option<String> {
    active_limit(context.inputs, &history_limits(context.direction?)).map(last_reported)
}

/// A scale-up that the status lacks, although the value of the same metric was above its target and
/// no limit held the replicas. The controller may count fewer pods, because its cache of pods is
/// stale, or because pods have become ready since.
fn missed_scale_up(context: &Context<'_>) -> Option<String> {
    let (Inputs { hpa, settings, .. }, explanation) =
        (context.inputs, context.decision.explanation());
    let winner = explanation.winner?;
    explanation.metrics.get(winner)?.counted_pods?;
    let (measurement, _) = largest_measurement(hpa, settings)?;
    (context.direction == Some(Direction::Up)
        && stayed_state(context) == Some(State::WaitingForPods)
        && measurement.metric == metric_name(&hpa.spec.metrics, winner))
    .then(|| format!("{}, so it may count fewer pods", last_desired(context, &measurement)))
}

/// The condition that explains why the controller didn't decide.
pub(super) fn reported_block(context: &Context<'_>) -> Option<String> {
    blocking_condition(context.inputs).map(|failed| last_reported(&failed.reason))
}

fn silent_status(context: &Context<'_>) -> Option<String> {
    let able = context.inputs.hpa.status.condition(&ConditionType::AbleToScale);
    let reason = able.map(|able| format!("{}, and ", able.reason)).unwrap_or_default();
    let text = last_reported(format!("{reason}neither a value nor a failure of a metric"));
    context.reported.is_silent.then_some(text)
}

/// An [`old_status`] that was limited by a bound that has changed since then. Needs no advice.
fn status_of_other_bounds(context: &Context<'_>) -> Option<String> {
    let (status, bounds) = (&context.inputs.hpa.status, context.decision.bounds);
    let bound = match status.true_condition(&ConditionType::ScalingLimited)?.reason {
        ConditionReason::TooManyReplicas => bounds.max_replicas,
        ConditionReason::TooFewReplicas => bounds.min_replicas,
        _ => return None,
    };
    old_status(context).filter(|_| status.desired_replicas != bound)
}

/// A status that desires the current replicas. The spec or the value of the metric may have changed
/// since then, or the controller can no longer decide or store its status, for example because it
/// has lost its rights.
fn old_status(context: &Context<'_>) -> Option<String> {
    let Inputs { hpa, settings, .. } = context.inputs;
    let winner = context.decision.explanation().winner?;
    let measurement = Measurement::of_status(hpa, settings, winner)?;
    // `missed_scale_up` is about the other state.
    let is_expected = |state: &State| state.is_by_metrics() && *state != State::WaitingForPods;
    stayed_state(context).filter(is_expected).map(|_| last_desired(context, &measurement))
}

fn last_desired(context: &Context<'_>, measurement: &Measurement) -> String {
    let replicas = context.decision.explanation().current_replicas;
    let Measurement { metric, current, unit, .. } = measurement;
    format!("the controller last desired {replicas} with {metric} at {current}{unit}")
}

/// The state by a status that desires the current replicas. `None` if it desires others, or
/// directly after a scaling.
fn stayed_state(context: &Context<'_>) -> Option<State> {
    let Inputs { hpa, settings, now, .. } = context.inputs;
    let status = &hpa.status;
    let replicas = context.decision.explanation().current_replicas;
    let is_old = |scaled| now.duration_since(scaled) > STATUS_PERIOD;
    let has_stayed = status.desired_replicas == replicas
        && (status.current_replicas == replicas || status.last_scale_time.is_some_and(is_old));
    has_stayed.then(|| ShortReport::new(hpa, settings).state)
}

/// A fallback that is not active, but will be if its metric keeps failing. `None` if the history is
/// known and lacks the failure: the controller could read the metric last.
pub(super) fn pending_fallback(context: &Context<'_>) -> Option<String> {
    let &Context { inputs, decision, .. } = context;
    let (index, fallback) = metric_with_inactive_fallback(context)?;
    let time = pending_fallback_time(context);
    if inputs.history.is_some() && time.is_none() {
        return None;
    }
    let proposal = fallback.proposal(decision.explanation().current_replicas);
    Some(format!(
        "the fallback of {} proposes {} once it has failed for {}s{}",
        metric_name(&inputs.hpa.spec.metrics, index),
        counted(proposal, "replica"),
        fallback.failure_duration_seconds,
        time.unwrap_or_default()
    ))
}

/// The time, in parentheses, for which the controller has failed to read the metric of a
/// [`pending_fallback`]. `None` if the history is unknown, or doesn't have the failure.
pub(super) fn pending_fallback_time(context: &Context<'_>) -> Option<String> {
    let Inputs { hpa, history, now, .. } = context.inputs;
    let (index, _) = metric_with_inactive_fallback(context)?;
    let since = pending_since(hpa.spec.metrics.get(index)?, history.as_ref()?)?;
    Some(format!(" ({}s so far)", now.duration_since(since).as_secs().max(0)))
}

/// The first metric that fails and has a fallback, but no proposal of it.
fn metric_with_inactive_fallback(context: &Context<'_>) -> Option<(usize, Fallback)> {
    let mut metrics = context.decision.explanation().metrics.iter().enumerate();
    metrics.find_map(|(index, metric)| {
        let fallback = context.inputs.settings.metric(index).fallback?;
        let is_counted = metric.failure? != MetricFailure::InvalidSpec;
        (is_counted && metric.proposed_replicas.is_none()).then_some((index, fallback))
    })
}

pub(super) fn last_reported(reasons: impl Display) -> String {
    format!("the controller last reported {reasons}")
}

/// The first of these limits whose condition is true in the status.
pub(super) fn active_limit<'a>(inputs: &'a Inputs, limits: &[ConditionReason]) -> Option<&'a str> {
    let conditions = inputs.hpa.status.conditions.iter();
    let mut active = conditions.filter(|condition| condition.status == ConditionStatus::True);
    active.find(|one| limits.contains(&one.reason)).map(|one| one.reason.as_str())
}
