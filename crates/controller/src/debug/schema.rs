//! The documents of the debug API. `docs/debugging.md` describes them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use hpa_calc::{
    History, HorizontalPodAutoscaler, Inputs, MilliValue, Reading, Report, Settings,
    api::MetricSourceType,
    explain::{MetricFailure, counted, metric_name, one_line},
    report::{FAILS_ELSEWHERE, about_missing_right},
    settings::SettingPolicy,
};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    cache::DecisionSample, forecast::ForecastView, key::AutoscalerApi, metrics::BuildInfo,
};

/// The state of one instance.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerStatus {
    pub build: BuildInfo,
    pub now: Timestamp,
    /// Whether the instance holds the lease. Without leader election, always true.
    pub is_leader: bool,
    /// The name of the lease. Absent without leader election.
    pub lease: Option<String>,
    /// Whether the workers run: not on a standby, and not yet while histories are restored.
    pub is_working: bool,
    pub dry_run: bool,
    pub sync_period_seconds: f64,
    pub settings: DecisionSettings,
    /// The reason why the readiness probe fails. Absent if it succeeds.
    pub not_ready: Option<String>,
    /// The reason why the liveness probe fails. Absent if it succeeds.
    pub not_alive: Option<String>,
    pub queue: QueueState,
    /// The longest time since an autoscaler's last reconcile, or since the workers started if that
    /// is later. The excess of an autoscaler's own sync period over the controller's doesn't count.
    /// Absent while the workers don't run.
    pub oldest_reconcile_seconds: Option<f64>,
    /// The time since the API server last confirmed that the cache of a resource has all changes.
    pub cache_ages_seconds: BTreeMap<String, f64>,
    /// The resources of which no list is complete yet, or not in each namespace. Their ages count
    /// from the start of the watch. Absent in documents of older versions.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub never_listed_caches: BTreeSet<String>,
    /// The errors of the watches that failed and that the API server has not accepted since, by
    /// resource. Absent in documents of older versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub watch_errors: BTreeMap<String, String>,
    /// The number of times that an object from the API server could not be decoded.
    pub undecodable_objects: u64,
    /// Whether histories are stored for the next leader. `false` with `--keep-history=false` and
    /// without leader election (a dry run has none). Absent in documents of older versions.
    #[serde(default)]
    pub keep_history: Option<bool>,
    /// The time for which writes of histories have been failing; 0 if they succeed.
    pub history_unsaved_seconds: f64,
    /// The number of cached autoscalers.
    pub autoscalers: usize,
    /// The number of autoscalers whose last reconcile failed, or could not read all metrics.
    pub failing: usize,
    /// Absent if all statuses could be written, and in documents of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_status_writes: Option<FailedStatusWrites>,
    /// The number of autoscalers with [`AutoscalerItem::overwritten_scalings`]. Absent if there are
    /// none, and in documents of older versions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub overwritten: u32,
    /// Absent if the rules file is in use, without one, and in documents of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_rules_file: Option<RefusedRulesFile>,
    pub decision_memory: DecisionMemory,
}

/// A cache that its watch last confirmed more than this number of seconds ago is stale, as in the
/// alert `HPAControllerWatchStale`.
const STALE_CACHE_SECONDS: f64 = 120.0;

impl ControllerStatus {
    /// A sentence about the caches that are stale. `None` if there are none.
    pub fn stale_caches_sentence(&self) -> Option<String> {
        let is_listed = |resource: &String| !self.never_listed_caches.contains(resource);
        let ages = self.cache_ages_seconds.iter().filter(|(resource, _)| is_listed(resource));
        let stale = ages.filter(|(_, age)| **age > STALE_CACHE_SECONDS);
        let (resources, texts): (Vec<_>, Vec<_>) =
            stale.map(|(resource, age)| (resource, format!("{resource} for {age:.0}s"))).unzip();
        if texts.is_empty() {
            return None;
        }
        let why = self.describe_watch_error(resources.into_iter());
        let why = why.unwrap_or_else(|| "its log says why, often a right is missing".to_owned());
        Some(format!(
            "The controller may decide without newer changes, because its watches fail or are \
             silent ({}): {why}.",
            texts.join(", ")
        ))
    }

