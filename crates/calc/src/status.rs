//! Changes to an autoscaler's status, as the reference makes them.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::api::{
    Condition, ConditionReason, ConditionStatus, ConditionType, HorizontalPodAutoscaler,
    HorizontalPodAutoscalerStatus, MetricStatus,
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
        let found = conditions.iter_mut().find(|condition| condition.condition_type == condition_type);
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
