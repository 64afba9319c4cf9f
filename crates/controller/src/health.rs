//! Liveness and readiness of the controller.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{key::HpaKey, queue::WorkQueue};

/// The time without progress after which the workers count as stuck. A reconcile makes a few
/// requests, each with a timeout, so it ends well within this time.
const STUCK_AFTER: Duration = Duration::from_mins(5);

/// The state that the probes report.
#[derive(Debug, Default)]
pub(crate) struct Health {
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
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
        "workers stuck: nothing started or finished, and no request got a response, for {} s \
         while items are due",
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

impl Health {
    pub(crate) fn set_synced(&self) {
        self.state.lock().is_synced = true;
    }

    pub(crate) fn set_working(&self, working: bool) {
        self.state.lock().working_since = working.then(Instant::now);
    }

    /// Resets the state, because another controller starts with the same telemetry.
    pub(crate) fn reset(&self) {
        *self.state.lock() = State::default();
    }

    pub(crate) fn set_stopping(&self) {
        self.state.lock().is_stopping = true;
    }

    /// Records a response to a write request or a metric query.
    pub(crate) fn record_response(&self) {
        self.state.lock().last_response = Some(Instant::now());
    }

    pub(crate) fn working_since(&self) -> Option<Instant> {
        self.state.lock().working_since
    }

    /// Fails if the workers are stuck. They are not if they start or finish reconciles, if requests
    /// get responses, if nothing is due, or if they don't run, as in a standby.
    pub(crate) fn alive(&self, queue: &WorkQueue<HpaKey>) -> Result<(), HealthError> {
        let State { working_since, last_response, .. } = *self.state.lock();
        let Some(working_since) = working_since else { return Ok(()) };
        let stats = queue.stats();
        let progress =
            working_since.max(stats.last_progress.max(last_response).unwrap_or(working_since));
        let idle = Instant::now().saturating_duration_since(progress);
        if stats.depth > 0 && idle >= STUCK_AFTER { Err(HealthError::Stuck(idle)) } else { Ok(()) }
    }

    /// Fails unless the controller reconciles, or can do so as soon as it becomes the leader.
    pub(crate) fn ready(&self) -> Result<(), HealthError> {
        let State { is_synced, is_stopping, .. } = *self.state.lock();
        match (is_stopping, is_synced) {
            (true, _) => Err(HealthError::Stopping),
            (false, false) => Err(HealthError::NotSynced),
            (false, true) => Ok(()),
        }
    }
}