    /// A clause with the first error of the watches of these resources. `None` if they have none.
    pub fn describe_watch_error<'a>(
        &self,
        mut resources: impl Iterator<Item = &'a String>,
    ) -> Option<String> {
        resources.find_map(|resource| {
            let error = self.watch_errors.get(resource)?.trim_end_matches('.');
            Some(format!("the watch of {resource} fails: {error}"))
        })
    }
}

/// The settings of decisions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionSettings {
    pub tolerance: f64,
    pub downscale_stabilization_seconds: f64,
    pub cpu_initialization_period_seconds: f64,
    pub initial_readiness_delay_seconds: f64,
    pub scale_to_zero: bool,
    /// Whether metrics of scaling schedules have no tolerance. Absent in documents of older
    /// versions.
    #[serde(default)]
    pub exact_schedules: bool,
}

/// The state of the work queue.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueState {
    /// Autoscalers that are due and wait for a worker.
    pub due: usize,
    /// Queued autoscalers, due or not.
    pub queued: usize,
    pub in_progress: usize,
    pub longest_running_seconds: f64,
}

/// The autoscalers whose last status could not be written. Their stored statuses are old.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedStatusWrites {
    pub autoscalers: usize,
    /// The error of one of the writes.
    pub error: String,
}

impl fmt::Display for FailedStatusWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let autoscalers = counted(self.autoscalers, "autoscaler");
        // The errors may differ.
        let subject = if self.autoscalers > 1 { "; the error of one" } else { "" };
        write!(f, "the controller can't store the status of {autoscalers}{subject}: {}", self.error)
    }
}

/// A rules file that is invalid or unreadable. The previous rules stay in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedRulesFile {
    pub path: String,
    /// The time of the file's last change. Absent if it can't be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Timestamp>,
    pub error: String,
}

/// The memory for the last decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionMemory {
    pub limit_bytes: usize,
    pub used_bytes: usize,
    /// The share of each autoscaler.
    pub per_autoscaler_bytes: usize,
}

/// Autoscalers, sorted by `NAMESPACE/NAME`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalerList {
    pub now: Timestamp,
    pub items: Vec<AutoscalerItem>,
    /// The token that requests the next page. Absent on the last page.
    #[serde(rename = "continue")]
    pub next: Option<String>,
}

/// The state of an autoscaler, without its history.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalerItem {
    pub api: AutoscalerApi,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Whether the last reconcile failed, or could not read all metrics.
    pub is_failing: bool,
    /// The error of the last status write. Absent if the status is stored, and in documents of
    /// older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_write_error: Option<String>,
    /// The number of recent scalings after which another client has changed the replicas.
    /// Absent if they are too few to report, and in documents of older versions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub overwritten_scalings: u32,
    /// Absent if no decision of this instance is recorded.
    pub last_reconcile_seconds_ago: Option<f64>,
    /// The time until the next periodic reconcile is due. Negative if it is late. Absent before the
    /// first reconcile, and while the workers don't run.
    pub next_due_in_seconds: Option<f64>,
    /// The last run of decisions, without its explanation.
    pub last: Option<RunDocument>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl AutoscalerItem {
    /// The last decision in one sentence. `None` if the controller has not just made it.
    pub fn current_sentence(&self) -> Option<&str> {
        let is_current = |age: &f64| *age <= MAX_AGE_OF_VALUES;
        self.last_reconcile_seconds_ago.filter(is_current)?;
        Some(&self.last.as_ref()?.decision.sentence)
    }
}

/// An autoscaler with its history and last decisions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalerDetail {
    /// [`AutoscalerDetail::API_VERSION`]. With the kind, it identifies a saved document.
    pub api_version: String,
    /// [`AutoscalerDetail::KIND`].
    pub kind: String,
    pub now: Timestamp,
    pub autoscaler: AutoscalerItem,
    /// The controller's settings, without the autoscaler's own.
    pub settings: DecisionSettings,
    /// Recommendations and scale events. Absent on a standby, which has none.
    pub history: Option<History>,
    /// The last decisions, oldest first.
    pub runs: Vec<RunDocument>,
    /// The names of the samples' metrics, in the order of the values.
    pub metric_names: Vec<String>,
    /// The numbers of the last reconciles, oldest first.
    pub samples: Vec<DecisionSample>,
    /// The forecasts of its metrics. Absent without the setting `forecast`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forecasts: Vec<ForecastView>,
}

