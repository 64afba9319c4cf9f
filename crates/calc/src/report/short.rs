//! A report of an autoscaler in one line, from the status that its controller stored.

mod sentence;

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use self::sentence::{pause_text, sentence};
use super::{
    Report, Trigger,
    phrases::{names, paused_since},
    target_pods,
    warning::{Warning, extra_pods, setting_warnings},
};
use crate::{
    api::{
        Condition, ConditionReason, ConditionType, HorizontalPodAutoscaler, MetricSpec,
        MetricStatus, MetricValueStatus, PolicySelect, Scale,
    },
    explain::{
        Measurement, Reason, UnschedulablePods, has_name, metric_name, one_line, status_value,
        target_value,
    },
    go_text,
    history::Direction,
    pause::Pause,
    replicas::Rule,
    settings::{Settings, Tolerances},
    time::after,
};

/// The maximum length of the text about fallbacks, in characters.
const MAX_FALLBACK_LEN: usize = 300;
/// The maximum length of the text of a warning, in characters.
const MAX_WARNING_LEN: usize = 300;

/// The time after a scaling within which its pods are created, even if there are many. Unlike their
/// start-up, this takes seconds.
pub(super) const CREATION_PERIOD: SignedDuration = SignedDuration::from_mins(1);

/// The state of an autoscaler. The order is that of urgency, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum State {
    /// The scale can't be read or written, or the desired replicas can't be computed, for example
    /// because no metric can be read.
    Failing,
    /// The fallback of a metric is active.
    Fallback,
    /// `maxReplicas` is below the replicas that the metrics ask for.
    AtMaximum,
    /// The target is at zero replicas, and the autoscaler may not scale it up from there.
    Off,
    /// A pause prevents scaling.
    Paused,
    /// A dry run of the autoscaler prevents all writes, also of the status.
    DryRun,
    /// No controller has stored a status.
    New,
    /// Some metrics have no value, so the target is not scaled down.
    MetricMissing,
    /// Pods that don't exist, are not ready or not measured keep the replicas from following the
    /// metrics, the scheduler can't place pods, or no pod is ready.
    WaitingForPods,
    /// The target is being scaled.
    Scaling,
    /// A policy, or the limit without `behavior`, limits the next step.
    RateLimited,
    /// A recommendation within the stabilization window holds the replicas.
    Stabilizing,
    /// `minReplicas` is above the replicas that the metrics ask for.
    AtMinimum,
    /// The metrics ask for the current replicas.
    Steady,
}

/// A report of an autoscaler's stored status, in one line.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ShortReport {
    /// The state of the autoscaler.
    pub state: State,
    /// The cause, in a few words, and the warnings. Begins with the warnings that
    /// [precede the state](Warning::precedes_state).
    pub sentence: String,
    /// The cause without the warnings.
    pub cause: String,
    /// The pause of the autoscaler, in a few words, even if it prevents no scaling now. The
    /// sentence begins with it, and has its time.
    pub pause: Option<String>,
    /// The largest ratio of a metric's value to its target.
    pub load: Option<f64>,
    /// Whether some metrics have no value while others do, in a state that the metrics decide. The
    /// sentence names them.
    pub has_missing_metric: bool,
    /// The problems with the autoscaler's settings. The sentence includes them.
    pub warnings: Vec<Warning>,
    /// The time until which pods of the last scaling may be starting or, if some don't exist or
    /// can't be scheduled, being created. Until then, it is no problem that they don't count. Also
    /// set after a scale-down, because the status doesn't have the direction.
    starting_until: Option<Timestamp>,
}

/// Objects beside the autoscaler that a [`ShortReport`] uses, as far as they are known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings<'a> {
    /// The target's scale, for the number of pods, which the status doesn't have. Only some reports
    /// [need](ShortReport::needs_scale) it.
    pub scale: Option<&'a Scale>,
    /// The reason why the target's controller can't create pods
    /// ([`SelectedPods::replica_failure`](crate::SelectedPods::replica_failure)).
    pub replica_failure: Option<&'a str>,
    /// The pods that the scheduler can't place, by the controller's last decision. With them, the
    /// state is [`State::WaitingForPods`] instead of [`State::AtMaximum`], [`State::AtMinimum`] or
    /// [`State::Steady`].
    pub unschedulable_pods: Option<UnschedulablePods>,
    /// The number of pods if none of them is ready, by the controller's last decision
    /// ([`Explanation::unready_pods`](crate::Explanation::unready_pods)). They change the state as
    /// unschedulable pods do.
    pub unready_pods: Option<usize>,
    /// The controller's last decision in one sentence. It has causes that the status lacks, such as
    /// pods that are not ready.
    pub last_decision: Option<&'a str>,
    /// The names of the other autoscalers of the target, of all APIs.
    pub other_autoscalers: &'a [String],
    /// The conflict with them ([`describe_bounds_conflict`](super::describe_bounds_conflict)).
    pub bounds_conflict: Option<&'a str>,
    /// The recent scalings after which another client has changed the replicas. `None` if they are
    /// unknown, or too few to report.
    pub overwritten_scalings: Option<OverwrittenScalings>,
}

