//! Checks of the autoscalers, by the conditions in their status.

use std::collections::BTreeMap;

use hpa_calc::api::{Condition, ConditionReason, ConditionStatus, ConditionType};
use jiff::SignedDuration;

use super::{
    check::{Check, Level, counted, named},
    cluster::{Observed, ObservedAutoscaler},
};

/// How old an autoscaler without a status may be.
const MAX_AGE_WITHOUT_STATUS: SignedDuration = SignedDuration::from_mins(2);

/// The autoscalers with the same problem, and the message of the first one.
type ByReason<'a> = BTreeMap<String, (Vec<String>, &'a str)>;

pub(super) fn check(observed: &Observed) -> Vec<Check> {
    let all = &observed.autoscalers;
    let (mut failing, mut at_max) = (ByReason::new(), Vec::new());
    let (mut disabled, mut without_status, mut paused) = (Vec::new(), Vec::new(), Vec::new());
    for autoscaler in all {
        let name = || autoscaler.name.clone();
        if autoscaler.is_paused {
            paused.push(name());
        }
        if autoscaler.hpa.status.conditions.is_empty() && is_old(observed, autoscaler) {
            without_status.push(name());
        }
        match problem(autoscaler) {
            Some(condition) if condition.reason == ConditionReason::ScalingDisabled => {
                disabled.push(name());
            }
            Some(condition) => {
                let reason = condition.reason.to_string();
                let entry = failing.entry(reason).or_insert((Vec::new(), &*condition.message));
                entry.0.push(name());
            }
            None if is_at_max(autoscaler) => at_max.push(name()),
            None => {}
        }
    }
    let mut checks = vec![total(all.len(), &failing, without_status.len())];
    for (reason, (names, message)) in &failing {
        let text = format!("{reason}: {} ({})", counted(names.len(), "autoscaler"), named(names));
        let command = names.first().map(|name| format!("; hpa explain {name}"));
        let hint = format!("{message}{}", command.unwrap_or_default());
        checks.push(Check::new(Level::Error, text).hint(hint));
    }
    let mut add = |level, names: &[String], what: &str| {
        if !names.is_empty() {
            let text = format!("{} {what}: {}", counted(names.len(), "autoscaler"), named(names));
            checks.push(Check::new(level, text));
        }
    };
    add(Level::Error, &without_status, "without a status: no controller handles them");
    add(Level::Warning, &at_max, "held at maxReplicas (TooManyReplicas)");
    add(Level::Warning, &disabled, "off, because the target has 0 replicas (ScalingDisabled)");
    add(Level::Warning, &paused, "paused by annotation");
    checks
}

fn total(count: usize, failing: &ByReason<'_>, without_status: usize) -> Check {
    let failing: usize = failing.values().map(|(names, _)| names.len()).sum();
    match failing + without_status {
        _ if count == 0 => Check::new(Level::Warning, "there are no autoscalers"),
        0 => Check::new(Level::Ok, format!("{} can scale", counted(count, "autoscaler"))),
        unable => Check::new(
            Level::Error,
            format!("{unable} of {} can't scale", counted(count, "autoscaler")),
        ),
    }
}

/// The condition that says that the autoscaler can't scale.
fn problem(autoscaler: &ObservedAutoscaler) -> Option<&Condition> {
    let types = [ConditionType::AbleToScale, ConditionType::ScalingActive];
    let conditions = &autoscaler.hpa.status.conditions;
    let is_false = |condition: &&Condition| {
        types.contains(&condition.condition_type) && condition.status == ConditionStatus::False
    };
    conditions.iter().find(is_false)
}

fn is_at_max(autoscaler: &ObservedAutoscaler) -> bool {
    let limited = autoscaler.hpa.status.conditions.iter().find(|condition| {
        condition.condition_type == ConditionType::ScalingLimited
            && condition.status == ConditionStatus::True
    });
    limited.is_some_and(|condition| condition.reason == ConditionReason::TooManyReplicas)
}

fn is_old(observed: &Observed, autoscaler: &ObservedAutoscaler) -> bool {
    let age = autoscaler.created.map(|created| observed.now.duration_since(created));
    age.is_some_and(|age| age > MAX_AGE_WITHOUT_STATUS)
}