/// The doubt about a report that has the sentence of the controller's last decision.
const OTHER_INPUTS: &str = "the controller made its last decision on other inputs";

/// Values of a reconcile count as current for this number of seconds, two default sync periods.
const MAX_AGE_OF_VALUES: f64 = 30.0;

impl AutoscalerDetail {
    pub const API_VERSION: &str = "debug.hpa-rs.dev/v1";
    pub const KIND: &str = "AutoscalerDetail";

    /// The last value of each metric, by its index in the spec. Only values of Object and External
    /// metrics can replace a reading, because the samples of pods are not recorded.
    pub fn last_values(&self) -> Vec<Option<MilliValue>> {
        let value = |metric: &Value| {
            let number = |name| metric.get(name).and_then(Value::as_i64);
            number("totalMilli").or_else(|| number("usageMilli")).map(MilliValue::from_milli)
        };
        self.last_metrics().map(value).collect()
    }

    /// Whether the controller has just read [`Self::last_values`].
    pub fn are_values_current(&self) -> bool {
        let age = self.autoscaler.last_reconcile_seconds_ago;
        age.is_some_and(|age| age <= MAX_AGE_OF_VALUES)
    }

    /// The last decision. `None` if the controller has not just made it, and the next one is due.
    pub fn current_decision(&self) -> Option<LastDecision> {
        let is_next_due = self.autoscaler.next_due_in_seconds.is_none_or(|due| due < 0.0);
        // With a long sync period, all runs may be older than the requested past. The last decision
        // then has no explanation, so it counts only if no metric can have failed in it: there is
        // no error, or the scale could not be read, so the metrics were not read.
        let older = self.autoscaler.last.as_ref().filter(|last| {
            last.decision.error.is_none() || last.decision.current_replicas.is_none()
        });
        let last = self.runs.last().or(older);
        let decision = &last.filter(|_| self.are_values_current() || !is_next_due)?.decision;
        Some(LastDecision {
            clause: format!("{}: {}", decision.action(), decision.sentence),
            failure: decision.failure().map(ToOwned::to_owned),
        })
    }

    /// The error of each metric in the last decision, by its index in the spec.
    pub fn last_errors(&self) -> Vec<Option<String>> {
        let error = |metric: &Value| metric.get("error")?.as_str().map(ToOwned::to_owned);
        self.last_metrics().map(error).collect()
    }

    /// The last decision, if the controller has just made it and desires the current replicas.
    /// Without that, a scaling could not be written, or a dry run or a pause prevents it.
    pub fn current_stay(&self) -> Option<StayDecision> {
        let run = self.runs.last().filter(|_| self.are_values_current())?;
        let Decision { current_replicas, desired_replicas, .. } = run.decision;
        let replicas = current_replicas.filter(|_| current_replicas == desired_replicas)?;
        let counted = |metric: &Value| metric.get("counted").and_then(Value::as_u64);
        Some(StayDecision { replicas, counted_pods: self.last_metrics().map(counted).collect() })
    }

    /// The metrics in the explanation of the last decision.
    fn last_metrics(&self) -> impl Iterator<Item = &Value> {
        let explanation = self.runs.last().and_then(|run| run.explanation.as_ref());
        let metrics = explanation.and_then(|explanation| explanation.get("metrics"));
        metrics.and_then(Value::as_array).into_iter().flatten()
    }
}

/// The last decision of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastDecision {
    /// The decision in a clause, such as `stays at 4: cpu is at 60%`.
    pub clause: String,
    /// The reason why the controller could not decide, or could not write the scale.
    pub failure: Option<String>,
}

impl LastDecision {
    /// The reason why the controller could not decide. `None` if it only could not write the scale.
    fn failure_to_decide(&self) -> Option<&str> {
        self.failure.as_deref().filter(|failure| !is_failed_write(failure))
    }
}

/// A decision of the controller to stay at the replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StayDecision {
    pub replicas: i32,
    /// The pods that it counted for each metric, by the index in the spec.
    pub counted_pods: Vec<Option<u64>>,
}

impl StayDecision {
    /// Advice if there is a [doubt](Self::doubt).
    pub const ADVICE: &str = "If the controller counts other pods for longer than two sync \
                              periods, its cache of pods is old: hpa status says how old. \
                              HPAControllerWatchStale in docs/alerts.md has the causes, such as a \
                              missing right to watch pods.";

