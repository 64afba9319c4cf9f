//! The state and the decisions of an autoscaler.

use hpa_calc::{History, MilliValue, explain::UnschedulablePods, report::OverwrittenScalings};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Decision, DecisionSettings, RunDocument, is_zero};
use crate::{
    cache::DecisionSample, debug::live_report::StayDecision, forecast::ForecastView,
    key::AutoscalerApi,
};

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
    /// Absent if they are too few to report, while the workers don't run, and in documents of older
    /// versions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub overwritten_scalings: u32,
    /// The time at which the last of these changes was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwritten_at: Option<Timestamp>,
    /// Absent if no decision of this instance is recorded.
    pub last_reconcile_seconds_ago: Option<f64>,
    /// The time until the next periodic reconcile is due. Negative if it is late. Absent before the
    /// first reconcile, and while the workers don't run.
    pub next_due_in_seconds: Option<f64>,
    /// The last run of decisions, without its explanation.
    pub last: Option<RunDocument>,
}

/// The latest activity of the controller for an autoscaler, by its debug API or its events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutoscalerActivity {
    /// The last decision in one sentence. `None` if it is old.
    pub last_decision: Option<String>,
    /// The pods that the scheduler can't place. `None` if the last decision is old.
    pub unschedulable_pods: Option<UnschedulablePods>,
    /// The number of pods if none of them is ready. `None` if the last decision is old.
    pub unready_pods: Option<usize>,
    /// The recent scalings after which another client has changed the replicas.
    pub overwritten_scalings: Option<OverwrittenScalings>,
}

impl AutoscalerItem {
    /// The latest activity. `now` is the time of the document, or of one that was read with it.
    pub fn activity(&self, now: Timestamp) -> AutoscalerActivity {
        let decision = self.recent_decision(now);
        AutoscalerActivity {
            last_decision: decision.map(|decision| decision.sentence.clone()),
            unschedulable_pods: decision.and_then(|decision| decision.unschedulable_pods),
            unready_pods: decision.and_then(|decision| decision.unready_pods),
            overwritten_scalings: self.overwritten(),
        }
    }

    /// The recent scalings after which another client has changed the replicas.
    pub fn overwritten(&self) -> Option<OverwrittenScalings> {
        let (count, seen_at) = (self.overwritten_scalings, self.overwritten_at);
        (count > 0).then_some(OverwrittenScalings { count, seen_at })
    }

    /// The last decision. `None` if the controller has not just made it. `now` is the time of the
    /// document, or of one that was read with it.
    pub fn recent_decision(&self, now: Timestamp) -> Option<&Decision> {
        self.last.as_ref().filter(|last| self.is_recent(last, now)).map(|last| &last.decision)
    }

    /// Whether the last reconcile was recent, and made the last decision of this run.
    fn is_recent(&self, last: &RunDocument, now: Timestamp) -> bool {
        self.last_reconcile_seconds_ago.is_some_and(|age| is_recent(last.until, age, now))
    }

    /// Whether the last reconcile made the last decision of this run.
    fn is_latest(&self, last: &RunDocument, now: Timestamp) -> bool {
        self.last_reconcile_seconds_ago.is_some_and(|age| is_of_reconcile(last.until, age, now))
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

/// A decision and its values count as recent for this number of seconds, two default sync periods.
const MAX_AGE_SECONDS: f64 = 30.0;

/// After its decision, a reconcile rarely takes longer than this number of seconds to write the
/// scale and the status. A write of the scale may wait 35 s for a webhook.
const MAX_WRITE_SECONDS: f64 = 60.0;

/// Whether a reconcile that ended `age` seconds ago was recent, and made the decision of the time
/// `decided`.
pub(in crate::debug) fn is_recent(decided: Timestamp, age: f64, now: Timestamp) -> bool {
    age <= MAX_AGE_SECONDS && is_of_reconcile(decided, age, now)
}

/// Whether a reconcile that ended `age` seconds ago made the decision of the time `decided`. A
/// reconcile that leaves the autoscaler to another controller makes none.
fn is_of_reconcile(decided: Timestamp, age: f64, now: Timestamp) -> bool {
    now.duration_since(decided).as_secs_f64() <= age + MAX_WRITE_SECONDS
}

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
        self.recent_run().is_some()
    }

