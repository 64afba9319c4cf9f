//! Changes to an autoscaler's status, as the reference makes them.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::{
    api::{
        Condition, ConditionReason, ConditionStatus, ConditionType, HorizontalPodAutoscaler,
        HorizontalPodAutoscalerStatus, MetricStatus, UnknownFields,
    },
    messages,
};

/// The status that a reconcile builds, starting from the stored one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StatusDraft {
    pub(crate) status: HorizontalPodAutoscalerStatus,
    generation: Option<i64>,
    /// The time of the decision.
    pub(crate) now: Timestamp,
}

impl StatusDraft {
    /// Starts from the autoscaler's stored status.
    pub(crate) fn new(hpa: &HorizontalPodAutoscaler, now: Timestamp) -> Self {
        // API servers before 1.37 set no generation on autoscalers.
        let generation = hpa.metadata.generation.filter(|generation| *generation > 0);
        let mut status = hpa.status.clone();
        if generation.is_some() {
            status.observed_generation = generation;
        }
        Self { status, generation, now }
    }

    /// Sets a condition. `is_true` is its status. The transition time changes only if the status
    /// does. A new condition is added at the end.
    pub(crate) fn set(
        &mut self,
        condition_type: ConditionType,
        is_true: bool,
        reason: ConditionReason,
        message: impl Into<Cow<'static, str>>,
    ) {
        let status = if is_true { ConditionStatus::True } else { ConditionStatus::False };
        let conditions = &mut self.status.conditions;
        let existing =
            conditions.iter_mut().find(|condition| condition.condition_type == condition_type);
        let Some(condition) = existing else {
            conditions.push(Condition {
                condition_type,
                status,
                last_transition_time: Some(self.now),
                reason,
                message: message.into(),
                observed_generation: self.generation,
                unknown: UnknownFields::default(),
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

    /// Sets `ScaledToZero`: whether the autoscaler scaled the workload to zero (KEP-2021).
    pub(crate) fn set_scaled_to_zero(&mut self, is_scaled_to_zero: bool) {
        let (reason, message) = if is_scaled_to_zero {
            (ConditionReason::ScaledToZero, messages::SCALED_TO_ZERO)
        } else {
            (ConditionReason::NotScaledToZero, messages::NOT_SCALED_TO_ZERO)
        };
        self.set(ConditionType::ScaledToZero, is_scaled_to_zero, reason, message);
    }

    pub(crate) fn remove(&mut self, condition_type: &ConditionType) {
        self.status.conditions.retain(|condition| condition.condition_type != *condition_type);
    }

    /// Sets `currentReplicas` and `currentMetrics`.
    pub(crate) fn set_current(&mut self, current_replicas: i32, metrics: Vec<MetricStatus>) {
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
                    {
                        "type": "ScalingActive",
                        "status": "True",
                        "lastTransitionTime": BEFORE,
                        "reason": "ValidMetricFound",
                        "message": "old",
                        "observedGeneration": 3,
                        "newer": 1,
                    },
                    { "type": "ScaledToZero", "status": "False", "lastTransitionTime": BEFORE },
                ],
            },
        }))
        .unwrap()
    }

    fn draft(generation: Option<i64>) -> StatusDraft {
        StatusDraft::new(&hpa(generation), NOW.parse().unwrap())
    }

    #[rstest]
    #[case::same_status_keeps_transition_time(true, "True", BEFORE)]
    #[case::new_status_changes_transition_time(false, "False", NOW)]
    fn existing_condition_is_updated(
        #[case] is_true: bool,
        #[case] status: &str,
        #[case] time: &str,
    ) {
        let mut draft = draft(Some(4));
        draft.set(ConditionType::ScalingActive, is_true, ConditionReason::ScalingDisabled, "new");
        let condition = serde_json::to_value(&draft.status.conditions[0]).unwrap();
        assert_eq!(
            condition,
            json!({
                "type": "ScalingActive",
                "status": status,
                "lastTransitionTime": time,
                "reason": "ScalingDisabled",
                "message": "new",
                "observedGeneration": 4,
                "newer": 1,
            })
        );
        assert_eq!(draft.status.conditions.len(), 2);
    }

    #[test]
    fn new_condition_is_added_at_the_end() {
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
    #[case::set(Some(1), Some(1), Some(1))]
    #[case::absent(None, Some(3), None)]
    #[case::zero_is_ignored(Some(0), Some(3), None)]
    fn observed_generation_follows_generation(
        #[case] generation: Option<i64>,
        #[case] existing: Option<i64>,
        #[case] added: Option<i64>,
    ) {
        let mut draft = draft(generation);
        draft.set(ConditionType::ScalingActive, true, ConditionReason::ValidMetricFound, "");
        draft.set(ConditionType::AbleToScale, true, ConditionReason::SucceededGetScale, "");
        assert_eq!(draft.status.observed_generation, existing);
        assert_eq!(draft.status.conditions[0].observed_generation, existing);
        assert_eq!(draft.status.conditions[2].observed_generation, added);
    }

    #[test]
    fn remove_keeps_other_conditions() {
        let mut draft = draft(None);
        draft.remove(&ConditionType::ScaledToZero);
        draft.remove(&ConditionType::AbleToScale);
        assert_eq!(draft.status.conditions.len(), 1);
        assert_eq!(draft.status.conditions[0].condition_type, ConditionType::ScalingActive);
    }
}
