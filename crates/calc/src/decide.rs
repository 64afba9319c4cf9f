//! The second call of a reconcile: from the readings to the desired replicas.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::{
    api::{
        ConditionReason, ConditionType, HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus,
        MetricStatus, Scale,
    },
    behavior::EffectiveBehavior,
    combine::{CombinedMetrics, LargestProposal, combine},
    event::{Event, EventReason},
    explain::{Explanation, ExtraPods, SettingEffect, Summary},
    fallback::Fallbacks,
    go_text,
    history::{Direction, History},
    messages,
    metric::{Context, MISSING_REQUESTS},
    normalize::NormalizeInput,
    plan::{
        MetricsPlan, Plan, PlanKind, ScaleReadError, SelectorRejection, is_scaled_to_zero,
        out_of_bounds,
    },
    readings::Readings,
    settings::{
        Bounds, BoundsChange, DEFAULT_METRIC, OwnSettings, PodSelection, Readiness, Settings,
        Tolerances, after, before,
    },
    status::StatusDraft,
    validation::MAX_METRICS,
};

/// The result of deciding: the replicas to write, if any, and what to report.
/// [`Decision::conclude`] turns it into the status to store.
#[derive(Clone, Debug)]
pub struct Decision<'a> {
    pub(crate) hpa: &'a HorizontalPodAutoscaler,
    pub(crate) settings: &'a Settings,
    pub(crate) draft: StatusDraft,
    pub(crate) outcome: Outcome,
    pub(crate) current: i32,
    /// The effective bounds at the time of the decision.
    pub(crate) bounds: Bounds,
    pub(crate) metrics: Vec<MetricStatus>,
    pub(crate) events: Vec<Event>,
    pub(crate) history: History,
    pub(crate) explanation: Explanation,
    pub(crate) error: Option<ReconcileError>,
}

/// The outcome of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The scale could not be read: only conditions change.
    ScaleUnavailable,
    /// The desired replicas could not be computed. `status.desiredReplicas` stays.
    Undecided,
    /// The scale stays.
    Unchanged,
    /// The scale has to be written.
    Rescale { to: i32, reason: String },
    /// The scale would have to be written, but a pause forbids it.
    Paused { to: i32 },
}

impl Outcome {
    /// The direction of a change from `current` to `to` replicas.
    pub(crate) fn direction(current: i32, to: i32) -> Direction {
        if to > current { Direction::Up } else { Direction::Down }
    }
}

/// The error of a reconcile. The texts are those of the reference controller and include all
/// causes, so there is no `source`.
///
/// The scale may have been written anyway, see [`ReconcileError::is_partial`].
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
    #[error("failed to query scale subresource for {reference}: {message}")]
    ReadScale {
        /// `kind/namespace/name` of the target.
        reference: String,
        /// The error of the request.
        message: String,
    },
    /// The desired replicas could not be computed.
    #[error(
        "failed to compute desired number of replicas based on listed metrics for {reference}: \
            {message}"
    )]
    ComputeReplicas {
        /// `kind/namespace/name` of the target.
        reference: String,
        /// The problem with the selector or the metrics.
        message: String,
    },
    /// Some metrics failed, but the others were enough to decide.
    #[error("{0}")]
    SomeMetrics(String),
    /// The target's scale could not be written.
    #[error("failed to rescale {reference}: {message}")]
    Rescale {
        /// `kind/namespace/name` of the target.
        reference: String,
        /// The error of the write.
        message: String,
    },
}

impl ReconcileError {
    /// Whether the autoscaler's spec is at fault, so that a retry can't succeed before it changes.
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

    /// Whether the reconcile decided in spite of the error, because enough metrics could be read.
    pub fn is_partial(&self) -> bool {
        matches!(self, Self::SomeMetrics(_))
    }
}

/// The inputs of the proposals of a plan's metrics, without the readings.
fn context<'a>(
    hpa: &'a HorizontalPodAutoscaler,
    settings: &'a Settings,
    scale: &'a Scale,
    plan: &'a MetricsPlan,
    now: Timestamp,
) -> Context<'a> {
    Context {
        namespace: &hpa.metadata.namespace,
        scale,
        pods: &plan.pods,
        tolerances: Tolerances::for_spec(&hpa.spec, settings),
        readiness: Readiness::new(now, settings),
        settings,
        metric: &DEFAULT_METRIC,
    }
}

