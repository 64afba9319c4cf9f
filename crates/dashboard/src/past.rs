//! The past of autoscalers, which their controller records.

use std::time::Duration;

use async_trait::async_trait;
use hpa_calc::{
    History, MilliValue, Settings,
    explain::{MetricExplanation, TargetValue},
};
use hpa_controller::{
    HpaKey,
    debug::{AutoscalerDetail, Run, Sample},
    forecast::ForecastView,
};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// The controller's records of an autoscaler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Past {
    /// The time by the controller's clock. `None` means the dashboard's time.
    pub now: Option<Timestamp>,
    /// Recommendations and scale events. `None` on a standby, which has not recorded them.
    pub history: Option<History>,
    /// The controller's settings, on which decisions depend.
    pub settings: Option<Settings>,
    /// Earlier reconciles, oldest first.
    pub samples: Vec<PastSample>,
    /// Earlier decisions, oldest first.
    pub decisions: Vec<PastDecision>,
    /// The last values that the controller read of Object and External metrics, by the index of the
    /// metric.
    pub values: Vec<Option<MilliValue>>,
    /// The forecasts of the controller.
    pub forecasts: Vec<ForecastView>,
}

/// The numbers of one reconcile.
#[derive(Clone, Debug, PartialEq)]
pub struct PastSample {
    /// The time of the decision.
    pub at: Timestamp,
    /// The replicas before the decision.
    pub current: i32,
    /// The replicas after all limits. `None` if it could not decide.
    pub desired: Option<i32>,
    /// The largest proposal of the metrics.
    pub proposed: Option<i32>,
    /// The values by the index of their metric: percent for a utilization target, else thousandths.
    pub values: Vec<Option<i64>>,
}

/// Consecutive decisions with the same outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PastDecision {
    /// The time of the first decision.
    pub from: Timestamp,
    /// The time of the last decision.
    pub until: Timestamp,
    /// The replicas before. `None` if the scale could not be read.
    pub current: Option<i32>,
    /// The replicas that were written, if any.
    pub scaled_to: Option<i32>,
    /// The explanation of the last decision, in one sentence.
    pub sentence: String,
}

/// Reads the past from the controller.
#[async_trait]
pub trait PastSource: Send + Sync {
    /// Reads the past of an autoscaler, with only the samples after a time (`None`: all samples).
    ///
    /// `manager` is the field manager that stored the autoscaler's status. The error says why the
    /// past can't be read and what to do, without a full stop.
    async fn past(
        &self,
        autoscaler: &HpaKey,
        manager: Option<&str>,
        after: Option<Timestamp>,
    ) -> Result<Past, String>;

    /// A sentence about a controller that has made no decisions for longer than `limit`. `None` if
    /// it makes some, or if that can't be read.
    ///
    /// `managers` are the field managers of the statuses.
    async fn silence(&self, managers: &[String], limit: SignedDuration) -> Option<String>;

    /// The autoscalers that are due and had no decision for longer than `limit`. Called only while
    /// `silence` returns a sentence. Empty if it can't be read.
    async fn overdue(&self, _managers: &[String], _limit: SignedDuration) -> Vec<Overdue> {
        Vec::new()
    }
}

/// An autoscaler without a recent decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// The autoscaler.
    pub key: HpaKey,
    /// The time since the last decision, or since the first one was due.
    pub age: SignedDuration,
}

/// A controller is reported if it made no decision for this time and this number of sync periods.
const SILENT_AFTER: SignedDuration = SignedDuration::from_mins(2);
const SILENT_PERIODS: i32 = 4;

/// The time without decisions after which a controller is reported.
pub fn silence_limit(sync_period: Duration) -> SignedDuration {
    let period = SignedDuration::try_from(sync_period).unwrap_or(SILENT_AFTER);
    period.saturating_mul(SILENT_PERIODS).max(SILENT_AFTER)
}

impl From<AutoscalerDetail> for Past {
    fn from(detail: AutoscalerDetail) -> Self {
        Self {
            now: Some(detail.now),
            values: detail.last_values(),
            forecasts: detail.forecasts,
            history: detail.history,
            settings: Some(detail.settings.into()),
            samples: detail.samples.into_iter().map(PastSample::from).collect(),
            decisions: detail.runs.into_iter().map(PastDecision::from).collect(),
        }
    }
}

impl From<Sample> for PastSample {
    fn from(sample: Sample) -> Self {
        let Sample { at, current, desired, proposed, values } = sample;
        Self { at, current, desired, proposed, values }
    }
}

impl From<Run> for PastDecision {
    fn from(run: Run) -> Self {
        let Run { from, until, decision, .. } = run;
        Self {
            from,
            until,
            current: decision.current_replicas,
            scaled_to: decision.scaled_to,
            sentence: decision.sentence,
        }
    }
}

/// Converts a time to a clock that is `ahead` of the clock that it was read from.
pub(crate) fn shifted(at: Timestamp, ahead: SignedDuration) -> Timestamp {
    at.saturating_add(ahead).unwrap_or(at)
}

/// The value that is compared with the metric's target.
pub(crate) fn value(metric: &MetricExplanation) -> Option<MilliValue> {
    match metric.target? {
        TargetValue::Utilization(_) => metric.utilization.map(percent),
        TargetValue::Value(_) => metric.usage,
    }
}

fn percent(percent: i32) -> MilliValue {
    MilliValue::from_units(i64::from(percent))
}
