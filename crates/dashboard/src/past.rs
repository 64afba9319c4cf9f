//! The data that a [`RecordSource`] reads from controllers: their records of autoscalers, and
//! whether they act.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use hpa_calc::{History, MilliValue, Settings, report::OverwrittenScalings};
use hpa_controller::{
    HpaKey,
    debug::{
        ActingController, AutoscalerActivity, AutoscalerDetail, Decision, DecisionSample,
        RunDocument, StayDecision,
    },
    forecast::ForecastView,
    k8s::StatusWrite,
};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// The controller's records of an autoscaler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ControllerRecords {
    /// The time of the read by the controller's clock. `None` if the dashboard has the same clock.
    pub now: Option<Timestamp>,
    /// Recommendations and scale events. `None` from a standby, which records none.
    pub history: Option<History>,
    /// The controller's settings, on which decisions depend.
    pub settings: Option<Settings>,
    /// Earlier reconciles, oldest first.
    pub samples: Vec<DecisionSample>,
    /// Earlier decisions, oldest first. Consecutive equal decisions are one entry.
    pub decisions: Vec<PastDecision>,
    /// The last values that the controller read for metrics, in the order of the spec. They replace
    /// missing values of Object and External metrics.
    pub values: Vec<Option<MilliValue>>,
    /// Whether the controller has just read [`Self::values`].
    pub are_values_current: bool,
    /// The last errors of metrics, in the order of the spec.
    pub errors: Vec<Option<String>>,
    /// See [`AutoscalerDetail::decision_in_effect`].
    pub decision_in_effect: Option<Decision>,
    /// The last decision if it was to stay, see [`AutoscalerDetail::current_stay`].
    pub current_stay: Option<StayDecision>,
    /// The error with which the controller failed to store its last status. `None` if it is stored.
    pub status_write_error: Option<String>,
    /// As [`Surroundings::overwritten_scalings`](hpa_calc::report::Surroundings).
    pub overwritten_scalings: Option<OverwrittenScalings>,
    /// The controller's forecasts of the load.
    pub forecasts: Vec<ForecastView>,
}

/// Consecutive decisions with the same outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PastDecision {
    /// The time of the first decision.
    pub from: Timestamp,
    /// The time of the last decision.
    pub until: Timestamp,
    /// The replicas before the decision. `None` if the scale could not be read.
    pub current: Option<i32>,
    /// The replicas that were written to the scale. `None` if nothing was written.
    pub scaled_to: Option<i32>,
    /// The explanation of the last decision, in one sentence.
    pub sentence: String,
}

/// Reads the records of controllers.
#[async_trait]
pub trait RecordSource: Send + Sync {
    /// Reads the records of an autoscaler. Their samples are those after the time `after`, or all.
    ///
    /// `manager` is the field manager that stored the autoscaler's status last. The error is a
    /// sentence without a full stop: why the records can't be read, and what the user can do.
    async fn records(
        &self,
        autoscaler: &HpaKey,
        manager: Option<&str>,
        after: Option<Timestamp>,
    ) -> Result<ControllerRecords, String>;

    /// Reads whether controllers make decisions, and which of them act. A controller without a
    /// decision for longer than `limit` is inactive.
    ///
    /// `writers` has an entry for each autoscaler with a status.
    async fn activity(
        &self,
        _writers: &[AutoscalerStatusWriter],
        _limit: SignedDuration,
    ) -> ControllerActivity {
        ControllerActivity::default()
    }
}

/// Whether controllers make decisions, and which of them act.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerActivity {
    /// A sentence if a controller is inactive. `None` if all make decisions, or if that can't be
    /// read.
    pub inactivity: Option<String>,
    /// The autoscalers on which no controller acts, or maybe none, as far as the leases show it.
    /// Empty without [`Self::inactivity`].
    pub idle: BTreeMap<HpaKey, IdleAutoscaler>,
    /// The wrong clock of the controller. `None` if it is right, or if it can't be read.
    pub wrong_clock: Option<WrongClock>,
    /// Sentences about old caches, an API that isn't served, and several controllers that store
    /// statuses. If [`Self::unstored`] can't be read, also about statuses that can't be stored.
    pub status_problems: Vec<String>,
    /// The autoscalers that are due and had no decision for longer than the limit. The time is that
    /// of the last decision, or at which the first one was due. Empty without
    /// [`Self::inactivity`], or if that can't be read.
    pub overdue: BTreeMap<HpaKey, Timestamp>,
    /// The autoscalers on which the controller has recently decided, by its debug API. It has then
    /// replaced a status that is no longer true.
    pub recently_decided: BTreeSet<HpaKey>,
    /// The autoscalers whose last status a controller could not store. The stored ones are older.
    pub unstored: BTreeMap<HpaKey, UnstoredStatus>,
    /// The latest activity of the controller for each autoscaler, by its debug API.
    pub autoscalers: BTreeMap<HpaKey, AutoscalerActivity>,
    /// The controller that acts now on autoscalers of
    /// [`Core`](hpa_controller::AutoscalerApi::Core), by their namespace and the field manager that
    /// stored their status last. Another controller may have replaced the manager's. For a manager
    /// without an entry, [`ActingController::of_status`] applies.
    pub acting: BTreeMap<(Arc<str>, String), ActingController>,
}