impl<'a> Plan<'a> {
    pub(crate) fn context<'b>(&'b self, plan: &'b MetricsPlan, now: Timestamp) -> Context<'b> {
        context(self.hpa, self.settings, &self.scale, plan, now)
    }

    /// Decides on the readings.
    ///
    /// `readings` answer [`Plan::queries`]; a metric without a reading counts as failed. `history`
    /// is what the autoscaler's last reconcile returned, see [`Conclusion::history`], or empty for
    /// the first one. `now` is the time of the whole decision.
    ///
    /// [`Conclusion::history`]: crate::conclude::Conclusion::history
    pub fn decide(self, readings: Readings, mut history: History, now: Timestamp) -> Decision<'a> {
        let Self { hpa, settings, scale, kind } = self;
        let current = scale.spec_replicas;
        let (bounds, bounds_change) = settings.schedule_at(&hpa.spec, now);
        let is_scheduled = settings.bounds.is_some();
        let explanation = Explanation {
            current_replicas: current,
            desired_replicas: current,
            bounds: is_scheduled.then_some(bounds),
            ..Explanation::default()
        };
        let is_scale_known = !matches!(kind, PlanKind::ScaleUnavailable(_));
        let scheduled_kind = (is_scale_known && is_scheduled)
            .then(|| out_of_bounds(hpa, &scale, settings, bounds))
            .flatten();
        let kind = scheduled_kind.unwrap_or(kind);
        if is_scale_known {
            history.record_initial(current, now);
        }
        let mut decision = Decision {
            hpa,
            settings,
            draft: StatusDraft::new(hpa, now),
            outcome: Outcome::Unchanged,
            current,
            bounds,
            metrics: Vec::new(),
            events: Vec::new(),
            history,
            explanation,
            error: None,
        };
        if is_scale_known {
            decision.draft.set(
                ConditionType::AbleToScale,
                true,
                ConditionReason::SucceededGetScale,
                messages::GOT_SCALE,
            );
            decision.clear_stale_zero();
        }
        match kind {
            PlanKind::ScaleUnavailable(error) => decision.scale_unavailable(&error),
            PlanKind::Disabled => decision.disabled(),
            PlanKind::AboveMax => {
                let is_of_spec = bounds.max_replicas == hpa.spec.max_replicas;
                let reason = if is_of_spec { ABOVE_MAX } else { ABOVE_SCHEDULED_MAX };
                decision.rescale(bounds.max_replicas, reason.to_owned());
            }
            PlanKind::BelowMin => decision.rescale_to_min(),
            PlanKind::TooManyMetrics => decision.too_many_metrics(),
            PlanKind::SelectorRejected(rejection) => decision.selector_rejected(&rejection),
            PlanKind::Metrics(plan) => decision.decide_on_metrics(&plan, &scale, readings, now),
        }
        let schedule = is_scheduled.then(|| schedule_text(bounds, bounds_change));
        decision.explain_bounds(schedule.as_deref());
        decision.clear_fallback_condition();
        decision.clear_forecast_condition();
        decision.apply_pause();
        decision.report_settings(schedule.as_deref());
        decision
    }
}

/// The maximum length of the condition that names skipped pods, in characters.
const MAX_SKIPPED_LEN: usize = 2000;
const ABOVE_MAX: &str = "Current number of replicas above Spec.MaxReplicas";
const BELOW_MIN: &str = "Current number of replicas below Spec.MinReplicas";
/// The name of the setting that schedules the bounds.
pub(crate) const BOUNDS: &str = "bounds";

const ABOVE_SCHEDULED_MAX: &str = "Current number of replicas above the scheduled maxReplicas";
const BELOW_SCHEDULED_MIN: &str = "Current number of replicas below the scheduled minReplicas";