    /// A doubt if these inputs scale the same replicas with other pods than the controller counted.
    /// The controller may not have seen the newest pods.
    pub fn doubt(&self, inputs: &Inputs) -> Option<String> {
        let decision = inputs.decide();
        let explanation = decision.explanation();
        let winner = explanation.winner?;
        let live_pods = u64::try_from(explanation.metrics.get(winner)?.counted_pods?).ok()?;
        let known_pods = self.counted_pods.get(winner).copied().flatten()?;
        let replicas = self.replicas;
        let contradicts = explanation.current_replicas == replicas && decision.scale_to().is_some();
        (contradicts && known_pods != live_pods).then(|| {
            format!(
                "the controller stayed at {replicas} in its last decision, which counted {}, not \
                 {live_pods}",
                counted(known_pods, "pod")
            )
        })
    }
}

/// Adds the controller's newest forecasts to the readings of a decision.
pub fn fill_forecasts(inputs: &mut Inputs, forecasts: &[ForecastView]) {
    for view in forecasts {
        if let Some(forecast) = view.newest() {
            inputs.readings.insert_forecast(view.index, forecast);
        }
    }
}

/// Replaces missing and failed readings of Object and External metrics with `values`, see
/// [`AutoscalerDetail::last_values`], and adds `errors`, see [`AutoscalerDetail::last_errors`].
/// With `are_current`, also replaces other readings that clearly differ: the controller may read
/// the metric from another source. Returns the names of the metrics with replaced readings.
pub fn fill_readings(
    inputs: &mut Inputs,
    values: &[Option<MilliValue>],
    are_current: bool,
    errors: Vec<Option<String>>,
) -> Vec<String> {
    inputs.readings.set_controller_errors(errors);
    let mut filled = Vec::new();
    for (index, spec) in inputs.hpa.spec.metrics.iter().enumerate() {
        let Some(value) = values.get(index).copied().flatten() else { continue };
        if let Some(Ok(own)) = inputs.readings.get(index) {
            let differs = |own| clearly_differs(own, value.as_milli().into());
            if !are_current || !own.total_milli().is_some_and(differs) {
                continue;
            }
        }
        let reading = match spec.source_type {
            MetricSourceType::Object => Reading::Object(value.into()),
            MetricSourceType::External => Reading::External(vec![value].into()),
            _ => continue,
        };
        inputs.readings.insert(index, Ok(reading));
        filled.push(metric_name(&inputs.hpa.spec.metrics, index));
    }
    filled
}

/// Replaces the sentence of a report by the controller's `decision`, if the report lacks metrics
/// that the controller could read or did not need, or if only the controller could not decide. See
/// [`AutoscalerDetail::current_decision`], and for its `errors` [`AutoscalerDetail::last_errors`].
pub fn replace_sentence(report: &mut Report, decision: &LastDecision, errors: &[Option<String>]) {
    let Some(sentence) = sentence_of_controller(report, decision, errors) else {
        add_failed_write(report, decision);
        return;
    };
    report.sentence = one_line(&sentence).into_owned();
    report.doubt.get_or_insert_with(|| OTHER_INPUTS.to_owned());
    // The report has advice about a failed write by the status.
    if let Some(failure) = decision.failure_to_decide() {
        // Nothing scales before the controller can decide again.
        report.changes.clear();
        let cause = one_line(cause(failure));
        if !report.advice.iter().any(|one| one.contains(&*cause)) {
            report.advice.insert(0, advice_about_failure(failure));
        }
    }
}

/// Adds the failure of the last write of the scale to the sentence, unless the sentence has the one
/// of the status. A report writes no scale, so its decision may succeed.
fn add_failed_write(report: &mut Report, decision: &LastDecision) {
    let is_missing =
        report.scale_to.is_some() && !report.sentence.contains("could not write the scale");
    let failure = decision.failure.as_deref().filter(|failure| is_failed_write(failure));
    if let Some(failure) = failure.filter(|_| is_missing) {
        let doubt = format!("the controller could not write the scale: {}", cause(failure));
        let doubt = one_line(&doubt).into_owned();
        let sentence = report.sentence.replacen("scales from ", "would scale from ", 1);
        report.sentence = format!("{sentence}; {doubt}");
        report.doubt.get_or_insert(doubt);
    }
}

