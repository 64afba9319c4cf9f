//! The third call of a reconcile: the status to store, once it is known whether the scale could be written.

use jiff::Timestamp;

use crate::{
    api::{ConditionReason, ConditionType, HorizontalPodAutoscalerStatus},
    decide::{Decision, Outcome, ReconcileError},
    event::{Event, EventReason},
    explain::{Explanation, Summary},
    history::{Direction, History},
    plan::has_object_or_external_metric,
    policies::Rules,
    status::StatusDraft,
};

/// What a reconcile leaves behind.
#[derive(Clone, Debug)]
pub struct Conclusion {
    /// The status to store.
    pub status: HorizontalPodAutoscalerStatus,
    /// The events to emit, in order.
    pub events: Vec<Event>,
    /// What the next reconcile of this autoscaler is to be given.
    pub history: History,
    /// How the decision came about.
    pub explanation: Explanation,
    /// The replicas that were written, if any.
    pub scaled_to: Option<i32>,
    /// Why the reconcile counts as failed, if it does.
    pub error: Option<ReconcileError>,
}

impl Decision<'_> {
    /// Concludes the reconcile. `written` is how the write of [`Decision::scale_to`] went: the error is what the API
    /// said; it is not looked at where there was nothing to write.
    pub fn conclude(mut self, written: Result<(), String>, now: Timestamp) -> Conclusion {
        let mut scaled_to = None;
        match (std::mem::replace(&mut self.outcome, Outcome::Keep), written) {
            (Outcome::Unread, _) => {}
            (Outcome::Undecided, _) => self.observe(),
            (Outcome::Keep, _) => {
                self.observe();
                self.draft.status.desired_replicas = self.current;
            }
            (Outcome::Held { to }, _) => {
                self.observe();
                self.draft.status.desired_replicas = to;
            }
            (Outcome::Rescale { to, reason }, Ok(())) => {
                self.rescaled(to, &reason, now);
                scaled_to = Some(to);
            }
            (Outcome::Rescale { to, reason }, Err(message)) => {
                self.not_rescaled(to, &reason, message)
            }
        }
        let Self { draft, events, history, explanation, error, .. } = self;
        Conclusion { status: draft.status, events, history, explanation, scaled_to, error }
    }

    fn observe(&mut self) {
        let metrics = std::mem::take(&mut self.metrics);
        self.draft.observe(self.current, metrics);
    }

    fn rescaled(&mut self, to: i32, reason: &str, now: Timestamp) {
        self.draft.set(
            ConditionType::AbleToScale,
            true,
            ConditionReason::SucceededRescale,
            format!("the HPA controller was able to update the target scale to {to}"),
        );
        self.events.push(Event::normal(
            EventReason::SuccessfulRescale,
            format!("New size: {to}; reason: {reason}"),
        ));
        // Without behavior nobody would read the scale events.
        if let Some(behavior) = &self.hpa.spec.behavior {
            let direction = if to > self.current { Direction::Up } else { Direction::Down };
            let longest_period = Rules::of(behavior, direction).longest_period();
            self.history.scaled(self.current, to, longest_period, now);
        }
        self.mark_zero(to);
        self.observe();
        self.draft.status.desired_replicas = to;
        self.draft.status.last_scale_time = Some(now);
    }

    /// Notes whether it was the autoscaler that brought the workload to zero (KEP-2021).
    fn mark_zero(&mut self, to: i32) {
        if !self.settings.scale_to_zero {
            self.draft.remove(&ConditionType::ScaledToZero);
            return;
        }
        let by_us = self.is_to_zero(to);
        self.draft.set_scaled_to_zero(by_us);
    }

    /// Whether scaling to `to` brings the workload to a zero that the autoscaler may end again.
    fn is_to_zero(&self, to: i32) -> bool {
        let spec = &self.hpa.spec;
        self.settings.scale_to_zero
            && self.current > 0
            && to == 0
            && spec.effective_min_replicas() == 0
            && has_object_or_external_metric(&spec.metrics)
    }

    /// The status to store before the scale is written: `None` unless the workload is about to be scaled to zero.
    ///
    /// It has the `ScaledToZero` condition. Were that stored after the scale only, as the reference does, a controller
    /// that ends in between would leave a workload at zero that looks like one that a user has paused: for ever.
    pub fn status_before_scale(&self) -> Option<HorizontalPodAutoscalerStatus> {
        self.scale_to().filter(|to| self.is_to_zero(*to))?;
        let mut ahead = StatusDraft::of(self.hpa, self.draft.now());
        ahead.set_scaled_to_zero(true);
        Some(ahead.status)
    }

    fn not_rescaled(&mut self, to: i32, reason: &str, message: String) {
        self.events.push(Event::warning(
            EventReason::FailedRescale,
            format!("New size: {to}; reason: {reason}; error: {message}"),
        ));
        self.draft.set(
            ConditionType::AbleToScale,
            false,
            ConditionReason::FailedUpdateScale,
            format!("the HPA controller was unable to update the target scale: {message}"),
        );
        self.observe();
        let error = ReconcileError::Rescale { reference: self.reference(), message };
        self.explanation.summary = Summary::Failed(error.to_string());
        self.error = Some(error);
    }
}
