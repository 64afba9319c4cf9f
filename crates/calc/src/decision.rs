//! Decisions and their errors.

use crate::{
    api::{ConditionReason, ConditionType, HorizontalPodAutoscaler, MetricStatus},
    event::Event,
    explain::{Explanation, Summary, counted},
    history::{Direction, History},
    messages,
    pause::Pause,
    settings::{Bounds, Settings},
    status::StatusDraft,
};

/// The result of deciding: the replicas to write, if any, and what to report.
/// [`Decision::conclude`] turns it into the status to store.
#[derive(Clone, Debug)]
pub struct Decision<'a> {
    pub(crate) hpa: &'a HorizontalPodAutoscaler,
    pub(crate) settings: &'a Settings,
    pub(crate) draft: StatusDraft,
    pub(crate) outcome: Outcome,
    /// The target's `spec.replicas`.
    pub(crate) current: i32,
    /// The effective bounds at the time of the decision.
    pub(crate) bounds: Bounds,
    pub(crate) metrics: Vec<MetricStatus>,
    pub(crate) events: Vec<Event>,
    pub(crate) history: History,
    pub(crate) explanation: Explanation,
    pub(crate) error: Option<ReconcileError>,
}

/// The effect of a decision on the scale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The scale could not be read: only conditions and `observedGeneration` change.
    ScaleUnavailable,
    /// The desired replicas could not be computed. `status.desiredReplicas` stays.
    Undecided,
    /// The scale stays.
    Unchanged,
    /// The scale has to be written.
    Rescale { to: i32, reason: String },
    /// The scale would have to be written, but that direction is paused.
    Paused { to: i32 },
}

/// The error of a reconcile. Where the reference controller has the error, the text is the same. It
/// includes all causes, so there is no `source`.
///
/// With a [partial](Self::is_partial) error, the reconcile has decided, and may have written the
/// scale. Two other errors don't exclude a write: [`Self::ComputeReplicas`] with
/// [`Settings::strict_scale_to_zero`], and [`Self::Rescale`] if the response was lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReconcileError {
    /// `scaleTargetRef.apiVersion` does not parse.
    #[error("invalid API version in scale target reference: {0}")]
    InvalidApiVersion(String),
    /// The API server serves no resource of the target's kind.
    #[error("unable to determine resource for scale target reference: {0}")]
    UnknownKind(String),
    /// The target's scale could not be read.
    #[error("failed to query scale subresource for {target}: {message}")]
    ReadScale {
        /// `kind/namespace/name` of the target.
        target: String,
        /// The error of the request.
        message: String,
    },
    /// The desired replicas could not be computed.
    #[error(
        "failed to compute desired number of replicas based on listed metrics for {target}: \
            {message}"
    )]
    ComputeReplicas {
        /// `kind/namespace/name` of the target.
        target: String,
        /// The problem with the selector or the metrics.
        message: String,
    },
    /// Some metrics failed, but the others were enough to decide.
    #[error("{0}")]
    SomeMetrics(String),
    /// The target's scale could not be written.
    #[error("failed to rescale {target}: {message}")]
    Rescale {
        /// `kind/namespace/name` of the target.
        target: String,
        /// The error of the write.
        message: String,
    },
}

impl ReconcileError {
    /// Whether the autoscaler's spec is invalid: a retry can't succeed until the spec changes.
    pub fn is_invalid_spec(&self) -> bool {
        matches!(self, Self::InvalidApiVersion(_))
    }

    /// The error without the texts that the reference puts before its cause.
    pub fn cause(&self) -> &str {
        match self {
            Self::InvalidApiVersion(text) | Self::UnknownKind(text) | Self::SomeMetrics(text) => {
                text
            }
            Self::ReadScale { message, .. }
            | Self::ComputeReplicas { message, .. }
            | Self::Rescale { message, .. } => message,
        }
    }

    /// The error without the names of the autoscalers that share pods: the names change while the
    /// problem stays. Equal texts are the same problem.
    pub fn problem(&self) -> String {
        let text = self.to_string();
        match text.rsplit_once(messages::AMBIGUOUS) {
            Some((start, _)) => start.to_owned(),
            None => text,
        }
    }