/// Whether the controller decided, but could not write the scale.
fn is_failed_write(failure: &str) -> bool {
    failure.starts_with("failed to rescale ")
}

/// A failure without its first part, which names the step.
fn cause(failure: &str) -> &str {
    failure.split_once(": ").map_or(failure, |(_, cause)| cause)
}

fn advice_about_failure(failure: &str) -> String {
    let about_right = about_missing_right(failure).map(|advice| {
        format!("{advice} The ClusterRole of the chart hpa-controller has all rights.")
    });
    let advice = about_right.unwrap_or_else(|| FAILS_ELSEWHERE.to_owned());
    one_line(&format!("The controller can't decide: {failure}. {advice}")).into_owned()
}

/// The sentence of [`replace_sentence`]. `None` if the controller may decide as the report does.
fn sentence_of_controller(
    report: &Report,
    decision: &LastDecision,
    errors: &[Option<String>],
) -> Option<String> {
    // Without errors, the controller evaluated no metrics, for example because of the bounds.
    let has_failed = |index: usize| errors.get(index).map_or(!errors.is_empty(), Option::is_some);
    let unread = report.metrics.iter().filter(|metric| {
        metric.explanation.failure == Some(MetricFailure::Fetch) && !has_failed(metric.index)
    });
    let names: Vec<_> = unread.map(|metric| metric.name.as_str()).collect();
    let difference = if !names.is_empty() {
        format!("{} can't be read here", names.join(" and "))
    } else if report.desired_replicas.is_some() && decision.failure_to_decide().is_some() {
        "this doesn't fail here".to_owned()
    } else {
        return None;
    };
    let clause = clause_of_controller(decision, report.current_replicas);
    Some(format!("{clause}, as the controller decided last; {difference}"))
}

/// The clause of a decision, in the past tense if the target already has the replicas.
fn clause_of_controller(decision: &LastDecision, current_replicas: Option<i32>) -> String {
    let clause = &decision.clause;
    let action = clause.split_once(": ").map_or(&**clause, |(action, _)| action);
    let is_done = current_replicas.is_some_and(|now| action.ends_with(&format!(" to {now}")));
    match clause.strip_prefix("scales from ") {
        Some(rest) if is_done => format!("scaled from {rest}"),
        _ => clause.clone(),
    }
}

/// Whether two values differ by more than a tenth of the larger one, the default tolerance.
fn clearly_differs(one: i128, other: i128) -> bool {
    let larger = one.unsigned_abs().max(other.unsigned_abs());
    one.abs_diff(other).saturating_mul(10) > larger
}

/// Consecutive decisions with the same outcome.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunDocument {
    /// The time of the first decision.
    pub from: Timestamp,
    /// The time of the last decision.
    pub until: Timestamp,
    pub count: u32,
    /// The last decision.
    pub decision: Decision,
    /// The explanation of the last decision, an [`Explanation`](hpa_calc::Explanation) as JSON.
    /// Absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Value>,
}

/// A decision, and whether it was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The replicas of the scale. Absent if it could not be read.
    pub current_replicas: Option<i32>,
    /// The replicas after all limits. Absent if they could not be decided.
    pub desired_replicas: Option<i32>,
    /// The replicas that were written to the scale, if any.
    pub scaled_to: Option<i32>,
    /// The largest proposal.
    pub proposed_replicas: Option<i32>,
    /// The reason for the desired replicas, a [`Reason`](hpa_calc::explain::Reason).
    pub reason: String,
    /// The explanation in one sentence, with the metrics that failed.
    pub sentence: String,
    /// The error of the reconcile, or of the metrics that failed.
    pub error: Option<String>,
}

impl Decision {
    /// The effect on the replicas, such as `stays at 4`.
    pub fn action(&self) -> String {
        match (self.current_replicas, self.scaled_to) {
            (None, _) => "can't decide".to_owned(),
            (Some(current), Some(to)) => format!("scales from {current} to {to}"),
            (Some(current), None) => format!("stays at {current}"),
        }
    }

    /// The reason why the controller could not decide, or could not write the scale.
    pub fn failure(&self) -> Option<&str> {
        self.desired_replicas.is_none().then_some(&*self.sentence)
    }
}