/// Recent scalings after which another client has changed the replicas. Prints as a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverwrittenScalings {
    /// Their number. A lower bound, because an event shows only the number from which a controller
    /// reports them.
    pub count: u32,
    /// A time at which the controller has seen such a change, by its clock. `None` if an older
    /// version has recorded them.
    pub seen_at: Option<Timestamp>,
}

impl fmt::Display for OverwrittenScalings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count;
        write!(f, "another client has changed the replicas after at least {count} scalings")?;
        self.seen_at.map_or(Ok(()), |at| write!(f, ", seen at {at:.0}"))
    }
}

/// The warnings about settings and target, each with a text. `sentence` is the report's sentence
/// without them: the condition about an ambiguous selector already names the other autoscalers.
fn all_warnings(
    hpa: &HorizontalPodAutoscaler,
    settings: &Settings,
    surroundings: Surroundings<'_>,
    sentence: &str,
) -> Vec<(Warning, String)> {
    let mut warnings = setting_warnings(hpa, settings);
    let extra_pods = extra_pods(hpa, settings).map(ToOwned::to_owned);
    warnings.extend(extra_pods.map(|text| (Warning::ExtraPods, text)));
    let overwritten = surroundings.overwritten_scalings.map(|scalings| scalings.to_string());
    warnings.extend(overwritten.map(|text| (Warning::ReplicasOverwritten, text)));
    let others = surroundings.other_autoscalers;
    if let Some(conflict) = surroundings.bounds_conflict {
        warnings.push((Warning::SharedTarget, conflict.to_owned()));
    } else if !others.iter().all(|other| has_name(sentence, other)) {
        let verb = if others.len() == 1 { "has" } else { "have" };
        let text = format!("{} {verb} the same target", names(others));
        warnings.push((Warning::SharedTarget, text));
    }
    warnings
}

impl State {
    /// Whether the autoscaler fails, doesn't scale, or can't do what its metrics ask for.
    pub fn is_problem(self) -> bool {
        self <= Self::WaitingForPods || self == Self::RateLimited
    }

    /// Whether the text about the state doesn't mention a pause.
    fn has_hidden_pause(self) -> bool {
        self.is_by_metrics() || self == Self::Fallback
    }

    /// Whether the metrics decide. `false` for [`Self::Failing`] and [`Self::Fallback`]: a metric
    /// without a value may be the cause of these.
    pub(super) fn is_by_metrics(self) -> bool {
        !matches!(
            self,
            Self::Failing | Self::Fallback | Self::Off | Self::Paused | Self::DryRun | Self::New
        )
    }
}

impl ShortReport {
    /// Reports the status. `settings` are those of the controller that stored it, as far as they
    /// are known (see [`Settings::for_kube_controller_manager`]).
    pub fn new(hpa: &HorizontalPodAutoscaler, settings: &Settings) -> Self {
        Self::with_surroundings(hpa, settings, Surroundings::default())
    }

