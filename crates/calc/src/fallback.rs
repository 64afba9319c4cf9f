//! Fallbacks: the proposals of metrics that can't be read.
//!
//! A metric fails from the first failed reading until it has been read for [`RECOVERY`] without a
//! failure. So a source that flaps neither ends the failure nor starts it again with each reading.
//! Once the metric has failed for the duration in its [`Fallback`], the next failed reading
//! activates the fallback. From then until the failure ends, the fallback is the metric's proposal,
//! even if a reading succeeds.
//!
//! Reconciles that read no metrics change nothing. If scaling is disabled because the target is at
//! zero replicas, all failures end. A metric whose spec is invalid uses no fallback, because that
//! is not an outage.

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::{ConditionReason, ConditionType, HorizontalPodAutoscaler, MetricSourceType, MetricSpec},
    decision::Decision,
    event::{Event, EventReason},
    explain::{MetricFailure, SettingEffect, counted},
    go_text,
    history::{FailingMetric, History},
    readings::Readings,
    settings::{Fallback, FallbackBehavior, Settings},
    time::{after, before},
};

/// The time for which a metric must be read without a failure until its failure ends: two sync
/// periods of the default length.
pub(crate) const RECOVERY: SignedDuration = SignedDuration::from_secs(30);

/// The name of the setting, for effects.
pub(crate) const FALLBACK: &str = "fallback";

/// The maximum length of the condition's message, in characters.
const MAX_MESSAGE_LEN: usize = 1000;

/// The text between a metric and the start of its failure in the condition's message. The metric
/// may have been read since, for less than [`RECOVERY`] at a time.
const FAILING_SINCE: &str = " has kept failing since ";

/// The start of a failure that a status implies, if the condition's message doesn't have the start.
const UNKNOWN_START: Timestamp = Timestamp::MIN;

/// The fallbacks of one decision.
pub(crate) struct Fallbacks<'a> {
    settings: &'a Settings,
    now: Timestamp,
    /// The target's `spec.replicas`.
    current: i32,
    /// The failures of the history whose metrics have not been observed yet.
    unobserved: Vec<FailingMetric>,
    /// The failures for the next history.
    pub(crate) failures: Vec<FailingMetric>,
    /// The proposals of the active fallbacks in words, for the condition.
    pub(crate) active_texts: Vec<String>,
    pub(crate) events: Vec<Event>,
}

/// The proposal of an active fallback.
pub(crate) struct FallbackProposal {
    pub(crate) replicas: i32,
    /// The name in conditions and events.
    pub(crate) name: String,
    pub(crate) effect: SettingEffect,
}