impl From<&Settings> for DecisionSettings {
    fn from(settings: &Settings) -> Self {
        Self {
            tolerance: settings.tolerance,
            downscale_stabilization_seconds: settings.downscale_stabilization.as_secs_f64(),
            cpu_initialization_period_seconds: settings.cpu_initialization_period.as_secs_f64(),
            initial_readiness_delay_seconds: settings.initial_readiness_delay.as_secs_f64(),
            scale_to_zero: settings.scale_to_zero,
            exact_schedules: settings.exact_schedules,
        }
    }
}

impl From<DecisionSettings> for Settings {
    fn from(settings: DecisionSettings) -> Self {
        let duration = |seconds: f64| {
            let duration = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
        };
        Self::default().with(|changed| {
            changed.tolerance = settings.tolerance;
            changed.downscale_stabilization = duration(settings.downscale_stabilization_seconds);
            changed.cpu_initialization_period =
                duration(settings.cpu_initialization_period_seconds);
            changed.initial_readiness_delay = duration(settings.initial_readiness_delay_seconds);
            changed.scale_to_zero = settings.scale_to_zero;
            changed.exact_schedules = settings.exact_schedules;
        })
    }
}

/// The lag of the controller's clock behind the reader's. `at` is the time in the controller's
/// response. Negative if the controller's clock is ahead. A slow response is no lag.
pub fn clock_lag(
    at: Timestamp,
    requested_at: Timestamp,
    responded_at: Timestamp,
) -> SignedDuration {
    at.min(responded_at).max(requested_at).duration_since(at)
}

/// The settings for decisions outside a controller. `controller` has the settings that the
/// controller's debug API serves, if it does.
///
/// If all flags have their defaults, the controller's settings are used, otherwise the flags, with
/// two exceptions: schedules are exact if they are exact in either, because that is a property of
/// the cluster's metrics; and [`Settings::strict_scale_to_zero`] is always the flags', because the
/// debug API doesn't have it.
pub fn effective_settings(flags: Settings, controller: Option<Settings>) -> Settings {
    let Some(controller) = controller else { return flags };
    let (is_strict, is_exact) = (flags.strict_scale_to_zero, flags.exact_schedules);
    let defaults = Settings::default().with(|settings| {
        settings.strict_scale_to_zero = is_strict;
        settings.exact_schedules = is_exact;
    });
    let is_exact = is_exact || controller.exact_schedules;
    let settings = if flags == defaults { controller } else { flags };
    settings.with(|settings| {
        settings.strict_scale_to_zero = is_strict;
        settings.exact_schedules = is_exact;
    })
}

/// The controller that acts on an autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActingController {
    /// hpa-rs. Also any other controller that isn't kube-controller-manager.
    HpaRs,
    /// kube-controller-manager. If hpa-rs stored the status last, kube-controller-manager has
    /// replaced it.
    KubeControllerManager {
        /// Whether kube-controller-manager stored the status last.
        is_built_in_writer: bool,
    },
    /// The other controller may have replaced the one that stored the status last, or both act: a
    /// controller writes no status while nothing changes, and hpa-rs writes none in a dry run.
    Unknown {
        /// Whether kube-controller-manager stored the status last.
        is_built_in_writer: bool,
    },
}

impl ActingController {
    /// Derives the controller from the writer of the last status. If that is
    /// kube-controller-manager, hpa-rs may be acting by now, so the result is [`Self::Unknown`].
    pub fn of_status(is_built_in_writer: bool) -> Self {
        if is_built_in_writer { Self::Unknown { is_built_in_writer: true } } else { Self::HpaRs }
    }
}

/// The settings with which `controller` decides on an autoscaler.
///
/// [`Settings::strict_scale_to_zero`] is on for hpa-rs and off otherwise, whatever `settings` has.
/// The autoscaler's own settings apply only with hpa-rs. If the controller is unknown, they don't
/// apply, and the warnings about them say what hpa-rs would do.
pub fn settings_of_controller(
    settings: Settings,
    hpa: &HorizontalPodAutoscaler,
    policy: &SettingPolicy,
    controller: ActingController,
) -> Settings {
    let is_hpa_rs = controller == ActingController::HpaRs;
    let settings = settings.with(|settings| settings.strict_scale_to_zero = is_hpa_rs);
    let for_built_in = |settings: Settings, is_built_in_writer: bool| {
        let settings = settings.for_kube_controller_manager(hpa, policy);
        if is_built_in_writer { settings } else { settings.with_status_of_hpa_rs() }
    };
    match controller {
        ActingController::HpaRs => settings.for_autoscaler(hpa, policy).settings,
        ActingController::KubeControllerManager { is_built_in_writer } => {
            for_built_in(settings, is_built_in_writer)
        }
        ActingController::Unknown { is_built_in_writer } => {
            for_built_in(settings, is_built_in_writer).with_unknown_controller()
        }
    }
}

