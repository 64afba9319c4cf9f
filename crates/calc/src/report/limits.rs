//! The limits of a proposal before the bounds: stabilization and rate limits. If the history is
//! unknown, they are only possible ([`possible_limit`], [`possible_raise`]).

use jiff::Timestamp;
use serde::Serialize;

use super::{doubt::Context, inputs::Inputs};
use crate::{
    api::{ConditionReason, PolicySelect, PolicyType},
    behavior::{EffectiveBehavior, EffectiveRules, PolicyLimit, scale_up_limit},
    explain::Explanation,
    history::{Direction, History},
    time::after,
};

/// The limits of a proposal before the bounds, in the order in which they apply.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReplicaLimits {
    /// Whether the spec has a `behavior`. Without it, only a scale-down is stabilized, and only a
    /// scale-up has a rate limit.
    pub has_behavior: bool,
    /// Stabilization, which applies first.
    pub stabilization: Stabilization,
    /// The rate limit of a scale-up, which applies next.
    pub scale_up: RateLimit,
    /// The rate limit of a scale-down. Absent without `behavior`.
    pub scale_down: Option<RateLimit>,
}

/// The effect of the stabilization windows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Stabilization {
    /// The length of the window for scaling up.
    pub up_window_seconds: i64,
    /// The length of the window for scaling down.
    pub down_window_seconds: i64,
    /// The lowest recommendation within the window for scaling up.
    pub lowest_in_up_window: Option<i32>,
    /// The highest recommendation within the window for scaling down.
    pub highest_in_down_window: Option<i32>,
    /// The replicas after stabilization.
    pub stabilized_replicas: i32,
    /// The recommendation that holds the replicas, if they differ from the proposal.
    pub held_by: Option<HoldingRecommendation>,
}

/// The most recent recommendation that keeps the replicas from following the proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HoldingRecommendation {
    /// The recommended replicas.
    pub replicas: i32,
    /// The time of the recommendation.
    pub at: Timestamp,
    /// The time at which the recommendation leaves the window.
    pub until: Timestamp,
}

/// The current limit of the replicas in one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RateLimit {
    /// Selects the policy that applies, if there are several.
    pub select: PolicySelect,
    /// The policies.
    pub policies: Vec<PolicyReport>,
    /// The maximum (up) or minimum (down) of the replicas.
    pub limit: i32,
}

/// The current limit of one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PolicyReport {
    /// `Pods` or `Percent`. Absent for a type that this version doesn't know.
    #[serde(rename = "type")]
    pub policy_type: Option<PolicyType>,
    /// The allowed change, in pods or percent.
    pub value: i32,
    /// The length of the period.
    pub period_seconds: i32,
    /// The replicas at the start of the period, from which the change counts.
    pub replicas_at_start: i64,
    /// The maximum (up) or minimum (down) of the replicas.
    pub allowed_replicas: i32,
    /// The time at which the next scale event leaves the period, which changes `allowed_replicas`.
    /// Absent if no event is in the period.
    pub next_change_at: Option<Timestamp>,
}

impl ReplicaLimits {
    /// `None` without a proposal.
    pub(super) fn new(inputs: &Inputs, explanation: &Explanation) -> Option<Self> {
        let Inputs { hpa, settings, now, .. } = inputs;
        let (current, proposed) = (explanation.current_replicas, explanation.proposed_replicas?);
        let stabilized = explanation.stabilized_replicas.unwrap_or(proposed);
        let mut history = inputs.effective_history();
        history.record_initial(current, *now);
        let behavior = EffectiveBehavior::new(&hpa.spec, settings);
        let rate = |rules| rate_limit(rules, current, &history, *now);
        let scale_up = if behavior.is_set() {
            rate(behavior.up())
        } else {
            let (select, policies) = (PolicySelect::Max, Vec::new());
            RateLimit { select, policies, limit: scale_up_limit(current) }
        };
        Some(Self {
            has_behavior: behavior.is_set(),
            stabilization: stabilization(inputs, &behavior, &history, proposed, stabilized),
            scale_up,
            scale_down: behavior.is_set().then(|| rate(behavior.down())),
        })
    }
}

fn stabilization(
    inputs: &Inputs,
    behavior: &EffectiveBehavior<'_>,
    history: &History,
    proposed: i32,
    stabilized: i32,
) -> Stabilization {
    let recent = |direction| behavior.recent_recommendations(direction, history, inputs.now);
    let direction = if stabilized > proposed { Direction::Down } else { Direction::Up };
    let holds = |replicas: i32| match direction {
        Direction::Down => replicas >= stabilized,
        Direction::Up => replicas <= stabilized,
    };
    let window = |direction| behavior.rules(direction).stabilization_window();
    let holding = recent(direction).filter(|old| stabilized != proposed && holds(old.replicas));
    let held_by = holding.max_by_key(|old| old.at).map(|old| HoldingRecommendation {
        replicas: old.replicas,
        at: old.at,
        until: after(old.at, window(direction)),
    });
    Stabilization {
        up_window_seconds: window(Direction::Up).as_secs(),
        down_window_seconds: window(Direction::Down).as_secs(),
        lowest_in_up_window: recent(Direction::Up).map(|old| old.replicas).min(),
        highest_in_down_window: recent(Direction::Down).map(|old| old.replicas).max(),
        stabilized_replicas: stabilized,
        held_by,
    }
}

