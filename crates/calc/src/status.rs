//! Changes to an autoscaler's status, as the reference makes them.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::{
    api::{
        Condition, ConditionReason, ConditionStatus, ConditionType, HorizontalPodAutoscaler,
        HorizontalPodAutoscalerStatus, MetricStatus,
    },
    messages,
};

/// A status in the making.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StatusDraft {
    pub(crate) status: HorizontalPodAutoscalerStatus,
    generation: Option<i64>,
    now: Timestamp,
}

impl StatusDraft {
    /// Starts from the status the object has.
    pub(crate) fn of(hpa: &HorizontalPodAutoscaler, now: Timestamp) -> Self {
        // Servers before 1.37 do not count generations of autoscalers: there is nothing to observe.
        let generation = hpa.metadata.generation.filter(|generation| *generation > 0);
        let mut status = hpa.status.clone();
        if generation.is_some() {
            status.observed_generation = generation;
        }
        Self { status, generation, now }
    }

    /// Sets a condition; its transition time moves only when its status changes. A new one comes last.
    pub(crate) fn set(
        &mut self,
        condition_type: ConditionType,
        holds: bool,
        reason: ConditionReason,
        message: impl Into<Cow<'static, str>>,
    ) {
        let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
        let conditions = &mut self.status.conditions;
        let found =
            conditions.iter_mut().find(|condition| condition.condition_type == condition_type);
        let Some(condition) = found else {
            conditions.push(Condition {
                condition_type,
                status,
                last_transition_time: Some(self.now),
                reason,
                message: message.into(),
                observed_generation: self.generation,
                unknown: crate::api::Unknown::default(),
            });
            return;
        };
        if condition.status != status {
            condition.last_transition_time = Some(self.now);
        }
        condition.status = status;
        condition.reason = reason;
        condition.message = message.into();
        if self.generation.is_some() {
            condition.observed_generation = self.generation;
        }
    }

    /// Notes whether it was the autoscaler that brought the workload to zero (KEP-2021).
    pub(crate) fn set_scaled_to_zero(&mut self, by_us: bool) {
        let (reason, message) = if by_us {
            (ConditionReason::ScaledToZero, messages::ZERO_BY_US)
        } else {
            (ConditionReason::NotScaledToZero, messages::ZERO_NOT_BY_US)
        };
        self.set(ConditionType::ScaledToZero, by_us, reason, message);
    }

    /// When this reconcile is.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Removes a condition.
    pub(crate) fn remove(&mut self, condition_type: &ConditionType) {
        self.status.conditions.retain(|condition| condition.condition_type != *condition_type);
    }

    /// What was read; the desired replicas stay.
    pub(crate) fn observe(&mut self, current_replicas: i32, metrics: Vec<MetricStatus>) {
        self.status.current_replicas = current_replicas;
        self.status.current_metrics = metrics;
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const BEFORE: &str = "2026-01-01T00:00:00Z";
    const NOW: &str = "2026-01-01T00:01:00Z";

    fn hpa(generation: Option<i64>) -> HorizontalPodAutoscaler {
        serde_json::from_value(json!({
            "metadata": { "generation": generation },
            "status": {
                "observedGeneration": 3,
                "conditions": [
                    { "type": "ScalingActive", "status": "True", "lastTransitionTime": BEFORE,
                      "reason": "ValidMetricFound", "message": "old", "observedGeneration": 3, "newer": 1 },
                    { "type": "ScaledToZero", "status": "False", "lastTransitionTime": BEFORE },
                ],
            },
        }))
        .unwrap()
    }

    fn draft(generation: Option<i64>) -> StatusDraft {
        StatusDraft::of(&hpa(generation), NOW.parse().unwrap())
    }

    #[rstest]
    #[case::same_status_keeps_the_time(true, "True", BEFORE)]
    #[case::another_status_moves_it(false, "False", NOW)]
    fn a_condition_that_is_there(#[case] holds: bool, #[case] status: &str, #[case] time: &str) {
        let mut draft = draft(Some(4));
        draft.set(ConditionType::ScalingActive, holds, ConditionReason::ScalingDisabled, "new");
        let condition = serde_json::to_value(&draft.status.conditions[0]).unwrap();
        assert_eq!(
            condition,
            json!({ "type": "ScalingActive", "status": status, "lastTransitionTime": time,
                    "reason": "ScalingDisabled", "message": "new", "observedGeneration": 4, "newer": 1 })
        );
        assert_eq!(draft.status.conditions.len(), 2);
    }

    #[test]
    fn a_new_condition_comes_last() {
        let mut draft = draft(Some(4));
        draft.set(ConditionType::AbleToScale, false, ConditionReason::FailedGetScale, "new");
        let condition = serde_json::to_value(draft.status.conditions.last().unwrap()).unwrap();
        assert_eq!(
            condition,
            json!({ "type": "AbleToScale", "status": "False", "lastTransitionTime": NOW,
                    "reason": "FailedGetScale", "message": "new", "observedGeneration": 4 })
        );
    }

    #[rstest]
    #[case::counted(Some(1), Some(1), Some(1))]
    #[case::not_counted(None, Some(3), None)]
    #[case::zero_is_not_counted(Some(0), Some(3), None)]
    fn generations(
        #[case] generation: Option<i64>,
        #[case] of_old: Option<i64>,
        #[case] of_new: Option<i64>,
    ) {
        let mut draft = draft(generation);
        draft.set(ConditionType::ScalingActive, true, ConditionReason::ValidMetricFound, "");
        draft.set(ConditionType::AbleToScale, true, ConditionReason::SucceededGetScale, "");
        assert_eq!(draft.status.observed_generation, of_old);
        assert_eq!(draft.status.conditions[0].observed_generation, of_old);
        assert_eq!(draft.status.conditions[2].observed_generation, of_new);
    }

    #[test]
    fn removal() {
        let mut draft = draft(None);
        draft.remove(&ConditionType::ScaledToZero);
        draft.remove(&ConditionType::AbleToScale);
        assert_eq!(draft.status.conditions.len(), 1);
        assert_eq!(draft.status.conditions[0].condition_type, ConditionType::ScalingActive);
    }
}
