//! The second call of a reconcile: from the readings to the desired replicas.

use std::{borrow::Cow, cmp::Ordering};

use jiff::Timestamp;

pub use crate::decision::{Decision, ReconcileError};
use crate::{
    api::{ConditionReason, ConditionType, PolicySelect, Scale},
    behavior::EffectiveBehavior,
    combine::{CombinedMetrics, LargestProposal, combine},
    decision::Outcome,
    event::{Event, EventReason},
    explain::{Explanation, ExtraPods, SettingEffect, Summary, UnschedulablePods},
    fallback::Fallbacks,
    go_text,
    history::{Direction, History},
    messages,
    metric::MISSING_REQUESTS,
    normalize::{NormalizeInput, NormalizedReplicas, limit_message},
    plan::{MetricsPlan, Plan, PlanKind, ScaleReadError, SelectorRejection, kind_without_metrics},
    pods::count_if_none_ready,
    readings::Readings,
    settings::{Bounds, BoundsChange, PodSelection, SettingsSummary},
    status::StatusDraft,
    validation::{MAX_METRICS, MAX_SPEC_BYTES},
    zero::is_scaled_to_zero,
};

/// The name of the setting that schedules the bounds, for effects.
pub(crate) const BOUNDS: &str = "bounds";

/// The maximum length of the message that names skipped pods, in characters.
const MAX_SKIPPED_LEN: usize = 2000;

const ABOVE_MAX: &str = "Current number of replicas above Spec.MaxReplicas";
const BELOW_MIN: &str = "Current number of replicas below Spec.MinReplicas";
const ABOVE_SCHEDULED_MAX: &str = "Current number of replicas above the scheduled maxReplicas";
const BELOW_SCHEDULED_MIN: &str = "Current number of replicas below the scheduled minReplicas";

impl<'a> Plan<'a> {
    /// Decides on the readings.
    ///
    /// `readings` answer [`Plan::queries`]; a metric without a reading counts as failed. `history`
    /// is the [`Conclusion::history`] of the autoscaler's last reconcile, or empty for the first
    /// one. `now` is the time of the whole decision.
    ///
    /// [`Conclusion::history`]: crate::conclude::Conclusion::history
    pub fn decide(self, readings: Readings, mut history: History, now: Timestamp) -> Decision<'a> {
        let Self { hpa, settings, scale, kind } = self;
        let current = scale.spec_replicas;
        let (bounds, bounds_change) = settings.bounds_and_change_at(&hpa.spec, now);
        let is_scheduled = settings.bounds.is_some();
        let explanation = Explanation {
            current_replicas: current,
            desired_replicas: current,
            bounds: is_scheduled.then_some(bounds),
            ..Explanation::default()
        };
        let is_scale_known = !matches!(kind, PlanKind::ScaleUnavailable(_));
        // The plan leaves scheduled bounds to the decision, because they depend on its time.
        let scheduled_kind = (is_scale_known && is_scheduled)
            .then(|| kind_without_metrics(hpa, &scale, settings, bounds))
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
        decision.follow_plan(&kind, &scale, readings, now);
        let schedule = is_scheduled.then(|| schedule_text(bounds, bounds_change));
        decision.explain_bounds(schedule.as_deref());
        decision.clear_fallback_condition();
        decision.clear_forecast_condition();
        decision.apply_pause();
        decision.report_settings(schedule.as_deref());
        decision
    }
}