    /// Like [`ShortReport::new`], with other objects of the cluster.
    pub fn with_surroundings(
        hpa: &HorizontalPodAutoscaler,
        settings: &Settings,
        surroundings: Surroundings<'_>,
    ) -> Self {
        let measured = largest_measurement(hpa, settings);
        let load = measured.as_ref().map(|(_, ratio)| *ratio);
        let state = state_with_surroundings(state(hpa, load, settings), surroundings);
        let measured = match active_fallback(hpa, settings) {
            Some(active) => Some(go_text::truncate(
                format!("a fallback is active: {}", active.message),
                MAX_FALLBACK_LEN,
            )),
            None => measured.map(|(measurement, _)| measurement.to_string()),
        };
        let pause = pause_text(hpa, state, settings.pause);
        let dated_pause = pause.as_ref().map(|pause| format!("{pause}{}", paused_since(hpa)));
        let mut sentence = sentence(hpa, state, measured, dated_pause.as_deref(), surroundings);
        // The last decision also names the metrics that failed.
        let has_decision = |decision: &str| sentence.starts_with(decision);
        let names_missing =
            state == State::MetricMissing || surroundings.last_decision.is_some_and(has_decision);
        if let Some(pause) = dated_pause.filter(|_| state.has_hidden_pause()) {
            sentence = format!("{pause}; {sentence}");
        }
        let missing: Vec<_> = missing_metrics(hpa).filter(|_| state.is_by_metrics()).collect();
        let has_missing_metric = !missing.is_empty();
        if has_missing_metric && !names_missing {
            sentence.push_str("; no value of ");
            sentence.push_str(&missing.join(" and "));
        }
        let cause = one_line(&sentence).into_owned();
        let warnings = all_warnings(hpa, settings, surroundings, &sentence).into_iter();
        let (first, last): (Vec<_>, Vec<_>) =
            warnings.partition(|(warning, _)| warning.precedes_state());
        let text = |(_, text): &(Warning, String)| go_text::truncate(text.clone(), MAX_WARNING_LEN);
        let texts = first.iter().map(text).chain([sentence]).chain(last.iter().map(text));
        let sentence = texts.collect::<Vec<_>>().join("; ");
        let warnings = first.into_iter().chain(last).map(|(warning, _)| warning).collect();
        let starting_until = starting_until(hpa, settings, state, surroundings);
        let sentence = one_line(&sentence).into_owned();
        Self { state, sentence, cause, pause, load, has_missing_metric, warnings, starting_until }
    }

    /// Whether the target's scale would complete the sentence, or change the state.
    pub fn needs_scale(&self) -> bool {
        matches!(self.state, State::WaitingForPods | State::AtMaximum)
    }

    /// Whether the state is a problem ([`State::is_problem`]), or there is a pause or a warning.
    /// Pods that don't count yet are no problem while they may be starting.
    pub fn is_problem(&self, now: Timestamp) -> bool {
        let is_starting = self.starting_until.is_some_and(|until| now < until);
        self.state.is_problem() && !is_starting || self.pause.is_some() || !self.warnings.is_empty()
    }
}

/// The state by the status, unless the pods prevent what it says.
fn state_with_surroundings(by_status: State, surroundings: Surroundings<'_>) -> State {
    let Surroundings { scale, replica_failure, unschedulable_pods, unready_pods, .. } =
        surroundings;
    match by_status {
        // A higher maximum doesn't create the pods that don't exist. If the status has no pods,
        // maybe no controller writes it.
        State::AtMaximum
            if has_fewer_pods_than_replicas(scale)
                && (replica_failure.is_some()
                    || scale.is_some_and(|scale| scale.status_replicas > 0)) =>
        {
            State::WaitingForPods
        }
        State::AtMaximum | State::AtMinimum | State::Steady
            if unschedulable_pods.is_some() || unready_pods.is_some() =>
        {
            State::WaitingForPods
        }
        state => state,
    }
}

fn has_fewer_pods_than_replicas(scale: Option<&Scale>) -> bool {
    scale.is_some_and(|scale| scale.status_replicas < scale.spec_replicas)
}

/// See [`ShortReport::starting_until`].
fn starting_until(
    hpa: &HorizontalPodAutoscaler,
    settings: &Settings,
    state: State,
    surroundings: Surroundings<'_>,
) -> Option<Timestamp> {
    let Surroundings { scale, replica_failure, unschedulable_pods, .. } = surroundings;
    let start_up = settings.cpu_initialization_period;
    let has_known_cause = has_fewer_pods_than_replicas(scale) || unschedulable_pods.is_some();
    let start_up = if has_known_cause { start_up.min(CREATION_PERIOD) } else { start_up };
    let may_start = state == State::WaitingForPods && replica_failure.is_none();
    let scaled = hpa.status.last_scale_time.filter(|_| may_start)?;
    Some(after(scaled, start_up))
}