fn rate_limit(
    rules: EffectiveRules<'_>,
    current: i32,
    history: &History,
    now: Timestamp,
) -> RateLimit {
    let limits = rules.policy_limits(current, history, now);
    RateLimit {
        select: rules.select_policy().clone(),
        policies: limits.map(|limit| policy_report(limit, history, now)).collect(),
        limit: rules.limit(current, history, now),
    }
}

fn policy_report(limit: PolicyLimit<'_>, history: &History, now: Timestamp) -> PolicyReport {
    let PolicyLimit { policy, replicas_at_start, allowed } = limit;
    let events = history.scale_ups.iter().chain(&history.scale_downs);
    let ends = events.map(|event| after(event.at, policy.period())).filter(|end| *end > now);
    let is_known = !matches!(policy.unit, PolicyType::Other(_));
    PolicyReport {
        policy_type: is_known.then(|| policy.unit.clone()),
        value: policy.value,
        period_seconds: policy.period_seconds,
        replicas_at_start,
        allowed_replicas: allowed,
        next_change_at: ends.min(),
    }
}

/// A clause about the effect that the controller's history may have on a scaling. `None` if the
/// history is known, or can't have an effect.
pub(super) fn possible_limit(context: &Context<'_>) -> Option<String> {
    let &Context { inputs, decision, direction, .. } = context;
    let direction = direction.filter(|_| inputs.history.is_none())?;
    // Without a proposal, the replicas were out of bounds: no history delays that scaling.
    decision.explanation().proposed_replicas?;
    let behavior = EffectiveBehavior::new(&inputs.hpa.spec, &inputs.settings);
    let rules = behavior.rules(direction);
    let window = rules.stabilization_window().as_secs();
    if window > 0 {
        let desired = higher_desired(context).unwrap_or_default();
        let raise = may_raise_replicas(context).then(|| format!(" or raise the replicas{desired}"));
        let or_raise = raise.unwrap_or_default();
        return Some(format!("a stabilization window of {window}s may hold it{or_raise}"));
    }
    if let Some(raise) = possible_raise(context) {
        return Some(raise);
    }
    let since = inputs.now.duration_since(inputs.hpa.status.last_scale_time?);
    let is_counted = behavior.is_set() && since < rules.longest_policy_period();
    let time = time_since_scaling(inputs).filter(|_| is_counted)?;
    Some(format!("policies may hold it after the last scaling{time}"))
}

/// A clause about [`higher_desired`] replicas.
pub(super) fn possible_raise(context: &Context<'_>) -> Option<String> {
    Some(format!("stabilization may raise the replicas{}", higher_desired(context)?))
}

/// The replicas that the controller desired last, in parentheses. They have been lowered since
/// then, or could not be written. `None` unless they exceed the current ones and those of the
/// decision, and [past recommendations may raise the replicas](may_raise_replicas).
fn higher_desired(context: &Context<'_>) -> Option<String> {
    let desired = context.inputs.hpa.status.desired_replicas;
    let current = context.decision.explanation().current_replicas;
    let decided = context.decision.scale_to().unwrap_or(current).max(current);
    (may_raise_replicas(context) && desired > decided)
        .then(|| format!(" (the controller last desired {desired})"))
}

/// Whether past recommendations, which are not known here, may raise the replicas. Without
/// `behavior`, the highest one in the window applies, even if it is above the current replicas: for
/// example, after another client has lowered them, or after a pause. With `behavior`,
/// recommendations only hold the replicas.
fn may_raise_replicas(context: &Context<'_>) -> bool {
    let &Context { inputs, decision, .. } = context;
    let explanation = decision.explanation();
    let behavior = EffectiveBehavior::new(&inputs.hpa.spec, &inputs.settings);
    inputs.history.is_none()
        && !behavior.is_set()
        && behavior.down().stabilization_window().is_positive()
        && explanation.proposed_replicas.is_some()
        && !inputs.settings.pause.up
        && explanation.current_replicas < decision.bounds.max_replicas
}

/// The time since the last scaling: ` (45s ago)`.
pub(super) fn time_since_scaling(inputs: &Inputs) -> Option<String> {
    let since = inputs.now.duration_since(inputs.hpa.status.last_scale_time?);
    // The clock of the controller may be ahead.
    Some(format!(" ({}s ago)", since.as_secs().max(0)))
}

/// The limits in a direction that depend on the history.
pub(super) fn history_limits(direction: Direction) -> [ConditionReason; 2] {
    match direction {
        Direction::Up => [ConditionReason::ScaleUpStabilized, ConditionReason::ScaleUpLimit],
        Direction::Down => [ConditionReason::ScaleDownStabilized, ConditionReason::ScaleDownLimit],
    }
}