impl<'a> Fallbacks<'a> {
    pub(crate) fn new(
        settings: &'a Settings,
        failing_metrics: Vec<FailingMetric>,
        current: i32,
        now: Timestamp,
    ) -> Self {
        Self {
            settings,
            now,
            current,
            unobserved: failing_metrics,
            failures: Vec::new(),
            active_texts: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Updates the state of a metric by its reading. `failure` is `None` if the reading succeeded.
    /// Returns the proposal of the metric's fallback, if the fallback is active.
    pub(crate) fn observe(
        &mut self,
        index: usize,
        spec: &MetricSpec,
        failure: Option<MetricFailure>,
    ) -> Option<FallbackProposal> {
        let fallback = self.settings.metric(index).fallback?;
        if failure == Some(MetricFailure::InvalidSpec) {
            return None;
        }
        let metric_hash = metric_hash(spec)?;
        let state = match self.failures.iter().find(|state| state.metric_hash == metric_hash) {
            // The spec has the metric twice.
            Some(state) => *state,
            None => self.next_state(metric_hash, spec, fallback, failure.is_some())?,
        };
        state.fallback_since?;
        let replicas = fallback.proposal(self.current);
        let proposed = counted(replicas, "replica");
        let name = type_and_name(spec);
        let since = format!("{:.0}", state.since);
        self.active_texts.push(format!("{name}{FAILING_SINCE}{since}, {proposed} proposed"));
        let text = match state.recovering_since {
            None if state.since == UNKNOWN_START => format!("{proposed}, because it fails"),
            None => format!("{proposed}, because it has kept failing since {since}"),
            Some(at) => format!(
                "{proposed}, until it has been read for {}s; it kept failing from {since} to \
                 {at:.0}",
                RECOVERY.as_secs()
            ),
        };
        let effect = SettingEffect { setting: FALLBACK, text };
        Some(FallbackProposal { replicas, name: format!("the fallback of {name}"), effect })
    }

    /// Stores and returns the state of a metric after its reading; `None` if it doesn't fail.
    fn next_state(
        &mut self,
        metric_hash: u64,
        spec: &MetricSpec,
        fallback: Fallback,
        has_failed: bool,
    ) -> Option<FailingMetric> {
        let position = self.unobserved.iter().position(|state| state.metric_hash == metric_hash);
        let known = position.map(|position| self.unobserved.swap_remove(position));
        let new = FailingMetric {
            metric_hash,
            since: self.now,
            fallback_since: None,
            recovering_since: None,
        };
        let mut state = known.or(has_failed.then_some(new))?;
        if has_failed {
            state.recovering_since = None;
        } else {
            let since = *state.recovering_since.get_or_insert(self.now);
            if since <= before(self.now, RECOVERY) {
                if state.fallback_since.is_some() {
                    self.report_end(&format!("{} can be read again", type_and_name(spec)));
                }
                return None;
            }
        }
        let delay = SignedDuration::from_secs(fallback.failure_duration_seconds.into());
        if has_failed && state.fallback_since.is_none() && state.since <= before(self.now, delay) {
            state.fallback_since = Some(self.now);
            let replicas = counted(fallback.proposal(self.current), "replica");
            let name = type_and_name(spec);
            self.events.push(Event::warning(
                EventReason::MetricFallbackStarted,
                format!(
                    "{name} has kept failing since {:.0}: its fallback proposes {replicas}",
                    state.since
                ),
            ));
        }
        self.failures.push(state);
        Some(state)
    }

    /// Ends the failures of metrics that were not observed. `cause` starts the message of the
    /// event.
    pub(crate) fn end_unobserved(&mut self, cause: &str) {
        let ended = std::mem::take(&mut self.unobserved);
        if ended.iter().any(|state| state.fallback_since.is_some()) {
            self.report_end(cause);
        }
    }

    fn report_end(&mut self, cause: &str) {
        let message = format!("{cause}: the fallback has ended");
        self.events.push(Event::normal(EventReason::MetricFallbackEnded, message));
    }
}

impl Decision<'_> {
    /// Stores the failures after a decision, and reports the fallbacks.
    pub(crate) fn set_fallbacks(&mut self, fallbacks: Fallbacks<'_>) {
        let Fallbacks { failures, active_texts, events, .. } = fallbacks;
        self.events.extend(events);
        self.history.failing_metrics = failures;
        if !active_texts.is_empty() {
            let message = go_text::truncate(active_texts.join("; "), MAX_MESSAGE_LEN);
            self.draft.set(
                ConditionType::ExternalMetricFallbackActive,
                true,
                ConditionReason::FallbackActive,
                message,
            );
        }
    }

    /// Sets the condition to `False` if no fallback is active any more. Removes it if no metric has
    /// a fallback.
    pub(crate) fn clear_fallback_condition(&mut self) {
        let condition_type = ConditionType::ExternalMetricFallbackActive;
        if !self.settings.has_fallback() {
            self.draft.remove(&condition_type);
        } else if self.draft.status.is_true(&condition_type)
            && !self.history.failing_metrics.iter().any(|state| state.fallback_since.is_some())
        {
            let reason = ConditionReason::FallbackEnded;
            self.draft.set(condition_type, false, reason, "no fallback is active");
        }
    }
}

impl Fallback {
    /// The replicas that it proposes for a target with `current` replicas.
    pub(crate) fn proposal(self, current: i32) -> i32 {
        match self.behavior {
            FallbackBehavior::Static => self.replicas,
            FallbackBehavior::CurrentReplicas => current,
            FallbackBehavior::CurrentReplicasIfHigher => current.max(self.replicas),
            FallbackBehavior::CurrentReplicasIfLower => current.min(self.replicas),
        }
    }
}

/// The failures that a stored status implies, for a report without a history. If the status reports
/// an active fallback, every metric that can't be read now is assumed to use its fallback.
pub(crate) fn failures_by_status(
    hpa: &HorizontalPodAutoscaler,
    readings: &Readings,
) -> Vec<FailingMetric> {
    let active = hpa.status.true_condition(&ConditionType::ExternalMetricFallbackActive);
    let Some(active) = active else { return Vec::new() };
    let Some(fallback_since) = active.last_transition_time else { return Vec::new() };
    let metrics = hpa.spec.metrics.iter().enumerate();
    let failed = metrics.filter(|(index, _)| !matches!(readings.get(*index), Some(Ok(_))));
    failed
        .filter_map(|(_, spec)| {
            Some(FailingMetric {
                metric_hash: metric_hash(spec)?,
                since: reported_start(&active.message, spec).unwrap_or(UNKNOWN_START),
                fallback_since: Some(fallback_since),
                recovering_since: None,
            })
        })
        .collect()
}

/// The failures of metrics that can be read now, although the status reports their fallbacks as
/// active, each with the metric's index and its fallback. The fallbacks stay active until the
/// metrics have been read for [`RECOVERY`].
pub(crate) fn recoveries_by_status(
    hpa: &HorizontalPodAutoscaler,
    settings: &Settings,
    readings: &Readings,
    now: Timestamp,
) -> Vec<(usize, Fallback, FailingMetric)> {
    let active = hpa.status.true_condition(&ConditionType::ExternalMetricFallbackActive);
    let Some(active) = active else { return Vec::new() };
    let metrics = hpa.spec.metrics.iter().enumerate();
    let read = metrics.filter(|(index, _)| matches!(readings.get(*index), Some(Ok(_))));
    let recoveries = read.filter_map(|(index, spec)| {
        let since = reported_start(&active.message, spec)?;
        let failure = FailingMetric {
            metric_hash: metric_hash(spec)?,
            since,
            fallback_since: Some(since),
            recovering_since: Some(now),
        };
        Some((index, settings.metric(index).fallback?, failure))
    });
    recoveries.collect()
}

/// The start of a metric's failure in the condition's message.
fn reported_start(message: &str, spec: &MetricSpec) -> Option<Timestamp> {
    let (_, rest) = message.split_once(&format!("{}{FAILING_SINCE}", type_and_name(spec)))?;
    rest.split_once(',')?.0.parse().ok()
}

/// The time of the next change of a failing metric, if its readings go on as they do now: failed
/// readings activate the fallback, and successful ones end the failure and an active fallback.
/// `None` if the metric doesn't fail, or if its fallback is active and the readings fail.
pub(crate) fn next_change(
    fallback: Fallback,
    spec: &MetricSpec,
    history: &History,
) -> Option<Timestamp> {
    let state = failure(spec, history)?;
    let delay = SignedDuration::from_secs(fallback.failure_duration_seconds.into());
    Some(match (state.recovering_since, state.fallback_since) {
        (Some(since), _) => after(since, RECOVERY),
        (None, None) => after(state.since, delay),
        (None, Some(_)) => return None,
    })
}

/// The start of a metric's failure that has not activated its fallback. `None` if the metric
/// doesn't fail, or if its fallback is active.
pub(crate) fn pending_since(spec: &MetricSpec, history: &History) -> Option<Timestamp> {
    let state = failure(spec, history)?;
    state.fallback_since.is_none().then_some(state.since)
}

/// The failure of a metric in a history.
fn failure<'a>(spec: &MetricSpec, history: &'a History) -> Option<&'a FailingMetric> {
    let metric_hash = metric_hash(spec)?;
    history.failing_metrics.iter().find(|state| state.metric_hash == metric_hash)
}

fn type_and_name(spec: &MetricSpec) -> String {
    format!("{} metric {}", spec.source_type, spec.metric_name())
}

/// Identifies a metric without its target, by the FNV-1a hash of its JSON, which is the same in
/// every process. `None` for types of metrics that can't have a fallback.
fn metric_hash(spec: &MetricSpec) -> Option<u64> {
    let json = match &spec.source_type {
        MetricSourceType::Pods => serde_json::to_vec(&spec.pods.as_ref()?.metric),
        MetricSourceType::External => serde_json::to_vec(&spec.external.as_ref()?.metric),
        MetricSourceType::Object => {
            let source = spec.object.as_ref()?;
            serde_json::to_vec(&(&source.described_object, &source.metric))
        }
        MetricSourceType::Resource
        | MetricSourceType::ContainerResource
        | MetricSourceType::Other(_) => return None,
    };
    let (offset, prime) = (0xcbf2_9ce4_8422_2325_u64, 0x0100_0000_01b3_u64);
    let bytes = spec.source_type.as_str().bytes().chain(json.ok()?);
    Some(bytes.fold(offset, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(prime)))
}
