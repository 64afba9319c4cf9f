//! The documents of the debug API. `docs/debugging.md` describes them.
//!
//! - A *run* is a series of equal decisions, see [`RunDocument`].
//! - The *recent decision* is the last one, if the last reconcile made it and was recent, see
//!   [`AutoscalerItem::recent_decision`].
//! - The *decision in effect* is the last one, while it is recent or the next one is not due yet,
//!   unless a later reconcile made none, see [`AutoscalerDetail::decision_in_effect`].
//! - The *last values* are those of the metrics in the last decision, however old it is, see
//!   [`AutoscalerDetail::last_values`].

mod autoscaler;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use hpa_calc::{
    Settings,
    explain::{UnschedulablePods, counted},
};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(super) use self::autoscaler::is_recent;
pub use self::autoscaler::{AutoscalerActivity, AutoscalerDetail, AutoscalerItem};
use crate::metrics::BuildInfo;

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
    /// The longest time that an autoscaler has gone without a reconcile since the workers started.
    /// If its own sync period is longer than the controller's, the difference is subtracted. Absent
    /// while the workers don't run.
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
    /// The number of autoscalers whose [recent decision](AutoscalerItem::recent_decision) has
    /// [`Decision::unschedulable_pods`]. Absent if there are none, and in documents of older
    /// versions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unschedulable: u32,
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(count: &u32) -> bool {
    *count == 0
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The replicas of the scale. Absent if it could not be read.
    pub current_replicas: Option<i32>,
    /// The replicas after all limits. Absent if they could not be decided, or if the scale could
    /// not be written.
    pub desired_replicas: Option<i32>,
    /// The replicas that were written to the scale, if any.
    pub scaled_to: Option<i32>,
    /// The largest proposal.
    pub proposed_replicas: Option<i32>,
    /// The reason for the desired replicas, a [`Reason`](hpa_calc::explain::Reason).
    pub reason: String,
    /// The explanation in one sentence, with the metrics that failed and the pods that can't be
    /// scheduled or are not ready.
    pub sentence: String,
    /// The pods that the scheduler can't place. Absent if there are none, and in documents of older
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unschedulable_pods: Option<UnschedulablePods>,
    /// The number of pods if none of them is ready although one has had the time to start. Absent
    /// otherwise, and in documents of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unready_pods: Option<usize>,
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
            SignedDuration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(SignedDuration::MAX)
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
