//! The third call of a reconcile: from the result of the scale write to the status to store.

use jiff::Timestamp;

use crate::{
    api::{ConditionReason, ConditionType, HorizontalPodAutoscalerStatus},
    behavior::EffectiveBehavior,
    decision::{Decision, Outcome, ReconcileError},
    event::{Event, EventReason},
    explain::Explanation,
    history::{Direction, History},
    messages::UNABLE_TO_UPDATE_SCALE,
};

/// The result of a reconcile.
#[derive(Clone, Debug)]
pub struct Conclusion {
    /// The status to store.
    pub status: HorizontalPodAutoscalerStatus,
    /// The events to emit, in order.
    pub events: Vec<Event>,
    /// The history to pass to the autoscaler's next decision.
    pub history: History,
    /// The explanation of the decision.
    pub explanation: Explanation,
    /// The replicas that were written, if any.
    pub scaled_to: Option<i32>,
    /// The error, if the reconcile failed or some metrics did ([`ReconcileError::is_partial`]).
    pub error: Option<ReconcileError>,
}

/// The error of a scale write. Conditions and events include its text, which is that of the cause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScaleWriteError {
    /// The request failed, or the API server refused it. If there was no response, the scale may
    /// have been written anyway.
    #[error("{0}")]
    Failed(String),
    /// No request was sent, because a step before the write failed.
    #[error("{0}")]
    NotSent(String),
}

impl ScaleWriteError {
    /// A request that failed, with the text of its error.
    pub fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }

    /// A request that was not sent, with the reason.
    pub fn not_sent(reason: impl std::fmt::Display) -> Self {
        Self::NotSent(reason.to_string())
    }
}

impl Decision<'_> {
    /// Concludes the reconcile.
    ///
    /// `written` is the result of writing [`Decision::scale_to`]. If there was nothing to write, it
    /// is ignored. `now` is the time of the write.
    pub fn conclude(mut self, written: Result<(), ScaleWriteError>, now: Timestamp) -> Conclusion {
        let mut scaled_to = None;
        match (std::mem::replace(&mut self.outcome, Outcome::Unchanged), written) {
            (Outcome::ScaleUnavailable, _) => {}
            (Outcome::Undecided, _) => self.set_current_status(),
            (Outcome::Unchanged, _) => {
                self.set_current_status();
                self.draft.status.desired_replicas = self.current;
            }
            (Outcome::Paused { to }, _) => {
                self.set_current_status();
                self.draft.status.desired_replicas = to;
            }
            (Outcome::Rescale { to, reason }, Ok(())) => {
                self.record_rescale(to, &reason, now);
                scaled_to = Some(to);
            }
            (Outcome::Rescale { to, reason }, Err(error)) => {
                self.record_failed_rescale(to, &reason, &error);
            }
        }
        let Self { draft, events, history, explanation, error, .. } = self;
        Conclusion { status: draft.status, events, history, explanation, scaled_to, error }
    }

    fn set_current_status(&mut self) {
        let metrics = std::mem::take(&mut self.metrics);
        self.draft.set_current(self.current, metrics);
    }

    fn record_rescale(&mut self, to: i32, reason: &str, now: Timestamp) {
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
        // Only policies read scale events, and without `behavior` there are none.
        if self.hpa.spec.behavior.is_some() {
            let direction = Direction::of_change(self.current, to);
            let rules = EffectiveBehavior::new(&self.hpa.spec, self.settings).rules(direction);
            let longest_period = rules.longest_policy_period();
            self.history.add_scale_event(self.current, to, longest_period, now);
        }
        self.update_scaled_to_zero(to);
        self.set_current_status();
        self.draft.status.desired_replicas = to;
        self.draft.status.last_scale_time = Some(now);
    }

    fn record_failed_rescale(&mut self, to: i32, reason: &str, error: &ScaleWriteError) {
        self.events.push(Event::warning(
            EventReason::FailedRescale,
            format!("New size: {to}; reason: {reason}; error: {error}"),
        ));
        self.draft.set(
            ConditionType::AbleToScale,
            false,
            ConditionReason::FailedUpdateScale,
            format!("{UNABLE_TO_UPDATE_SCALE}{error}"),
        );
        self.set_current_status();
        let (target, message) = (self.target_name(), error.to_string());
        self.fail(ReconcileError::Rescale { target, message });
    }
}