    /// Whether the reconcile decided in spite of the error, because enough metrics could be read.
    pub fn is_partial(&self) -> bool {
        matches!(self, Self::SomeMetrics(_))
    }
}

impl Decision<'_> {
    /// The replicas to write to the target's scale, or `None` to leave it.
    pub fn scale_to(&self) -> Option<i32> {
        match self.outcome {
            Outcome::Rescale { to, .. } => Some(to),
            _ => None,
        }
    }

    /// The replicas that the target has after the decision.
    pub(crate) fn resulting_replicas(&self) -> i32 {
        self.scale_to().unwrap_or(self.current)
    }

    /// The explanation of the decision, per metric and limit.
    pub fn explanation(&self) -> &Explanation {
        &self.explanation
    }

    /// The error, if the decision failed or some metrics did ([`ReconcileError::is_partial`]).
    pub fn error(&self) -> Option<&ReconcileError> {
        self.error.as_ref()
    }

    /// The events of the decision, without the event about the scale write.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// `kind/namespace/name` of the target.
    pub(crate) fn target_name(&self) -> String {
        let target = &self.hpa.spec.scale_target_ref;
        format!("{}/{}/{}", target.kind, self.hpa.metadata.namespace, target.name)
    }

    pub(crate) fn fail(&mut self, error: ReconcileError) {
        self.explanation.summary = Summary::Failed(error.to_string());
        self.error = Some(error);
    }

    /// Applies the pause of the settings: the scale is not written in a paused direction, not even
    /// to bring it within `minReplicas` and `maxReplicas`.
    ///
    /// Recommendations are recorded as without a pause. `desiredReplicas` has the replicas that
    /// would be written.
    ///
    /// While a direction is paused, the status has the condition `Paused=True`, which the reference
    /// doesn't have. The status of all other conditions is unaffected, so that alerts on them don't
    /// mistake a pause for a failure. While the pause prevents scaling, the reason of `AbleToScale`
    /// is `SucceededGetScale` instead of `ReadyForNewScale`. Without a pause, `Paused` is removed.
    pub(crate) fn apply_pause(&mut self) {
        let pause = self.settings.pause;
        if pause == Pause::NONE {
            self.draft.remove(&ConditionType::Paused);
            return;
        }
        let mut message = pause.to_string();
        if let Outcome::Rescale { to, reason } = &self.outcome {
            let to = *to;
            if pause.applies_to(Direction::of_change(self.current, to)) {
                message = format!("{message}: {} desired", counted(to, "replica"));
                self.explanation.summary = Summary::Paused(reason.clone());
                self.outcome = Outcome::Paused { to };
            }
        }
        let prevents_scaling =
            pause == Pause::BOTH || matches!(self.outcome, Outcome::Paused { .. });
        let able = self.draft.status.condition(&ConditionType::AbleToScale);
        if prevents_scaling
            && able.is_some_and(|able| able.reason == ConditionReason::ReadyForNewScale)
        {
            self.draft.set(
                ConditionType::AbleToScale,
                true,
                ConditionReason::SucceededGetScale,
                messages::GOT_SCALE,
            );
        }
        self.draft.set(ConditionType::Paused, true, ConditionReason::PausedByAnnotation, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_is_the_same_if_other_autoscalers_share_the_pods() {
        let ambiguous = |selector: &str, names: &str| ReconcileError::ComputeReplicas {
            target: "Deployment/shop/web".to_owned(),
            message: format!("pods by selector {selector} {}{names}]", messages::AMBIGUOUS),
        };
        let problem = ambiguous("app=web", "shop/a shop/b").problem();
        assert_eq!(problem, ambiguous("app=web", "shop/a shop/c").problem());
        assert_ne!(problem, ambiguous("app=api", "shop/a shop/b").problem());
        let other = ReconcileError::UnknownKind("no matches for kind".to_owned());
        assert_eq!(other.problem(), other.to_string());
    }
}