    /// The last of the runs. `None` if the controller has not just made its last decision.
    fn recent_run(&self) -> Option<&RunDocument> {
        self.runs.last().filter(|run| self.autoscaler.is_recent(run, self.now))
    }

    /// The last decision. `None` if the controller has not just made it and the next one is due,
    /// or if a later reconcile made none.
    pub fn decision_in_effect(&self) -> Option<&Decision> {
        let is_next_due = self.autoscaler.next_due_in_seconds.is_none_or(|due| due < 0.0);
        // With a long sync period, all runs may be older than the requested `since`, so `runs` is
        // empty. `autoscaler.last` has no explanation, so it counts only if no metric can have
        // failed in it: there is no error, or the scale could not be read, so the metrics were not
        // read.
        let older = self.autoscaler.last.as_ref().filter(|last| {
            last.decision.error.is_none() || last.decision.current_replicas.is_none()
        });
        let last = self.runs.last().or(older)?;
        let is_valid = self.autoscaler.is_recent(last, self.now)
            || !is_next_due && self.autoscaler.is_latest(last, self.now);
        is_valid.then_some(&last.decision)
    }

    /// The error of each metric in the last decision, by its index in the spec.
    pub fn last_errors(&self) -> Vec<Option<String>> {
        let error = |metric: &Value| metric.get("error")?.as_str().map(ToOwned::to_owned);
        self.last_metrics().map(error).collect()
    }

    /// The last decision, if the controller has just made it and it desires the current replicas.
    /// `None` for a decision that desires other replicas, even if the scale could not be written,
    /// or if a dry run or a pause prevents the write.
    pub fn current_stay(&self) -> Option<StayDecision> {
        let run = self.recent_run()?;
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

#[cfg(test)]
mod tests {
    use hpa_calc::Settings;
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn sentence_of_a_list_is_recent_for_two_sync_periods() {
        let now = "2026-01-31T12:10:30Z".parse().expect("a time");
        let mut item: AutoscalerItem = serde_json::from_value(serde_json::json!({
            "api": "core", "namespace": "shop", "name": "web", "uid": "u", "isFailing": false,
            "lastReconcileSecondsAgo": 30.0,
            "last": {
                "from": "2026-01-31T12:10:00Z", "until": "2026-01-31T12:10:00Z", "count": 1,
                "decision": { "reason": "metrics", "sentence": "cpu is at 60%" },
            },
        }))
        .expect("an item");
        let sentence = item.recent_decision(now).map(|decision| &*decision.sentence);
        assert_eq!(sentence, Some("cpu is at 60%"));
        item.last_reconcile_seconds_ago = Some(30.1);
        assert_eq!(item.recent_decision(now), None);
        // Reconciles that leave the autoscaler to another controller make no decision.
        item.last_reconcile_seconds_ago = Some(1.0);
        let written = now + SignedDuration::from_secs(6);
        assert!(item.recent_decision(written).is_some(), "the write may have taken 35 s");
        assert_eq!(item.recent_decision(now + SignedDuration::from_hours(1)), None);
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
        let decision = detail.decision_in_effect().expect("a decision");
        assert_eq!(decision.action(), "can't decide");
        assert_eq!(decision.failure(), Some("no scale"));
        // Without an explanation, the metrics that failed are unknown.
        let last = &mut detail.autoscaler.last.as_mut().expect("a run").decision;
        last.current_replicas = Some(4);
        assert_eq!(detail.decision_in_effect(), None);
        detail.autoscaler.last.as_mut().expect("a run").decision.error = None;
        assert!(detail.decision_in_effect().is_some());
        detail.autoscaler.last_reconcile_seconds_ago = Some(5.0);
        assert_eq!(detail.decision_in_effect(), None, "that reconcile made no decision");
        detail.runs.extend(detail.autoscaler.last.clone());
        assert!(!detail.are_values_current());
        assert_eq!((detail.decision_in_effect(), detail.current_stay()), (None, None));
        detail.runs.clear();
        detail.autoscaler.last_reconcile_seconds_ago = Some(3000.0);
        for late in [Some(-1.0), None] {
            detail.autoscaler.next_due_in_seconds = late;
            assert_eq!(detail.decision_in_effect(), None);
        }
    }
}
