//! One comparison of our decision with the status that the peer wrote, without I/O or a clock.

use std::fmt;

use hpa_calc::{
    api::{
        Condition, ConditionReason, ConditionStatus, ConditionType, HorizontalPodAutoscalerStatus,
        Scale,
    },
    conclude::{Conclusion, ScaleWriteError},
    decide::Decision,
    history::{History, ScaleEvent},
};
use jiff::Timestamp;

use super::scaling::ScalingDifference;

/// The field of the status that a scaling changes.
const DESIRED_REPLICAS: &str = "desiredReplicas";

/// A status that the peer wrote.
#[derive(Clone, Copy, Debug)]
pub struct PeerStatus<'a> {
    pub status: &'a HorizontalPodAutoscalerStatus,
    /// Whether the peer wrote it since our last reconcile, so that a scaling in it is new.
    pub is_new: bool,
}

impl PeerStatus<'_> {
    /// The replicas that the peer has just scaled to.
    pub(super) fn scaled_to(self) -> Option<i32> {
        let able = reason(self.status, &ConditionType::AbleToScale);
        let is_scaled = able == Some(&ConditionReason::SucceededRescale);
        (self.is_new && is_scaled).then_some(self.status.desired_replicas)
    }
}

/// A field in which our decision and the peer's differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// `desiredReplicas`, or the type of a condition.
    pub field: String,
    pub ours: String,
    pub theirs: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ours {}, theirs {}", self.field, self.ours, self.theirs)
    }
}

/// Our decision, with its differences from the peer's.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Our conclusion, as if we had written. Its history has our recommendations and the peer's
    /// scalings.
    pub conclusion: Conclusion,
    pub differences: Vec<Difference>,
    /// Whether both controllers read the same metric values.
    pub has_same_metrics: bool,
    /// Whether this or one of our last reconciles read the peer's metric values.
    pub has_read_peer_metrics: bool,
    /// How a scaling of the peer differs from our decision. `None` without such a scaling, and if a
    /// window or a policy may be the cause.
    pub scaling_difference: Option<ScalingDifference>,
}

impl Comparison {
    /// Whether the decisions agree only if ours is made on the metric values of the peer's status,
    /// which none of our last reconciles read. A lasting difference may be in the values.
    pub(super) fn agrees_only_on_peer_metrics(&self) -> bool {
        self.differences.is_empty() && self.has_same_metrics && !self.has_read_peer_metrics
    }

    /// Whether the desired replicas differ.
    pub(super) fn differs_in_replicas(&self) -> bool {
        self.differences.iter().any(|difference| difference.field == DESIRED_REPLICAS)
    }
}

/// The scale as the peer read it before it wrote this status: it may have scaled since.
pub fn scale_as_seen_by_peer(peer: &HorizontalPodAutoscalerStatus, scale: Scale) -> Scale {
    if reason(peer, &ConditionType::AbleToScale) == Some(&ConditionReason::FailedGetScale) {
        return scale;
    }
    Scale { spec_replicas: peer.current_replicas, ..scale }
}

/// Compares a decision with the status that the peer wrote on the same inputs.
pub fn compare(decision: Decision<'_>, peer: PeerStatus<'_>, now: Timestamp) -> Comparison {
    let (scaled_to, status) = (peer.scaled_to(), peer.status);
    let written = match status.condition(&ConditionType::AbleToScale) {
        Some(able) if able.reason == ConditionReason::FailedUpdateScale => {
            Err(ScaleWriteError::failed(&able.message))
        }
        _ => Ok(()),
    };
    let is_same_scaling = decision.scale_to() == scaled_to;
    let unscaled = (!is_same_scaling)
        .then(|| decision.clone().conclude(Err(ScaleWriteError::not_sent("")), now).history);
    let mut conclusion = decision.conclude(written, now);
    if let Some(mut history) = unscaled {
        if let Some(replicas) = scaled_to {
            add_scale_event(&mut history, status.current_replicas, replicas, now);
        }
        conclusion.history = history;
    }
    let differences = differences(&conclusion.status, status);
    let has_same_metrics = conclusion.status.current_metrics == status.current_metrics;
    Comparison {
        conclusion,
        differences,
        has_same_metrics,
        has_read_peer_metrics: has_same_metrics,
        scaling_difference: None,
    }
}