impl Report {
    /// The state after this decision. `reported` is that of the stored status. It remains if the
    /// decision is doubtful, except in a dry run. [`State::New`] also remains, unless the decision
    /// failed, or scaling is disabled or paused.
    pub fn state(&self, reported: State) -> State {
        let mut changes = self.changes.iter();
        let is_paused = changes.any(|change| matches!(change.trigger, Trigger::Unpause { .. }));
        let is_paused = is_paused && (self.pause == Pause::BOTH || self.reason == Reason::Paused);
        let has_failed = self.metrics.iter().any(|metric| metric.explanation.failure.is_some());
        let mut metrics = self.metrics.iter();
        let has_fallback = metrics.any(|metric| metric.explanation.has_active_fallback());
        match self.reason {
            _ if self.dry_run => State::DryRun,
            _ if self.is_doubtful() => reported,
            Reason::Failed => State::Failing,
            Reason::ScalingDisabled => State::Off,
            _ if is_paused => State::Paused,
            _ if reported == State::New => reported,
            _ if has_fallback => State::Fallback,
            Reason::MaxReplicas
                if self.scale_to.is_none()
                    && (self.lacks_existing_pods || self.lacks_usable_pods()) =>
            {
                State::WaitingForPods
            }
            Reason::MaxReplicas => State::AtMaximum,
            _ if self.scale_to.is_some() => State::Scaling,
            _ if has_failed => State::MetricMissing,
            Reason::Policy => State::RateLimited,
            Reason::MinReplicas if !self.lacks_usable_pods() => State::AtMinimum,
            Reason::Stabilization => State::Stabilizing,
            _ if self.waits_for_pods() => State::WaitingForPods,
            _ => State::Steady,
        }
    }

    /// Whether pods can't be scheduled, or none is ready.
    fn lacks_usable_pods(&self) -> bool {
        self.unschedulable_pods.is_some() || self.unready_pods.is_some()
    }

    /// Whether pods that don't exist or don't count keep the replicas from following the metrics,
    /// or the target [lacks usable pods](Self::lacks_usable_pods).
    fn waits_for_pods(&self) -> bool {
        if self.lacks_usable_pods() {
            return true;
        }
        let winner = self.winner.and_then(|index| self.metrics.get(index));
        let Some(metric) = winner.map(|winner| &winner.explanation) else { return false };
        if self.current_replicas.is_some_and(|replicas| target_pods::lacks_pods(metric, replicas)) {
            return true;
        }
        metric.rebalanced_ratio.is_some()
            && metric.is_beyond_tolerance()
            && metric.rule.is_some_and(|rule| rule != Rule::Proportional)
    }
}

fn state(hpa: &HorizontalPodAutoscaler, load: Option<f64>, settings: &Settings) -> State {
    let status = &hpa.status;
    if settings.dry_run {
        return State::DryRun;
    }
    if status.conditions.is_empty() {
        return State::New;
    }
    if let Some(failed) = status.failed_condition() {
        let is_off = failed.reason == ConditionReason::ScalingDisabled;
        return if is_off { State::Off } else { State::Failing };
    }
    // Another controller doesn't remove the condition, so the settings must also have the pause.
    if status.is_true(&ConditionType::Paused) && is_scaling_paused(hpa, settings.pause) {
        return State::Paused;
    }
    if active_fallback(hpa, settings).is_some() {
        return State::Fallback;
    }
    let limited = true_reason(hpa, &ConditionType::ScalingLimited);
    let able = true_reason(hpa, &ConditionType::AbleToScale);
    let holds_less = able == Some(&ConditionReason::ScaleUpStabilized);
    let has_missing = missing_metrics(hpa).next().is_some();
    let up = 1.0 + Tolerances::for_spec(&hpa.spec, settings).up;
    // A past recommendation is above `maxReplicas`, while the current load doesn't ask for more
    // replicas than the target has.
    let is_held = |reason: &ConditionReason| {
        matches!(reason, ConditionReason::ScaleDownStabilized | ConditionReason::SucceededRescale)
    };
    let is_past_load =
        able.is_some_and(is_held) && !has_missing && load.is_some_and(|load| load <= up);
    match (limited, able) {
        (Some(ConditionReason::TooManyReplicas), _) if !is_past_load => State::AtMaximum,
        // Without the stabilization, the bound would lead to the same replicas.
        (None, _) if holds_less && is_at_bound(hpa, hpa.spec.max_replicas) => State::AtMaximum,
        _ if has_missing => State::MetricMissing,
        _ if status.current_replicas != status.desired_replicas => State::Scaling,
        (Some(ConditionReason::ScaleUpLimit | ConditionReason::ScaleDownLimit), _) => {
            State::RateLimited
        }
        // The bounds apply after stabilization.
        (Some(ConditionReason::TooFewReplicas), _) => State::AtMinimum,
        // The metrics ask for fewer replicas although the load of the pods is too high.
        (_, Some(ConditionReason::ScaleDownStabilized)) if load.is_some_and(|load| load > up) => {
            State::WaitingForPods
        }
        (None, Some(ConditionReason::ScaleDownStabilized))
            if is_at_bound(hpa, hpa.spec.effective_min_replicas()) =>
        {
            State::AtMinimum
        }
        (None, _) if disabled_limit(hpa).is_some() => State::RateLimited,
        (_, Some(ConditionReason::ScaleDownStabilized | ConditionReason::ScaleUpStabilized)) => {
            State::Stabilizing
        }
        // Only missing or unready pods are left as a cause.
        _ if load.is_some_and(|load| load > up) => State::WaitingForPods,
        _ => State::Steady,
    }
}