/// The controllers that stored the status of an autoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoscalerStatusWriter {
    pub key: HpaKey,
    /// The field manager that stored it last.
    pub manager: String,
    /// The time of that write. `None` if it is unknown.
    pub at: Option<Timestamp>,
    /// The newest write of each other controller, as in
    /// [`StatusController::overwritten`](hpa_controller::k8s::StatusController::overwritten).
    pub overwritten: Vec<StatusWrite>,
    /// Whether the autoscaler's own settings ask for a dry run, in which hpa-rs only compares.
    pub dry_run: bool,
}

impl AutoscalerStatusWriter {
    /// The time of the newest write by a field manager. `None` if there is none, or if its time is
    /// unknown.
    pub fn written_at(&self, manager: &str) -> Option<Timestamp> {
        let last = self.at.filter(|_| self.manager == manager);
        let mut overwritten = self.overwritten.iter();
        last.or_else(|| overwritten.find(|write| write.manager == manager).map(|write| write.at))
    }
}

/// The finding that no controller acts on an autoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleAutoscaler {
    /// A clause that starts a sentence: `Maybe no controller acts on this autoscaler`.
    pub clause: String,
    /// The reason, such as a lost lease.
    pub reason: String,
}

/// A clock of a controller that clearly differs from the API server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongClock {
    /// The lead of the controller's clock.
    pub lead: SignedDuration,
    /// A clause about it.
    pub clause: String,
    /// The clause as a sentence.
    pub sentence: String,
    /// The field manager of the controller, if its lease or the pod of the lease shows the clock.
    /// Then the controller's decisions on all autoscalers with its status use this clock. `None` if
    /// it is the clock of an instance that may not hold the lease: then it concerns only the
    /// autoscalers of which that instance has records.
    pub manager: Option<String>,
}

/// A status that its controller could not store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnstoredStatus {
    /// The error of the write.
    pub error: String,
    /// The last decision. `None` if it isn't recorded.
    pub last_decision: Option<PastDecision>,
}

/// A controller without a decision is reported after this time.
const INACTIVE_AFTER: SignedDuration = SignedDuration::from_mins(2);
/// If this number of sync periods is longer than [`INACTIVE_AFTER`], it is used instead.
const INACTIVE_PERIODS: i32 = 4;

/// The time after which a controller that makes no decisions is reported.
pub fn inactivity_limit(sync_period: Duration) -> SignedDuration {
    let period = SignedDuration::try_from(sync_period).unwrap_or(INACTIVE_AFTER);
    period.saturating_mul(INACTIVE_PERIODS).max(INACTIVE_AFTER)
}

impl From<AutoscalerDetail> for ControllerRecords {
    fn from(detail: AutoscalerDetail) -> Self {
        Self {
            now: Some(detail.now),
            values: detail.last_values(),
            are_values_current: detail.are_values_current(),
            errors: detail.last_errors(),
            decision_in_effect: detail.decision_in_effect().cloned(),
            current_stay: detail.current_stay(),
            overwritten_scalings: detail.autoscaler.overwritten(),
            status_write_error: detail.autoscaler.status_write_error,
            forecasts: detail.forecasts,
            history: detail.history,
            settings: Some(detail.settings.into()),
            samples: detail.samples,
            decisions: detail.runs.into_iter().map(PastDecision::from).collect(),
        }
    }
}

impl From<RunDocument> for PastDecision {
    fn from(run: RunDocument) -> Self {
        let RunDocument { from, until, decision, .. } = run;
        Self {
            from,
            until,
            current: decision.current_replicas,
            scaled_to: decision.scaled_to,
            sentence: decision.sentence,
        }
    }
}

/// Converts a time to a clock that is ahead of the time's own clock by `ahead`.
pub(crate) fn shifted(at: Timestamp, ahead: SignedDuration) -> Timestamp {
    at.saturating_add(ahead).unwrap_or(at)
}
