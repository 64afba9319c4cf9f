//! One comparison: our decision with what the other controller wrote. No I/O, no clock.

use std::fmt;

use hpa_calc::{
    api::{
        Condition, ConditionReason, ConditionStatus, ConditionType, HorizontalPodAutoscalerStatus,
        Scale,
    },
    conclude::Conclusion,
    decide::Decision,
    history::{History, ScaleEvent},
};
use jiff::Timestamp;

/// Where our decision and the other controller's differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// `desiredReplicas`, or the type of a condition.
    pub what: String,
    /// What it would be by us.
    pub ours: String,
    /// What it is.
    pub theirs: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ours {}, theirs {}", self.what, self.ours, self.theirs)
    }
}

/// Our decision beside the other controller's.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// What it would have come to, had we decided. Its history is that of what was recommended by us and scaled by
    /// the other one, and nothing in it was written.
    pub conclusion: Conclusion,
    /// Where the two differ.
    pub differences: Vec<Difference>,
    /// Whether both read the same metric values.
    pub same_metrics: bool,
    /// Whether we read those of the other one at all, now or in one of the looks before.
    pub seen_metrics: bool,
}

/// The scale as the other controller found it when it wrote this status: it may have changed the replicas since.
pub fn found(theirs: &HorizontalPodAutoscalerStatus, scale: Scale) -> Scale {
    if reason(theirs, &ConditionType::AbleToScale) == Some(&ConditionReason::FailedGetScale) {
        return scale;
    }
    Scale { spec_replicas: theirs.current_replicas, ..scale }
}

/// Compares a decision with the status that the other controller wrote on the same grounds. `is_answer` tells that it
/// wrote it since the last comparison; a scaling that it tells of is new then.
pub fn compare(
    decision: Decision<'_>,
    theirs: &HorizontalPodAutoscalerStatus,
    is_answer: bool,
    now: Timestamp,
) -> Comparison {
    let scaled = scaled(theirs, is_answer);
    let written = match theirs.condition(&ConditionType::AbleToScale) {
        Some(able) if able.reason == ConditionReason::FailedUpdateScale => {
            Err(able.message.to_string())
        }
        _ => Ok(()),
    };
    let is_same_scaling = decision.scale_to() == scaled;
    let unscaled =
        (!is_same_scaling).then(|| decision.clone().conclude(Err(String::new()), now).history);
    let mut conclusion = decision.conclude(written, now);
    if let Some(mut history) = unscaled {
        if let Some(replicas) = scaled {
            note_scaling(&mut history, theirs.current_replicas, replicas, now);
        }
        conclusion.history = history;
    }
    let differences = differences(&conclusion.status, theirs);
    let same_metrics = conclusion.status.current_metrics == theirs.current_metrics;
    Comparison { conclusion, differences, same_metrics, seen_metrics: same_metrics }
}

/// Compares a status with the decisions on several grounds, of which the other controller had one: what was read now,
/// and what was read `earlier`, the newest first. It is taken to have had one on which we decide the same, best with the
/// metric values that it tells of, so that our history goes on with the recommendation that it made. If there is none,
/// the comparison is that with what was read now, and the metric values count as the same only if they are on all
/// grounds. If they are not, the world was changing, and a scaling is the best that is known of what was recommended.
pub fn compare_any<'a>(
    decision: Decision<'a>,
    earlier: impl IntoIterator<Item = Decision<'a>>,
    theirs: &HorizontalPodAutoscalerStatus,
    is_answer: bool,
    now: Timestamp,
) -> Comparison {
    let mut nearest = compare(decision, theirs, is_answer, now);
    for decision in earlier {
        let is_same = nearest.differences.is_empty();
        if is_same && nearest.same_metrics {
            break;
        }
        let other = compare(decision, theirs, is_answer, now);
        match (is_same, other.differences.is_empty()) {
            (true, true) if other.same_metrics => nearest = other,
            (true, _) => {}
            (false, true) => nearest = other,
            (false, false) => {
                nearest.same_metrics &= other.same_metrics;
                nearest.seen_metrics |= other.seen_metrics;
            }
        }
    }
    if !nearest.differences.is_empty()
        && !nearest.same_metrics
        && let Some(replicas) = scaled(theirs, is_answer)
    {
        let recommended = &mut nearest.conclusion.history.recommendations;
        for ours in recommended.iter_mut().filter(|ours| ours.at == now) {
            ours.replicas = replicas;
        }
    }
    nearest
}

/// The replicas that the other controller has just scaled to, if it has.
fn scaled(theirs: &HorizontalPodAutoscalerStatus, is_answer: bool) -> Option<i32> {
    let is_scaled =
        reason(theirs, &ConditionType::AbleToScale) == Some(&ConditionReason::SucceededRescale);
    (is_answer && is_scaled).then_some(theirs.desired_replicas)
}

/// A scaling that we would not have done has happened all the same, and counts in the policies.
fn note_scaling(history: &mut History, from: i32, to: i32, at: Timestamp) {
    let change = i32::try_from(to.abs_diff(from)).unwrap_or(i32::MAX);
    let events = if to > from { &mut history.scale_ups } else { &mut history.scale_downs };
    events.push(ScaleEvent { change, at, outdated: false });
}

/// Where two statuses tell of different decisions.
pub fn differences(
    ours: &HorizontalPodAutoscalerStatus,
    theirs: &HorizontalPodAutoscalerStatus,
) -> Vec<Difference> {
    let difference = |what: &str, ours: String, theirs: String| {
        (ours != theirs).then(|| Difference { what: what.to_owned(), ours, theirs })
    };
    let desired = difference(
        "desiredReplicas",
        ours.desired_replicas.to_string(),
        theirs.desired_replicas.to_string(),
    );
    let conditions = [
        ConditionType::AbleToScale,
        ConditionType::ScalingActive,
        ConditionType::ScalingLimited,
        ConditionType::ScaledToZero,
    ];
    let conditions = conditions
        .iter()
        .filter_map(|about| difference(about.as_str(), told(ours, about), told(theirs, about)));
    desired.into_iter().chain(conditions).collect()
}

/// A condition without its text; where there is none, or none that says anything, `none`.
fn told(status: &HorizontalPodAutoscalerStatus, about: &ConditionType) -> String {
    let says_nothing = |condition: &&Condition| {
        *about == ConditionType::ScaledToZero && condition.status == ConditionStatus::False
    };
    match status.condition(about).filter(|condition| !says_nothing(condition)) {
        Some(condition) => format!("{} {}", condition.status, condition.reason),
        None => "none".to_owned(),
    }
}

fn reason<'a>(
    status: &'a HorizontalPodAutoscalerStatus,
    about: &ConditionType,
) -> Option<&'a ConditionReason> {
    status.condition(about).map(|condition| &condition.reason)
}

/// The other controller's explanation: what its status says.
pub(crate) fn explained(theirs: &HorizontalPodAutoscalerStatus) -> String {
    let condition = |condition: &Condition| {
        let Condition { condition_type, status, reason, message, .. } = condition;
        format!("; {condition_type} {status} {reason}: {message}")
    };
    let conditions: String = theirs.conditions.iter().map(condition).collect();
    let metrics = serde_json::to_string(&theirs.current_metrics).unwrap_or_default();
    format!(
        "{} -> {}{conditions}; metrics {metrics}",
        theirs.current_replicas, theirs.desired_replicas
    )
}
