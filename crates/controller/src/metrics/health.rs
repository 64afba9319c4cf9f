//! Liveness and readiness of the controller.

use std::time::Duration;

use tokio::time::Instant;

use super::Telemetry;

/// The time without progress after which the workers count as stuck. A reconcile makes a few
/// requests, each with a timeout, so it ends well within this time.
const STUCK_AFTER: Duration = Duration::from_mins(5);

/// The state that the probes report.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Health {
    is_synced: bool,
    is_stopping: bool,
    /// The time when the workers were started, if they run.
    working_since: Option<Instant>,
    /// The time of the last response to a write request or a metric query.
    last_response: Option<Instant>,
}

/// The reason why a probe fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HealthError {
    #[error(
        "workers stuck: nothing started or finished, and no write or metric query got a response, \
         for {} s while items are due",
        .0.as_secs()
    )]
    Stuck(Duration),
    #[error("caches not synced")]
    NotSynced,
    /// Caches that metrics in this process need. The text names them.
    #[error("metrics in this process: {0}")]
    MetricCachesNotSynced(String),
    #[error("shutting down")]
    Stopping,
}

impl Telemetry {
    /// Reports that the caches are synced: the controller becomes ready.
    pub fn set_synced(&self) {
        self.health.lock().is_synced = true;
    }

    /// Sets whether the workers run. Workers that don't run, as in a standby, can't be stuck.
    pub fn set_working(&self, working: bool) {
        self.health.lock().working_since = working.then(Instant::now);
    }

    /// Reports that the controller is shutting down.
    pub fn set_stopping(&self) {
        self.health.lock().is_stopping = true;
    }

    /// Records a response to a write request or a metric query.
    pub(super) fn record_response(&self) {
        self.health.lock().last_response = Some(Instant::now());
    }

    /// The start of the workers; `None` if they don't run.
    pub(crate) fn working_since(&self) -> Option<Instant> {
        self.health.lock().working_since
    }

    /// Answers a liveness probe. Fails if the workers are stuck: items are due, but for five
    /// minutes, no reconcile started or finished, and no write or metric query got a response.
    /// Workers that don't run, as in a standby, are not stuck.
    pub fn alive(&self) -> Result<(), HealthError> {
        let Health { working_since, last_response, .. } = *self.health.lock();
        let Some(working_since) = working_since else { return Ok(()) };
        let stats = self.sources().queue.stats();
        let progress = [stats.last_progress, last_response].into_iter().flatten();
        let progress = progress.fold(working_since, Instant::max);
        let idle = Instant::now().saturating_duration_since(progress);
        if stats.depth > 0 && idle >= STUCK_AFTER { Err(HealthError::Stuck(idle)) } else { Ok(()) }
    }

    /// Answers a readiness probe. Fails unless the controller reconciles, or can do so as soon as
    /// it becomes the leader.
    pub fn ready(&self) -> Result<(), HealthError> {
        let Health { is_synced, is_stopping, .. } = *self.health.lock();
        if is_stopping {
            return Err(HealthError::Stopping);
        }
        if !is_synced {
            return Err(HealthError::NotSynced);
        }
        let metric_caches = self.metric_caches.lock().clone();
        let unsynced = metric_caches.map(|unsynced| unsynced()).unwrap_or_default();
        if unsynced.is_empty() {
            return Ok(());
        }
        Err(HealthError::MetricCachesNotSynced(unsynced.join("; ")))
    }
}