/// Compares the peer's status with our decisions on several inputs: those read now (`decision`),
/// and those read `earlier`, newest first. The peer is assumed to have decided on one of them.
///
/// The result is the first comparison without a difference, preferably one with the metric values
/// of the peer's status: then our history continues with the recommendation that the peer made.
///
/// If all differ, the result is the comparison on the inputs read now. `has_same_metrics` is then
/// `true` only if all inputs have the metric values of the peer's status. If they don't, the inputs
/// were changing. The replicas that the peer has just scaled to are then the best estimate of its
/// recommendation, so they replace ours in the history.
pub fn compare_any<'a>(
    decision: Decision<'a>,
    earlier: impl IntoIterator<Item = Decision<'a>>,
    peer: PeerStatus<'_>,
    now: Timestamp,
) -> Comparison {
    let mut best = compare(decision, peer, now);
    for decision in earlier {
        let is_same = best.differences.is_empty();
        if is_same && best.has_same_metrics {
            break;
        }
        let other = compare(decision, peer, now);
        match (is_same, other.differences.is_empty()) {
            (true, true) if other.has_same_metrics => best = other,
            (true, _) => {}
            (false, true) => best = other,
            (false, false) => {
                best.has_same_metrics &= other.has_same_metrics;
                best.has_read_peer_metrics |= other.has_read_peer_metrics;
            }
        }
    }
    if !best.differences.is_empty()
        && !best.has_same_metrics
        && let Some(replicas) = peer.scaled_to()
    {
        let recommendations = &mut best.conclusion.history.recommendations;
        for recommendation in recommendations.iter_mut().filter(|ours| ours.at == now) {
            recommendation.replicas = replicas;
        }
    }
    best
}

/// Adds the peer's scaling: policies count it even if we would not have scaled.
fn add_scale_event(history: &mut History, from: i32, to: i32, at: Timestamp) {
    let change = i32::try_from(to.abs_diff(from)).unwrap_or(i32::MAX);
    let events = if to > from { &mut history.scale_ups } else { &mut history.scale_downs };
    events.push(ScaleEvent { change, at, outdated: false });
}

/// The fields of the decision that differ between two statuses.
pub fn differences(
    ours: &HorizontalPodAutoscalerStatus,
    theirs: &HorizontalPodAutoscalerStatus,
) -> Vec<Difference> {
    let difference = |field: &str, ours: String, theirs: String| {
        (ours != theirs).then(|| Difference { field: field.to_owned(), ours, theirs })
    };
    let desired = difference(
        DESIRED_REPLICAS,
        ours.desired_replicas.to_string(),
        theirs.desired_replicas.to_string(),
    );
    let types = [
        ConditionType::AbleToScale,
        ConditionType::ScalingActive,
        ConditionType::ScalingLimited,
        ConditionType::ScaledToZero,
    ];
    let conditions = types.iter().filter_map(|condition_type| {
        let text = |status| status_and_reason(status, condition_type);
        difference(condition_type.as_str(), text(ours), text(theirs))
    });
    desired.into_iter().chain(conditions).collect()
}

/// Status and reason of a condition; `none` without the condition or for `ScaledToZero=False`.
fn status_and_reason(
    status: &HorizontalPodAutoscalerStatus,
    condition_type: &ConditionType,
) -> String {
    let is_not_zero = |condition: &Condition| {
        *condition_type == ConditionType::ScaledToZero && condition.status == ConditionStatus::False
    };
    match status.condition(condition_type) {
        Some(condition) if !is_not_zero(condition) => {
            format!("{} {}", condition.status, condition.reason)
        }
        _ => "none".to_owned(),
    }
}

fn reason<'a>(
    status: &'a HorizontalPodAutoscalerStatus,
    condition_type: &ConditionType,
) -> Option<&'a ConditionReason> {
    status.condition(condition_type).map(|condition| &condition.reason)
}

/// The peer's status as an explanation of its decision, for logs and the report.
pub(crate) fn explain_status(peer: &HorizontalPodAutoscalerStatus) -> String {
    let condition = |condition: &Condition| {
        let Condition { condition_type, status, reason, message, .. } = condition;
        format!("; {condition_type} {status} {reason}: {message}")
    };
    let conditions: String = peer.conditions.iter().map(condition).collect();
    let metrics = serde_json::to_string(&peer.current_metrics).unwrap_or_default();
    let (current, desired) = (peer.current_replicas, peer.desired_replicas);
    format!("{current} -> {desired}{conditions}; metrics {metrics}")
}