/// The limit of a direction that `spec.behavior` disables, while stabilization holds the replicas.
/// Stabilization comes first, so the status doesn't have this limit.
fn disabled_limit(hpa: &HorizontalPodAutoscaler) -> Option<ConditionReason> {
    let (direction, limit) = match true_reason(hpa, &ConditionType::AbleToScale)? {
        ConditionReason::ScaleDownStabilized => (Direction::Down, ConditionReason::ScaleDownLimit),
        ConditionReason::ScaleUpStabilized => (Direction::Up, ConditionReason::ScaleUpLimit),
        _ => return None,
    };
    let rules = hpa.spec.scaling_rules(direction)?;
    (rules.select_policy == Some(PolicySelect::Disabled)).then_some(limit)
}

/// Whether the desired replicas are at this bound of the spec. `false` if the autoscaler has
/// settings of its own, because a schedule may replace the bound.
fn is_at_bound(hpa: &HorizontalPodAutoscaler, bound: i32) -> bool {
    hpa.status.desired_replicas == bound && !hpa.status.is_true(&ConditionType::CustomSettings)
}

/// Whether a pause prevents scaling: in both directions, or in the one that is desired.
fn is_scaling_paused(hpa: &HorizontalPodAutoscaler, pause: Pause) -> bool {
    let (current, desired) = (hpa.status.current_replicas, hpa.status.desired_replicas);
    match pause {
        Pause::BOTH => true,
        Pause { up, down } => up && desired > current || down && desired < current,
    }
}

/// The condition of an active fallback. Another controller doesn't remove it, so it counts only if
/// a metric has a fallback.
fn active_fallback<'a>(
    hpa: &'a HorizontalPodAutoscaler,
    settings: &Settings,
) -> Option<&'a Condition> {
    let active = hpa.status.true_condition(&ConditionType::ExternalMetricFallbackActive);
    active.filter(|_| settings.has_fallback())
}

/// The reason of a condition that is true.
fn true_reason<'a>(
    hpa: &'a HorizontalPodAutoscaler,
    condition_type: &ConditionType,
) -> Option<&'a ConditionReason> {
    hpa.status.true_condition(condition_type).map(|condition| &condition.reason)
}

fn specs_and_statuses(
    hpa: &HorizontalPodAutoscaler,
) -> impl Iterator<Item = (&MetricSpec, &MetricStatus)> {
    hpa.spec.metrics.iter().zip(&hpa.status.current_metrics)
}

/// The names of the metrics without a value, if other metrics have one. The reference stores an
/// empty entry for such a metric, and this controller an entry without a value.
fn missing_metrics(hpa: &HorizontalPodAutoscaler) -> impl Iterator<Item = String> {
    let is_read = |(spec, status): &(&MetricSpec, &MetricStatus)| {
        let has_value = status.current().is_some_and(|one| *one != MetricValueStatus::default());
        spec.source_type == status.source_type && has_value
    };
    let has_value = specs_and_statuses(hpa).any(|metric| is_read(&metric));
    let missing = specs_and_statuses(hpa).enumerate();
    let missing = missing.filter(move |(_, metric)| has_value && !is_read(metric));
    missing.map(move |(index, _)| metric_name(&hpa.spec.metrics, index))
}

/// The metric with the largest ratio of value to target, and that ratio.
pub(super) fn largest_measurement(
    hpa: &HorizontalPodAutoscaler,
    settings: &Settings,
) -> Option<(Measurement, f64)> {
    let ratios = specs_and_statuses(hpa).enumerate().filter_map(|(index, (spec, status))| {
        let ratio = status_value(spec, status)?.as_f64() / target_value(spec)?.as_f64();
        ratio.is_finite().then_some((index, ratio))
    });
    let (index, ratio) = ratios.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some((Measurement::of_status(hpa, settings, index)?, ratio))
}
