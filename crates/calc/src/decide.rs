//! The second call of a reconcile: from what was read to what is to be done.

use jiff::Timestamp;

use crate::{
    api::{
        ConditionReason, ConditionType, HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus,
        MetricStatus, Scale,
    },
    combine::{Combination, Combined, combine},
    event::{Event, EventReason},
    explain::{Explanation, Summary},
    history::History,
    messages,
    metric::Context,
    normalize::NormalizeInput,
    plan::{MetricsPath, Path, Plan, ScaleReadError, SelectorRejection, is_scaled_to_zero},
    readings::{ReadError, Reading},
    settings::{Readiness, Settings, Tolerances},
    status::StatusDraft,
};

/// What is to be done: a scale to write or not, and what to tell. [`Decision::conclude`]
/// makes the status to store of it.
#[derive(Clone, Debug)]
pub struct Decision<'a> {
    pub(crate) hpa: &'a HorizontalPodAutoscaler,
    pub(crate) settings: &'a Settings,
    pub(crate) draft: StatusDraft,
    pub(crate) outcome: Outcome,
    pub(crate) current: i32,
    pub(crate) metrics: Vec<MetricStatus>,
    pub(crate) events: Vec<Event>,
    pub(crate) history: History,
    pub(crate) explanation: Explanation,
    pub(crate) error: Option<ReconcileError>,
}

/// The end a decision comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing could be decided and nothing was read of the target: only conditions change.
    Unread,
    /// Nothing could be decided: the desired replicas stay.
    Undecided,
    /// The scale stays.
    Keep,
    /// The scale is to be written.
    Rescale { to: i32, reason: String },
    /// The scale stays because of a pause, and would be written otherwise.
    Held { to: i32 },
}

/// Why a reconcile counts as failed; in the reference controller's words. The scale may have been written all the
/// same, where enough metrics could be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReconcileError {
    /// The spec is at fault: its target's API version does not parse.
    #[error("invalid API version in scale target reference: {0}")]
    InvalidApiVersion(String),
    /// The target's kind is not served.
    #[error("unable to determine resource for scale target reference: {0}")]
    UnknownKind(String),
    /// The target's scale could not be read.
    #[error("failed to query scale subresource for {reference}: {message}")]
    ReadScale {
        /// `kind/namespace/name` of the target.
        reference: String,
        /// What the API said.
        message: String,
    },
    /// No replica count could be computed.
    #[error(
        "failed to compute desired number of replicas based on listed metrics for {reference}: {message}"
    )]
    ComputeReplicas {
        /// `kind/namespace/name` of the target.
        reference: String,
        /// Why.
        message: String,
    },
    /// Some metrics could not be used, but the others sufficed.
    #[error("{0}")]
    SomeMetrics(String),
    /// The target's scale could not be written.
    #[error("failed to rescale {reference}: {message}")]
    Rescale {
        /// `kind/namespace/name` of the target.
        reference: String,
        /// What the API said.
        message: String,
    },
}

impl<'a> Plan<'a> {
    /// Decides on what was read.
    ///
    /// `readings` has the answer to the query of each metric at that metric's index (see [`Plan::queries`]); what is
    /// absent counts as not read. `history` is what the autoscaler's last reconcile left. `now` is one point in time
    /// for the whole decision.
    pub fn decide(
        self,
        readings: Vec<Option<Result<Reading, ReadError>>>,
        mut history: History,
        now: Timestamp,
    ) -> Decision<'a> {
        let Self { hpa, settings, scale, path } = self;
        let current = scale.spec_replicas;
        let explanation = Explanation {
            current_replicas: current,
            desired_replicas: current,
            ..Explanation::default()
        };
        if !matches!(path, Path::ScaleUnreadable(_)) {
            history.begin(current, now);
        }
        let mut decision = Decision {
            hpa,
            settings,
            draft: StatusDraft::of(hpa, now),
            outcome: Outcome::Keep,
            current,
            metrics: Vec::new(),
            events: Vec::new(),
            history,
            explanation,
            error: None,
        };
        if !matches!(path, Path::ScaleUnreadable(_)) {
            decision.draft.set(
                ConditionType::AbleToScale,
                true,
                ConditionReason::SucceededGetScale,
                messages::GOT_SCALE,
            );
            decision.clear_stale_zero();
        }
        match path {
            Path::ScaleUnreadable(error) => decision.scale_unreadable(&error),
            Path::Disabled => decision.disabled(),
            Path::AboveMax => decision.out_of_bounds(hpa.spec.max_replicas, ABOVE_MAX),
            Path::BelowMin => decision.out_of_bounds(hpa.spec.effective_min_replicas(), BELOW_MIN),
            Path::SelectorRejected(rejection) => decision.selector_rejected(&rejection),
            Path::Metrics(metrics) => decision.on_metrics(&metrics, &scale, readings, now),
        }
        decision
    }
}