/// The limit that would apply even without stabilization, as the reason of its condition: a bound
/// that the proposal exceeds and that the desired replicas are at, or a disabled direction.
/// Unlike the bounds of `input`, `bounds` don't include the replica that `zero-after` holds.
fn lasting_limit(
    input: &NormalizeInput<'_>,
    bounds: Bounds,
    proposed: i32,
    desired: i32,
) -> Option<ConditionReason> {
    let Bounds { min_replicas: min, max_replicas: max } = bounds;
    if proposed > max && desired == max {
        return Some(ConditionReason::TooManyReplicas);
    }
    if proposed < min && desired == min {
        return Some(ConditionReason::TooFewReplicas);
    }
    let direction = Direction::of_change(input.current, proposed);
    let rules = EffectiveBehavior::new(input.spec, input.settings).rules(direction);
    let is_disabled = *rules.select_policy() == PolicySelect::Disabled;
    (is_disabled && desired == input.current && desired != proposed).then_some(match direction {
        Direction::Up => ConditionReason::ScaleUpLimit,
        Direction::Down => ConditionReason::ScaleDownLimit,
    })
}

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
    fn follow_plan(&mut self, kind: &PlanKind, scale: &Scale, readings: Readings, now: Timestamp) {
        match kind {
            PlanKind::ScaleUnavailable(error) => self.report_scale_unavailable(error),
            PlanKind::Disabled => self.report_disabled(),
            PlanKind::AboveMax => {
                let max = self.bounds.max_replicas;
                let is_bound_of_spec = max == self.hpa.spec.max_replicas;
                let reason = if is_bound_of_spec { ABOVE_MAX } else { ABOVE_SCHEDULED_MAX };
                self.rescale(max, reason.to_owned());
            }
            PlanKind::BelowMin => self.rescale_to_min(),
            PlanKind::TooManyMetrics => self.report_spec_rejected(
                ConditionReason::TooManyMetrics,
                format!("the spec has more than {MAX_METRICS} metrics"),
            ),
            PlanKind::SpecTooLarge { bytes } => self.report_spec_rejected(
                ConditionReason::SpecTooLarge,
                format!("the spec has {bytes} bytes as JSON, more than {MAX_SPEC_BYTES}"),
            ),
            PlanKind::SelectorRejected(rejection) => self.report_selector_rejected(rejection),
            PlanKind::Metrics(plan) => self.decide_on_metrics(plan, scale, readings, now),
        }
    }

    fn report_scale_unavailable(&mut self, error: &ScaleReadError) {
        let message = error.to_string();
        self.events.push(Event::warning(EventReason::FailedGetScale, message.clone()));
        self.draft.set(
            ConditionType::AbleToScale,
            false,
            ConditionReason::FailedGetScale,
            format!("the HPA controller was unable to get the target's current scale: {message}"),
        );
        self.outcome = Outcome::ScaleUnavailable;
        let target = self.target_name();
        self.fail(match error {
            ScaleReadError::InvalidApiVersion(_) => ReconcileError::InvalidApiVersion(message),
            ScaleReadError::UnknownKind(_) => ReconcileError::UnknownKind(message),
            ScaleReadError::Read(_) => ReconcileError::ReadScale { target, message },
        });
    }

    /// Sets the condition that names the settings of the autoscaler, and their problems.
    fn report_settings(&mut self, schedule: Option<&str>) {
        let summary = self.settings.summary.as_deref();
        let summary = summary.filter(|summary| !summary.may_be_built_in);
        let Some(SettingsSummary { applied, problems, .. }) = summary else {
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

    /// Sets the condition that names the pods that are left out because they lack a request or
    /// limit, or removes it if there are none. While a metric fails, its pods are not known: the
    /// condition then stays if any metric has settings.
    fn report_skipped_pods(&mut self) {
        let metrics = &self.explanation.metrics;
        let texts = metrics.iter().flat_map(|metric| {
            let effects = metric.effects.iter();
            let skipped = effects.filter(|effect| effect.setting == MISSING_REQUESTS);
            skipped.map(|effect| effect.text.as_str())
        });
        let mut texts: Vec<&str> = texts.collect();
        texts.dedup();
        let text = go_text::truncate(texts.join("; "), MAX_SKIPPED_LEN);
        if !text.is_empty() {
            let reason = ConditionReason::MissingRequests;
            self.draft.set(ConditionType::PodsSkipped, true, reason, text);
        } else if self.settings.metrics.is_none()
            || metrics.iter().all(|metric| metric.error.is_none())
        {
            self.draft.remove(&ConditionType::PodsSkipped);
        }
    }

    /// Adds the schedule to the explanation, if the decision depends on it.
    fn explain_bounds(&mut self, schedule: Option<&str>) {
        let spec_bounds = Bounds::of_spec(&self.hpa.spec);
        let Some(schedule) = schedule.filter(|_| self.bounds != spec_bounds) else { return };
        let Explanation { desired_replicas: desired, limited_by, lasting_limit, winner, .. } =
            &self.explanation;
        let was_out_of_bounds = winner.is_none() && *desired != self.current;
        let bounds = [ConditionReason::TooFewReplicas, ConditionReason::TooManyReplicas];
        let is_limited = was_out_of_bounds
            || [limited_by, lasting_limit]
                .into_iter()
                .flatten()
                .any(|limit| bounds.contains(limit));
        let is_allowed = (spec_bounds.min_replicas..=spec_bounds.max_replicas).contains(desired);
        if is_limited || !is_allowed {
            let text = format!("{schedule}, without the schedule {spec_bounds}");
            self.explanation.effects.push(SettingEffect { setting: BOUNDS, text });
        }
    }

    fn report_disabled(&mut self) {
        self.draft.set(
            ConditionType::ScalingActive,
            false,
            ConditionReason::ScalingDisabled,
            messages::SCALING_DISABLED,
        );
        if !self.settings.scale_to_zero {
            self.draft.remove(&ConditionType::ScaledToZero);
        }
        let failing = std::mem::take(&mut self.history.failing_metrics);
        let mut fallbacks = Fallbacks::new(self.settings, failing, self.current, self.draft.now);
        fallbacks.end_unobserved("scaling is disabled");
        self.set_fallbacks(fallbacks);
        self.explanation.summary = Summary::ScalingDisabled;
    }

    fn rescale_to_min(&mut self) {
        self.rescale(self.bounds.min_replicas, self.below_min_reason());
    }

    fn below_min_reason(&self) -> String {
        let is_bound_of_spec = self.bounds.min_replicas == self.hpa.spec.effective_min_replicas();
        let reason = if is_bound_of_spec { BELOW_MIN } else { BELOW_SCHEDULED_MIN };
        reason.to_owned()
    }

    /// Makes a scale write the outcome of the decision.
    fn rescale(&mut self, to: i32, reason: String) {
        self.explanation.desired_replicas = to;
        self.explanation.summary = Summary::Rescale(reason.clone());
        self.outcome = Outcome::Rescale { to, reason };
    }

    fn report_spec_rejected(&mut self, reason: ConditionReason, message: String) {
        self.draft.set(ConditionType::ScalingActive, false, reason, message.clone());
        self.report_undecided(message);
    }

    fn report_selector_rejected(&mut self, rejection: &SelectorRejection) {
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
                    "pods by selector {selector} {}{}]",
                    messages::AMBIGUOUS,
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
        self.report_undecided(message);
    }

    fn report_undecided(&mut self, message: String) {
        self.outcome = Outcome::Undecided;
        self.events
            .push(Event::warning(EventReason::FailedComputeMetricsReplicas, message.clone()));
        let target = self.target_name();
        self.fail(ReconcileError::ComputeReplicas { target, message });
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
        self.report_extra_pods(&plan.pods, scale, now);
        if self.settings.pods == PodSelection::Selected {
            self.explanation.extra_pods = ExtraPods::new(&plan.pods, scale);
        }
        self.explanation.unschedulable_pods = UnschedulablePods::new(&plan.pods);
        self.explanation.unready_pods = count_if_none_ready(&plan.pods, self.settings, now);
        let readings = readings.of_counted_pods(self.settings, &plan.pods);
        let context = plan.context(self.hpa, self.settings, scale, now);
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
        fallbacks.end_unobserved("the metric or its fallback has changed");
        self.metrics = statuses;
        self.events.extend(events);
        self.set_fallbacks(fallbacks);
        self.explanation.metrics = explanations;
        self.report_skipped_pods();
        self.report_forecasts(&forecasts);
        match result {
            Err(undecided) => {
                self.draft.set(
                    ConditionType::ScalingActive,
                    false,
                    undecided.reason,
                    format!("the HPA was unable to compute the replica count: {}", undecided.cause),
                );
                self.report_undecided(undecided.message);
                self.scale_from_zero_to_min();
            }
            Ok((largest, error)) => {
                self.error = error.map(ReconcileError::SomeMetrics);
                self.normalize(largest, now);
            }
        }
    }

    /// With [`Settings::strict_scale_to_zero`](crate::Settings::strict_scale_to_zero), applies a
    /// `minReplicas` above zero to a target at zero replicas, although there is no proposal.
    fn scale_from_zero_to_min(&mut self) {
        let min = self.bounds.min_replicas;
        if self.settings.strict_scale_to_zero && self.current == 0 && min > 0 {
            self.rescale_to_min();
        }
    }

    /// Applies stabilization, rate limits and bounds to the largest proposal, and sets the
    /// conditions.
    fn normalize(&mut self, largest: LargestProposal, now: Timestamp) {
        let LargestProposal { replicas, winner, metric, is_fallback } = largest;
        self.draft.set(
            ConditionType::ScalingActive,
            true,
            ConditionReason::ValidMetricFound,
            format!("the HPA was able to successfully calculate a replica count from {metric}"),
        );
        let proposed = replicas.max(0);
        let mut reason = match proposed.cmp(&self.current) {
            Ordering::Equal => String::new(),
            _ if is_fallback => metric,
            Ordering::Greater => format!("{metric} above target"),
            Ordering::Less => "All metrics below target".to_owned(),
        };
        let is_held = self.update_zero_since(proposed, now);
        let (spec, settings, current) = (&self.hpa.spec, self.settings, self.current);
        let mut bounds = self.bounds;
        if is_held {
            bounds.min_replicas = 1;
        }
        let input = NormalizeInput { spec, settings, bounds, current, now };
        let normalized = input.normalize(proposed, &mut self.history);
        self.report_limits(&normalized);
        if is_held && normalized.limit == ConditionReason::TooFewReplicas {
            self.explain_held_replica();
        }
        let mut desired = normalized.replicas;
        let min = bounds.min_replicas;
        if current == 0 && min != 0 && desired < min && is_scaled_to_zero(self.hpa, settings) {
            desired = min;
            if reason.is_empty() {
                reason = self.below_min_reason();
            }
        }
        self.explanation.winner = winner;
        self.explanation.lasting_limit = lasting_limit(&input, self.bounds, proposed, desired);
        self.explain_limits(proposed, normalized);
        if desired != current {
            self.rescale(desired, reason);
        }
    }

    /// Sets the conditions about stabilization, rate limits and bounds.
    fn report_limits(&mut self, normalized: &NormalizedReplicas) {
        let stabilization = normalized.stabilization.clone();
        let reason = stabilization.unwrap_or(ConditionReason::ReadyForNewScale);
        let message = limit_message(&reason);
        self.draft.set(ConditionType::AbleToScale, true, reason, message);
        let (is_limited, reason) = (normalized.is_limited(), normalized.limit.clone());
        let message = limit_message(&reason);
        self.draft.set(ConditionType::ScalingLimited, is_limited, reason, message);
    }

    fn explain_limits(&mut self, proposed: i32, normalized: NormalizedReplicas) {
        let is_limited = normalized.is_limited();
        self.explanation.proposed_replicas = Some(proposed);
        self.explanation.stabilized_replicas = Some(normalized.stabilized);
        self.explanation.stabilization_window_seconds =
            normalized.stabilization.as_ref().map(|_| {
                let behavior = EffectiveBehavior::new(&self.hpa.spec, self.settings);
                let is_down = normalized.stabilized > proposed;
                let rules = if is_down { behavior.down() } else { behavior.up() };
                u32::try_from(rules.stabilization_window().as_secs()).unwrap_or(u32::MAX)
            });
        self.explanation.stabilized_by = normalized.stabilization;
        self.explanation.limited_by = is_limited.then_some(normalized.limit);
    }
}
