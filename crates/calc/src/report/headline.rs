//! The first line of a report: the decision in one sentence.

use super::Inputs;
use crate::{
    api::{ConditionReason, ConditionStatus, ConditionType},
    behavior::EffectiveBehavior,
    decide::Decision,
    history::Direction,
    pause::Pause,
};

/// The decision and its reason. `doubt` says why the scaling may not happen.
pub(super) fn sentence(inputs: &Inputs, decision: &Decision<'_>, doubt: Option<&str>) -> String {
    let explanation = decision.explanation();
    let why = match decision.error() {
        Some(error) if !error.is_partial() && explanation.failures(&inputs.hpa).is_none() => {
            error.cause().to_owned()
        }
        _ => explanation.sentence(&inputs.hpa),
    };
    let outcome = match (&inputs.scale, decision.scale_to()) {
        (Err(_), _) => "can't decide".to_owned(),
        (Ok(scale), Some(to)) => {
            let verb = if doubt.is_some() { "would scale" } else { "scales" };
            format!("{verb} from {} to {to}", scale.spec_replicas)
        }
        (Ok(scale), None) => format!("stays at {}", scale.spec_replicas),
    };
    let pause = match inputs.pause {
        Pause::NONE => String::new(),
        Pause::BOTH => "paused by annotation, ".to_owned(),
        pause => format!("{pause} by annotation, "),
    };
    let doubt = doubt.map(|doubt| format!("; {doubt}")).unwrap_or_default();
    format!("{pause}{outcome}: {why}{doubt}")
}

/// Why the scaling that the inputs ask for may not happen: a condition that the controller reports,
/// or a past that is not known.
pub(super) fn doubt(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    let to = decision.scale_to()?;
    let explanation = decision.explanation();
    let status = &inputs.hpa.status;
    let direction = if to > explanation.current_replicas { Direction::Up } else { Direction::Down };
    let mut conditions = [ConditionType::AbleToScale, ConditionType::ScalingActive]
        .iter()
        .filter_map(|kind| status.condition(kind));
    let failed = conditions.find(|condition| condition.status == ConditionStatus::False);
    let held = || reported_limit(inputs, direction).filter(|_| inputs.history.is_none());
    if let Some(reason) = failed.map(|condition| &condition.reason).or_else(held) {
        return Some(format!("the controller last reported {reason}"));
    }
    if inputs.history.is_some() {
        return None;
    }
    if status.conditions.is_empty() {
        return Some("no controller has stored a status".to_owned());
    }
    // A scaling to a bound waits for nothing.
    explanation.proposed_replicas?;
    let behavior = EffectiveBehavior::new(&inputs.hpa.spec, &inputs.settings);
    let rules = behavior.rules(direction);
    let window = rules.stabilization_window().as_secs();
    if window > 0 {
        return Some(format!("a stabilization window of {window}s may hold it"));
    }
    let since = inputs.now.duration_since(status.last_scale_time?);
    let is_counted = behavior.is_set() && since < rules.longest_policy_period();
    is_counted.then(|| format!("it last scaled {}s ago, so policies may hold it", since.as_secs()))
}

/// The limit in a direction that the controller reported last.
fn reported_limit(inputs: &Inputs, direction: Direction) -> Option<&ConditionReason> {
    let limits = match direction {
        Direction::Up => [ConditionReason::ScaleUpStabilized, ConditionReason::ScaleUpLimit],
        Direction::Down => [ConditionReason::ScaleDownStabilized, ConditionReason::ScaleDownLimit],
    };
    let conditions = inputs.hpa.status.conditions.iter();
    let mut true_ones = conditions.filter(|condition| condition.status == ConditionStatus::True);
    true_ones.find(|condition| limits.contains(&condition.reason)).map(|found| &found.reason)
}