const ABOVE_MAX: &str = "Current number of replicas above Spec.MaxReplicas";
const BELOW_MIN: &str = "Current number of replicas below Spec.MinReplicas";

impl Decision<'_> {
    /// The replicas to write to the target's scale; `None` to leave it.
    pub fn scale_to(&self) -> Option<i32> {
        match self.outcome {
            Outcome::Rescale { to, .. } => Some(to),
            _ => None,
        }
    }

    /// How the decision came about.
    pub fn explanation(&self) -> &Explanation {
        &self.explanation
    }

    /// The status as far as it stands before the scale is written.
    pub fn proposed_status(&self) -> &HorizontalPodAutoscalerStatus {
        &self.draft.status
    }

    /// The events so far.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    pub(crate) fn reference(&self) -> String {
        let target = &self.hpa.spec.scale_target_ref;
        format!("{}/{}/{}", target.kind, self.hpa.metadata.namespace, target.name)
    }

    fn scale_unreadable(&mut self, error: &ScaleReadError) {
        let message = error.to_string();
        self.events.push(Event::warning(EventReason::FailedGetScale, message.clone()));
        self.draft.set(
            ConditionType::AbleToScale,
            false,
            ConditionReason::FailedGetScale,
            format!("the HPA controller was unable to get the target's current scale: {message}"),
        );
        self.outcome = Outcome::Unread;
        let reference = self.reference();
        self.fail(match error {
            ScaleReadError::InvalidApiVersion(_) => ReconcileError::InvalidApiVersion(message),
            ScaleReadError::UnknownKind(_) => ReconcileError::UnknownKind(message),
            ScaleReadError::Read(_) => ReconcileError::ReadScale { reference, message },
        });
    }

    fn fail(&mut self, error: ReconcileError) {
        self.explanation.summary = Summary::Failed(error.to_string());
        self.error = Some(error);
    }

    fn disabled(&mut self) {
        self.draft.set(
            ConditionType::ScalingActive,
            false,
            ConditionReason::ScalingDisabled,
            messages::DISABLED,
        );
        if !self.settings.scale_to_zero {
            self.draft.remove(&ConditionType::ScaledToZero);
        }
        self.explanation.summary = Summary::ScalingDisabled;
    }

    fn out_of_bounds(&mut self, bound: i32, reason: &str) {
        self.rescale(bound, reason.to_owned());
    }

    fn rescale(&mut self, to: i32, reason: String) {
        self.explanation.desired_replicas = to;
        self.explanation.summary = Summary::Rescale(reason.clone());
        self.outcome = Outcome::Rescale { to, reason };
    }

    fn selector_rejected(&mut self, rejection: &SelectorRejection) {
        let (event, reason, message, condition) = match rejection {
            SelectorRejection::Missing => (
                EventReason::SelectorRequired,
                ConditionReason::InvalidSelector,
                "selector is required".to_owned(),
                Some("the HPA target's scale is missing a selector"),
            ),
            SelectorRejection::Invalid(error) => (
                EventReason::InvalidSelector,
                ConditionReason::InvalidSelector,
                format!(
                    "couldn't convert selector into a corresponding internal selector object: {error}"
                ),
                None,
            ),
            SelectorRejection::Ambiguous { selector, autoscalers } => (
                EventReason::AmbiguousSelector,
                ConditionReason::AmbiguousSelector,
                format!(
                    "pods by selector {selector} are controlled by multiple HPAs: [{}]",
                    autoscalers.join(" ")
                ),
                None,
            ),
        };
        self.events.push(Event::warning(event, message.clone()));
        let condition =
            condition.map_or_else(|| message.clone().into(), std::borrow::Cow::Borrowed);
        self.draft.set(ConditionType::ScalingActive, false, reason, condition);
        self.undecided(message);
    }

    fn undecided(&mut self, message: String) {
        self.outcome = Outcome::Undecided;
        self.events
            .push(Event::warning(EventReason::FailedComputeMetricsReplicas, message.clone()));
        let reference = self.reference();
        self.fail(ReconcileError::ComputeReplicas { reference, message });
    }

    fn on_metrics(
        &mut self,
        path: &MetricsPath,
        scale: &Scale,
        readings: Vec<Option<Result<Reading, ReadError>>>,
        now: Timestamp,
    ) {
        let context = Context {
            namespace: &self.hpa.metadata.namespace,
            scale,
            pods: &path.pods,
            tolerances: Tolerances::of(&self.hpa.spec, self.settings),
            readiness: Readiness::at(now, self.settings),
        };
        let Combination { result, statuses, events, explanations } =
            combine(&self.hpa.spec.metrics, &path.queries, readings, &context);
        self.metrics = statuses;
        self.events.extend(events);
        self.explanation.metrics = explanations;
        match result {
            Err(failed) => {
                self.draft.set(
                    ConditionType::ScalingActive,
                    false,
                    failed.reason,
                    format!("the HPA was unable to compute the replica count: {}", failed.cause),
                );
                self.undecided(failed.message);
                self.scale_from_zero_to_min();
            }
            Ok(combined) => self.normalize(combined, now),
        }
    }

    /// A target that has replicas is not at zero by the autoscaler's doing, whatever it was before.
    fn clear_stale_zero(&mut self) {
        if self.settings.strict_scale_to_zero
            && self.current > 0
            && is_scaled_to_zero(self.hpa, self.settings)
        {
            self.draft.set_scaled_to_zero(false);
        }
    }

    /// `minReplicas` holds for a target that the autoscaler brought to zero, be there metrics or not.
    fn scale_from_zero_to_min(&mut self) {
        let fewest = self.hpa.spec.effective_min_replicas();
        if self.settings.strict_scale_to_zero && self.current == 0 && fewest > 0 {
            self.rescale(fewest, BELOW_MIN.to_owned());
        }
    }

    fn normalize(&mut self, combined: Combined, now: Timestamp) {
        let Combined { replicas, winner, metric, error } = combined;
        self.draft.set(
            ConditionType::ScalingActive,
            true,
            ConditionReason::ValidMetricFound,
            format!("the HPA was able to successfully calculate a replica count from {metric}"),
        );
        self.error = error.map(ReconcileError::SomeMetrics);
        let proposed = replicas.max(0);
        let mut reason = match proposed {
            _ if proposed > self.current => format!("{metric} above target"),
            _ if proposed < self.current => "All metrics below target".to_owned(),
            _ => String::new(),
        };
        let spec = &self.hpa.spec;
        let situation =
            NormalizeInput { spec, settings: self.settings, current: self.current, now };
        let normalized = situation.normalize(proposed, &mut self.history);
        let (stabilized_by, grounds) = match &normalized.stabilization {
            Some(grounds) => {
                (Some(grounds.reason.clone()), (grounds.reason.clone(), grounds.message))
            }
            None => (None, (ConditionReason::ReadyForNewScale, messages::MATCHES)),
        };
        self.draft.set(ConditionType::AbleToScale, true, grounds.0, grounds.1);
        let limit = &normalized.limit;
        let is_limited = normalized.is_limited();
        self.draft.set(
            ConditionType::ScalingLimited,
            is_limited,
            limit.reason.clone(),
            limit.message,
        );
        let mut desired = normalized.replicas;
        let fewest = spec.effective_min_replicas();
        if self.current == 0
            && fewest != 0
            && desired < fewest
            && is_scaled_to_zero(self.hpa, self.settings)
        {
            desired = fewest;
            if reason.is_empty() {
                BELOW_MIN.clone_into(&mut reason);
            }
        }
        self.explanation.winner = winner;
        self.explanation.proposed_replicas = Some(proposed);
        self.explanation.stabilized_replicas = Some(normalized.stabilized);
        self.explanation.stabilized_by = stabilized_by;
        self.explanation.limited_by = is_limited.then(|| limit.reason.clone());
        if desired != self.current {
            self.rescale(desired, reason);
        }
    }
}