#[cfg(test)]
mod tests {
    use hpa_calc::{HorizontalPodAutoscaler, MetricsApi, ReadError, Readings, Scale, SelectedPods};
    use rstest::rstest;

    use super::*;

    /// The inputs of an autoscaler with these metrics and 4 of at most 5 replicas.
    fn inputs(metrics: &[Value], readings: Readings) -> Inputs {
        let hpa = serde_json::json!({
            "metadata": { "namespace": "shop", "name": "web" },
            "spec": {
                "maxReplicas": 5, "scaleTargetRef": { "kind": "Deployment", "name": "web" },
                "metrics": metrics,
            },
        });
        Inputs {
            hpa: serde_json::from_value::<HorizontalPodAutoscaler>(hpa).expect("an autoscaler"),
            scale: Ok(Scale { spec_replicas: 4, status_replicas: 4, selector: "app=web".into() }),
            settings: Settings::default(),
            selected: SelectedPods::default(),
            readings,
            history: None,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn decision_of_the_controller_names_the_metrics_that_only_it_could_read() {
        let jobs = serde_json::json!({ "type": "Pods", "pods": {
            "metric": { "name": "jobs" },
            "target": { "type": "AverageValue", "averageValue": "10" },
        } });
        let mut readings = Readings::new();
        readings.insert(0, Err(ReadError::fetch(MetricsApi::Custom, "unknown")));
        let report = inputs(&[jobs], readings).report();
        let decision = |clause: &str| LastDecision { clause: clause.to_owned(), failure: None };
        let sentence = |clause, errors: &[Option<String>]| {
            sentence_of_controller(&report, &decision(clause), errors)
        };
        let by_metric = "stays at 4: jobs is at 9";
        let expected =
            "stays at 4: jobs is at 9, as the controller decided last; jobs can't be read here";
        assert_eq!(sentence(by_metric, &[None]).as_deref(), Some(expected));
        assert_eq!(sentence(by_metric, &[Some("unknown".to_owned())]), None);
        // The bounds decided, so the controller evaluated no metric. The target has 4 replicas, not
        // yet 5.
        let expected = "scaled from 2 to 4: minReplicas is 4, as the controller decided last; jobs \
                        can't be read here";
        let by_bounds = sentence("scales from 2 to 4: minReplicas is 4", &[]);
        assert_eq!(by_bounds.as_deref(), Some(expected));
        let ongoing = sentence("scales from 4 to 5: minReplicas is 5", &[]);
        assert!(ongoing.is_some_and(|ongoing| ongoing.starts_with("scales from 4 to 5: ")));
    }

    #[rstest]
    #[case::only_in_the_record(false)]
    #[case::in_the_status(true)]
    fn failed_write_of_the_controller_is_in_the_first_line(#[case] is_stored: bool) {
        let jobs = serde_json::json!({ "type": "External", "external": {
            "metric": { "name": "jobs" },
            "target": { "type": "AverageValue", "averageValue": "10" },
        } });
        let reading = Reading::External(vec![MilliValue::from_milli(90_000)].into());
        let mut inputs = inputs(&[jobs], [(0, Ok(reading))].into_iter().collect());
        inputs.history = Some(History::default());
        if is_stored {
            let able = serde_json::json!([{
                "type": "AbleToScale", "status": "False", "reason": "FailedUpdateScale",
                "message": "the HPA controller was unable to update the target scale: denied",
            }]);
            inputs.hpa.status.conditions = serde_json::from_value(able).expect("conditions");
        }
        let (reference, message) = ("Deployment/shop/web".to_owned(), "denied".to_owned());
        let error = hpa_calc::ReconcileError::Rescale { reference, message }.to_string();
        let clause = format!("stays at 4: {error}");
        let decision = LastDecision { clause, failure: Some(error) };
        let mut report = inputs.report();
        replace_sentence(&mut report, &decision, &[None]);
        let sentence = &report.sentence;
        assert!(sentence.starts_with("would scale from 4 to 5: jobs is at "), "{sentence}");
        let failure = "; the controller could not write the scale: denied";
        assert!(sentence.ends_with(failure), "{sentence}");
        assert_eq!(sentence.matches(failure).count(), 1, "{sentence}");
        assert!(!report.to_string().contains("doesn't fail here"), "{report}");
    }

    #[test]
    fn sentence_of_a_list_is_current_for_two_sync_periods() {
        let mut item: AutoscalerItem = serde_json::from_value(serde_json::json!({
            "api": "core", "namespace": "shop", "name": "web", "uid": "u", "isFailing": false,
            "lastReconcileSecondsAgo": 30.0,
            "last": {
                "from": "2026-01-31T12:10:00Z", "until": "2026-01-31T12:10:00Z", "count": 1,
                "decision": { "reason": "metrics", "sentence": "cpu is at 60%" },
            },
        }))
        .expect("an item");
        assert_eq!(item.current_sentence(), Some("cpu is at 60%"));
        item.last_reconcile_seconds_ago = Some(30.1);
        assert_eq!(item.current_sentence(), None);
    }

    #[test]
    fn last_decision_holds_until_the_next_one_is_due() {
        let mut detail: AutoscalerDetail = serde_json::from_value(serde_json::json!({
            "apiVersion": "debug.hpa-rs.dev/v1", "kind": "AutoscalerDetail",
            "now": "2026-01-31T13:00:00Z", "runs": [], "metricNames": [], "samples": [],
            "autoscaler": {
                "api": "core", "namespace": "shop", "name": "web", "uid": "u", "isFailing": true,
                "lastReconcileSecondsAgo": 3000.0, "nextDueInSeconds": 600.0,
                "last": {
                    "from": "2026-01-31T12:10:00Z", "until": "2026-01-31T12:10:00Z", "count": 1,
                    "decision": {
                        "currentReplicas": null, "desiredReplicas": null, "scaledTo": null,
                        "proposedReplicas": null, "reason": "failed", "sentence": "no scale",
                        "error": "no scale",
                    },
                },
            },
            "settings": DecisionSettings::from(&Settings::default()),
        }))
        .expect("a document");
        let decision = detail.current_decision().expect("a decision");
        assert_eq!(decision.clause, "can't decide: no scale");
        assert_eq!(decision.failure.as_deref(), Some("no scale"));
        // Without an explanation, the metrics that failed are unknown.
        let last = &mut detail.autoscaler.last.as_mut().expect("a run").decision;
        last.current_replicas = Some(4);
        assert_eq!(detail.current_decision(), None);
        detail.autoscaler.last.as_mut().expect("a run").decision.error = None;
        assert!(detail.current_decision().is_some());
        for late in [Some(-1.0), None] {
            detail.autoscaler.next_due_in_seconds = late;
            assert_eq!(detail.current_decision(), None);
        }
    }

    /// The controller read 70, in the second metric 9.
    #[rstest]
    #[case::differs(true, Some(&[200, 70][..]), true)]
    #[case::of_an_old_reconcile(false, Some(&[200, 70][..]), false)]
    #[case::about_the_same(true, Some(&[50, 25][..]), false)]
    #[case::no_series(true, Some(&[][..]), true)]
    #[case::failed(false, None, true)]
    fn value_of_the_controller_replaces_a_reading(
        #[case] are_current: bool,
        #[case] own: Option<&[i64]>,
        #[case] is_replaced: bool,
    ) {
        let metric = |name: &str| {
            serde_json::json!({ "type": "External", "external": {
                "metric": { "name": name }, "target": { "type": "Value", "value": "10" },
            } })
        };
        let milli = |value: i64| MilliValue::from_milli(value * 1000);
        let mut readings = Readings::new();
        if let Some(own) = own {
            let own: Vec<_> = own.iter().copied().map(milli).collect();
            readings.insert(0, Ok(Reading::External(own.into())));
        }
        readings.insert(1, Ok(Reading::External(vec![milli(9)].into())));
        let mut inputs = inputs(&[metric("jobs"), metric("same")], readings);
        let values = [Some(milli(70)), Some(milli(9))];
        let filled = fill_readings(&mut inputs, &values, are_current, Vec::new());
        let expected: &[&str] = if is_replaced { &["jobs"] } else { &[] };
        assert_eq!(filled, expected);
    }
}
