//! Serves metrics of `ScalingSchedule` and `ClusterScalingSchedule` objects.

mod cache;
mod client;
mod kind;
mod metric_source;
mod status;
#[cfg(test)]
mod tests;
mod watch;

use std::{hash::RandomState, sync::Arc};

use hpa_calc::{HorizontalPodAutoscaler, api::MetricSourceType};
use hpa_metrics::FairSemaphore;
use jiff::Timestamp;
use tokio::task::spawn_blocking;

pub use client::ScheduleClient;
pub(super) use kind::GROUP;
pub use kind::{ScheduleKey, ScheduleKind};

use self::cache::{Cache, CachedSchedule, Health};
use crate::schedules::Evaluation;

/// The maximum length of a problem in an error. Problems quote the schedule.
const MAX_PROBLEM_CHARS: usize = 300;

/// The maximum number of evaluations at a time. One namespace gets half of them.
const MAX_EVALUATIONS: usize = 2;

/// Returns the current time. Tests pass a function whose time they control.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The schedules of the cluster, a metric source for the adapter. [`Schedules::watch`] keeps them
/// up to date.
pub struct Schedules {
    settings: crate::schedules::Settings,
    now: Now,
    cache: Cache,
    evaluations: FairSemaphore,
    hasher: RandomState,
}

/// The reason that a schedule has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoScheduleValue {
    /// The schedule doesn't exist.
    #[error("there is no {0}")]
    NotFound(ScheduleKey),
    /// The API server doesn't have the resource.
    #[error("{} are not installed (hpa schedule crd prints their definition)", .0.resource())]
    NotInstalled(ScheduleKind),
    /// The first list of schedules is not complete.
    #[error("{} are not synced yet", .0.resource())]
    NotSynced(ScheduleKind),
    /// The first list of schedules has failed.
    #[error("{} are not synced yet: {failure}", kind.resource())]
    ListFailed { kind: ScheduleKind, failure: String },
    /// The schedule is invalid.
    #[error("{key}: {problem}")]
    Invalid { key: ScheduleKey, problem: String },
}

impl Schedules {
    /// Creates a cache without schedules.
    pub fn new(settings: crate::schedules::Settings, now: Now) -> Self {
        Self {
            settings,
            now,
            cache: Cache::default(),
            evaluations: FairSemaphore::new(MAX_EVALUATIONS),
            hasher: RandomState::new(),
        }
    }

    /// The current value of a schedule, and the time for which it was computed.
    pub async fn value(&self, key: &ScheduleKey) -> Result<(i64, Timestamp), NoScheduleValue> {
        let Some(entry) = self.cache.get(key) else {
            return Err(match self.cache.health(key) {
                Health::Synced => NoScheduleValue::NotFound(key.clone()),
                Health::NotInstalled => NoScheduleValue::NotInstalled(key.kind),
                Health::NotSynced(None) => NoScheduleValue::NotSynced(key.kind),
                Health::NotSynced(Some(failure)) => {
                    NoScheduleValue::ListFailed { kind: key.kind, failure }
                }
            });
        };
        let invalid = |problem: String| {
            let problem = problem.chars().take(MAX_PROBLEM_CHARS).collect();
            NoScheduleValue::Invalid { key: key.clone(), problem }
        };
        let (evaluation, now) = self.evaluation(key, &entry).await.map_err(invalid)?;
        let value = evaluation.value.map_err(|error| invalid(error.to_string()))?;
        Ok((value, now))
    }

    /// The current evaluation of a schedule, and the time to which it applies. An evaluation runs
    /// on a blocking thread, because tenants may write schedules that need milliseconds. Fails if
    /// the schedule can't be compiled.
    async fn evaluation(
        &self,
        key: &ScheduleKey,
        entry: &CachedSchedule,
    ) -> Result<(Evaluation, Timestamp), String> {
        let cached = || {
            let now = (self.now)();
            entry.evaluation_at(now).map(|evaluation| (evaluation, now))
        };
        let metric = entry.metric.as_ref().map_err(Clone::clone)?;
        if let Some(current) = cached() {
            return Ok(current);
        }
        let _lock = entry.evaluation_lock.lock().await;
        if let Some(current) = cached() {
            return Ok(current);
        }
        let permit = self.evaluations.acquire(&key.namespace).await;
        let (now, metric) = ((self.now)(), metric.clone());
        let task = spawn_blocking(move || {
            let _permit = permit;
            metric.evaluate(now)
        });
        let evaluation = task.await.map_err(|error| format!("unable to evaluate: {error}"))?;
        entry.set_evaluation(evaluation.clone(), now);
        Ok((evaluation, now))
    }

    /// The first time after `now` at which a schedule of the autoscaler may have another value than
    /// the one that was read last. It is at most an hour after that read.
    ///
    /// `since` is the start of the autoscaler's last reconcile. If the value changed after it, that
    /// reconcile may have read the earlier value, so the time is at most a second after `now`.
    /// `None` if no current value was read.
    pub fn next_change(
        &self,
        hpa: &HorizontalPodAutoscaler,
        since: Timestamp,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let entries = schedules_of(hpa).filter_map(|key| self.cache.get(&key));
        entries.filter_map(|entry| entry.next_change(since, now)).min()
    }

    /// Waits until each first list is complete or has failed. [`Self::watch`] must run.
    pub async fn wait_for_first_list(&self) {
        let mut changes = self.cache.subscribe();
        while self.cache.is_listing() && changes.changed().await.is_ok() {}
    }
}

/// The schedules that metrics of an autoscaler follow.
pub fn schedules_of(hpa: &HorizontalPodAutoscaler) -> impl Iterator<Item = ScheduleKey> {
    let is_object =
        |metric: &&hpa_calc::api::MetricSpec| metric.source_type == MetricSourceType::Object;
    let objects =
        hpa.spec.metrics.iter().filter(is_object).filter_map(|metric| metric.object.as_ref());
    objects.filter_map(|object| {
        ScheduleKey::for_object(&hpa.metadata.namespace, &object.described_object)
    })
}