/// Describes the scheduled bounds and their next change.
fn schedule_text(bounds: Bounds, change: Option<BoundsChange>) -> String {
    match change {
        Some(BoundsChange { at, bounds: next, .. }) => {
            format!("{bounds} until {at:.0}, then {next}")
        }
        None => bounds.to_string(),
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

    /// The explanation of the decision, per metric and limit.
    pub fn explanation(&self) -> &Explanation {
        &self.explanation
    }

    /// The error, if the decision failed.
    pub fn error(&self) -> Option<&ReconcileError> {
        self.error.as_ref()
    }

    /// The status as decided before the scale is written.
    pub fn proposed_status(&self) -> &HorizontalPodAutoscalerStatus {
        &self.draft.status
    }

    /// The events of the decision, without the event about the scale write.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    pub(crate) fn reference(&self) -> String {
        let target = &self.hpa.spec.scale_target_ref;
        format!("{}/{}/{}", target.kind, self.hpa.metadata.namespace, target.name)
    }

    fn scale_unavailable(&mut self, error: &ScaleReadError) {
        let message = error.to_string();
        self.events.push(Event::warning(EventReason::FailedGetScale, message.clone()));
        self.draft.set(
            ConditionType::AbleToScale,
            false,
            ConditionReason::FailedGetScale,
            format!("the HPA controller was unable to get the target's current scale: {message}"),
        );
        self.outcome = Outcome::ScaleUnavailable;
        let reference = self.reference();
        self.fail(match error {
            ScaleReadError::InvalidApiVersion(_) => ReconcileError::InvalidApiVersion(message),
            ScaleReadError::UnknownKind(_) => ReconcileError::UnknownKind(message),
            ScaleReadError::Read(_) => ReconcileError::ReadScale { reference, message },
        });
    }

    /// Sets the condition that names the settings of the autoscaler, and their problems.
    fn report_settings(&mut self, schedule: Option<&str>) {
        let own = self.settings.own.as_deref().filter(|own| !own.is_of_built_in);
        let Some(OwnSettings { applied, problems, .. }) = own else {
            self.draft.remove(&ConditionType::CustomSettings);
            return;
        };
        let reason = if problems.is_empty() {
            ConditionReason::SetOnAutoscaler
        } else {
            ConditionReason::InvalidSettings
        };
        let texts = [problems, applied, schedule.unwrap_or_default()];
        let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        let is_any_applied = !applied.is_empty();
        self.draft.set(ConditionType::CustomSettings, is_any_applied, reason, texts.join("; "));
    }

    /// Sets the condition that names pods without a request, if any are left out. It stays while a
    /// metric fails, because the pods are not known then.
    fn report_skipped_pods(&mut self) {
        let metrics = &self.explanation.metrics;
        let texts = metrics.iter().flat_map(|metric| {
            let effects = metric.effects.iter();
            let skipped = effects.filter(|effect| effect.setting == MISSING_REQUESTS);
            skipped.map(|effect| effect.text.as_str())
        });
        let mut texts: Vec<&str> = texts.collect();
        texts.dedup();
        let text = go_text::cut(texts.join("; "), MAX_SKIPPED_LEN);
        if !text.is_empty() {
            let reason = ConditionReason::MissingRequests;
            self.draft.set(ConditionType::PodsSkipped, true, reason, text);
        } else if self.settings.metrics.is_none()
            || metrics.iter().all(|metric| metric.error.is_none())
        {
            self.draft.remove(&ConditionType::PodsSkipped);
        }
    }

    /// Explains the schedule if it changes the decision.
    fn explain_bounds(&mut self, schedule: Option<&str>) {
        let of_spec = Bounds::of_spec(&self.hpa.spec);
        let Some(schedule) = schedule.filter(|_| self.bounds != of_spec) else { return };
        let Explanation { desired_replicas: desired, limited_by, winner, .. } = &self.explanation;
        let is_bound = winner.is_none() && *desired != self.current;
        let is_bound = is_bound
            || matches!(
                limited_by,
                Some(ConditionReason::TooFewReplicas | ConditionReason::TooManyReplicas)
            );
        let is_allowed = (of_spec.min_replicas..=of_spec.max_replicas).contains(desired);
        if is_bound || !is_allowed {
            let text = format!("{schedule}, without the schedule {of_spec}");
            self.explanation.effects.push(SettingEffect { setting: BOUNDS, text });
        }
    }

    pub(crate) fn fail(&mut self, error: ReconcileError) {
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
        let failing = std::mem::take(&mut self.history.failing_metrics);
        let mut fallbacks = Fallbacks::new(self.settings, failing, self.current, self.draft.now());
        fallbacks.end_others("scaling is disabled");
        self.set_fallbacks(fallbacks);
        self.explanation.summary = Summary::ScalingDisabled;
    }

    fn rescale_to_min(&mut self) {
        let min = self.bounds.min_replicas;
        let is_of_spec = min == self.hpa.spec.effective_min_replicas();
        let reason = if is_of_spec { BELOW_MIN } else { BELOW_SCHEDULED_MIN };
        self.rescale(min, reason.to_owned());
    }

    fn rescale(&mut self, to: i32, reason: String) {
        self.explanation.desired_replicas = to;
        self.explanation.summary = Summary::Rescale(reason.clone());
        self.outcome = Outcome::Rescale { to, reason };
    }

    fn too_many_metrics(&mut self) {
        let message = format!("the spec has more than {MAX_METRICS} metrics");
        self.draft.set(
            ConditionType::ScalingActive,
            false,
            ConditionReason::TooManyMetrics,
            message.clone(),
        );
        self.undecided(message);
    }

    fn selector_rejected(&mut self, rejection: &SelectorRejection) {
        let (event, reason, message) = match rejection {
            SelectorRejection::Missing => (
                EventReason::SelectorRequired,
                ConditionReason::InvalidSelector,
                "selector is required".to_owned(),
            ),
            SelectorRejection::Invalid(error) => (
                EventReason::InvalidSelector,
                ConditionReason::InvalidSelector,
                format!(
                    "couldn't convert selector into a corresponding internal selector object: \
                        {error}"
                ),
            ),
            SelectorRejection::Ambiguous { selector, autoscalers } => (
                EventReason::AmbiguousSelector,
                ConditionReason::AmbiguousSelector,
                format!(
                    "pods by selector {selector} are controlled by multiple HPAs: [{}]",
                    messages::name_list(autoscalers)
                ),
            ),
            SelectorRejection::UnknownOwners(error) => (
                EventReason::FailedGetOwners,
                ConditionReason::FailedGetOwners,
                format!("unable to determine which pods the target owns: {error}"),
            ),
        };
        let condition_message: Cow<'static, str> = match rejection {
            SelectorRejection::Missing => "the HPA target's scale is missing a selector".into(),
            _ => message.clone().into(),
        };
        self.events.push(Event::warning(event, message.clone()));
        self.draft.set(ConditionType::ScalingActive, false, reason, condition_message);
        self.undecided(message);
    }

    fn undecided(&mut self, message: String) {
        self.outcome = Outcome::Undecided;
        self.events
            .push(Event::warning(EventReason::FailedComputeMetricsReplicas, message.clone()));
        let reference = self.reference();
        self.fail(ReconcileError::ComputeReplicas { reference, message });
    }

    fn decide_on_metrics(
        &mut self,
        plan: &MetricsPlan,
        scale: &Scale,
        mut readings: Readings,
        now: Timestamp,
    ) {
        let forecasts =
            if self.settings.forecasts.is_on() { readings.take_forecasts() } else { Vec::new() };
        if self.settings.pods == PodSelection::Selected {
            self.report_extra_pods(&plan.pods, scale, now);
            self.explanation.extra_pods = ExtraPods::new(&plan.pods, scale);
        }
        let readings = readings.of_plan(self.settings, &plan.pods);
        let context = context(self.hpa, self.settings, scale, plan, now);
        let failing = std::mem::take(&mut self.history.failing_metrics);
        let mut fallbacks = Fallbacks::new(self.settings, failing, self.current, now);
        let CombinedMetrics { result, statuses, events, explanations } = combine(
            &self.hpa.spec.metrics,
            &plan.queries,
            readings,
            &context,
            &mut fallbacks,
            &forecasts,
        );
        fallbacks.end_others("the metric or its fallback has changed");
        self.metrics = statuses;
        self.events.extend(events);
        self.set_fallbacks(fallbacks);
        self.explanation.metrics = explanations;
        self.report_skipped_pods();
        self.report_forecasts(&forecasts);
        match result {
            Err(failure) => {
                self.draft.set(
                    ConditionType::ScalingActive,
                    false,
                    failure.reason,
                    format!("the HPA was unable to compute the replica count: {}", failure.cause),
                );
                self.undecided(failure.message);
                self.scale_from_zero_to_min();
            }
            Ok((largest, error)) => {
                self.error = error.map(ReconcileError::SomeMetrics);
                self.normalize(largest, now);
            }
        }
    }

    /// Clears `ScaledToZero` if the target has replicas, even if another client scaled it up (see
    /// [`Settings::strict_scale_to_zero`]).
    fn clear_stale_zero(&mut self) {
        if self.settings.strict_scale_to_zero
            && self.current > 0
            && is_scaled_to_zero(self.hpa, self.settings)
        {
            self.draft.set_scaled_to_zero(false);
        }
    }

    /// Applies `minReplicas` to a target at zero replicas, although no proposal could be computed
    /// (see [`Settings::strict_scale_to_zero`]).
    fn scale_from_zero_to_min(&mut self) {
        let min = self.bounds.min_replicas;
        if self.settings.strict_scale_to_zero && self.current == 0 && min > 0 {
            self.rescale_to_min();
        }
    }

    /// Whether the last replica stays, because the metrics have not proposed zero for the time of
    /// the setting `zero-after`. A reconcile that can't decide on the metrics doesn't change that
    /// time.
    fn is_held_from_zero(&mut self, proposed: i32, now: Timestamp) -> bool {
        let delay = self.settings.zero_after;
        if delay.is_zero() || proposed > 0 || self.current == 0 {
            self.history.zero_since = None;
            return false;
        }
        let since = *self.history.zero_since.get_or_insert(now);
        self.bounds.min_replicas == 0 && since > before(now, delay)
    }

    fn explain_hold(&mut self) {
        let Some(since) = self.history.zero_since else { return };
        let at = after(since, self.settings.zero_after);
        let text = format!("to 0 replicas at {at:.0}, if the metrics ask for it until then");
        self.explanation.effects.push(SettingEffect { setting: "zero-after", text });
    }

    fn normalize(&mut self, largest: LargestProposal, now: Timestamp) {
        let LargestProposal { replicas, winner, metric, is_fallback } = largest;
        self.draft.set(
            ConditionType::ScalingActive,
            true,
            ConditionReason::ValidMetricFound,
            format!("the HPA was able to successfully calculate a replica count from {metric}"),
        );
        let proposed = replicas.max(0);
        let mut reason = match proposed {
            _ if is_fallback && proposed != self.current => metric,
            _ if proposed > self.current => format!("{metric} above target"),
            _ if proposed < self.current => "All metrics below target".to_owned(),
            _ => String::new(),
        };
        let is_held = self.is_held_from_zero(proposed, now);
        let (spec, settings, current) = (&self.hpa.spec, self.settings, self.current);
        let mut bounds = self.bounds;
        if is_held {
            bounds.min_replicas = 1;
        }
        let input = NormalizeInput { spec, settings, bounds, current, now };
        let normalized = input.normalize(proposed, &mut self.history);
        let (able_reason, able_message) = match &normalized.stabilization {
            Some(limit) => (limit.reason.clone(), limit.message),
            None => (ConditionReason::ReadyForNewScale, messages::MATCHES),
        };
        self.draft.set(ConditionType::AbleToScale, true, able_reason, able_message);
        let (limit, is_limited) = (&normalized.limit, normalized.is_limited());
        self.draft.set(
            ConditionType::ScalingLimited,
            is_limited,
            limit.reason.clone(),
            limit.message,
        );
        if is_held && limit.reason == ConditionReason::TooFewReplicas {
            self.explain_hold();
        }
        let mut desired = normalized.replicas;
        let min = bounds.min_replicas;
        if current == 0 && min != 0 && desired < min && is_scaled_to_zero(self.hpa, settings) {
            desired = min;
            if reason.is_empty() {
                BELOW_MIN.clone_into(&mut reason);
            }
        }
        self.explanation.winner = winner;
        self.explanation.proposed_replicas = Some(proposed);
        self.explanation.stabilized_replicas = Some(normalized.stabilized);
        self.explanation.stabilization_window_seconds =
            normalized.stabilization.as_ref().map(|_| {
                let behavior = EffectiveBehavior::new(spec, settings);
                let is_down = normalized.stabilized > proposed;
                let rules = if is_down { behavior.down() } else { behavior.up() };
                u32::try_from(rules.stabilization_window().as_secs()).unwrap_or(u32::MAX)
            });
        self.explanation.stabilized_by = normalized.stabilization.map(|limit| limit.reason);
        self.explanation.limited_by = is_limited.then_some(normalized.limit.reason);
        if desired != current {
            self.rescale(desired, reason);
        }
    }
}
