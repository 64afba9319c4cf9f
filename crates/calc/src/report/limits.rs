//! The limits of a proposal before the bounds: stabilization and rate limits.

use jiff::Timestamp;
use serde::Serialize;

use super::inputs::Inputs;
use crate::{
    api::{PolicySelect, PolicyType},
    behavior::{EffectiveBehavior, EffectiveRules, PolicyLimit, scale_up_limit},
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
    pub(super) fn new(inputs: &Inputs, proposed: i32, stabilized: i32) -> Self {
        let Inputs { hpa, settings, scale, now, .. } = inputs;
        let current = scale.as_ref().map_or(0, |scale| scale.spec_replicas);
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
        Self {
            has_behavior: behavior.is_set(),
            stabilization: stabilization(inputs, &behavior, &history, proposed, stabilized),
            scale_up,
            scale_down: behavior.is_set().then(|| rate(behavior.down())),
        }
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
