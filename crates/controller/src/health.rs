//! Whether the controller is alive and ready.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::metrics::Telemetry;

/// If autoscalers are due and for this long none was taken up or finished, the workers are stuck: every request has a
/// deadline, and a reconcile makes a few of them.
const STUCK_AFTER: Duration = Duration::from_mins(5);

/// What the controller is at.
#[derive(Debug, Default)]
pub(crate) struct Health {
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    is_synced: bool,
    is_stopping: bool,
    /// Since when workers run.
    working: Option<Instant>,
}

/// Why the controller is not alive or not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HealthError {
    /// Autoscalers are due, and nobody takes or finishes any.
    #[error("no autoscaler was taken up or finished for {} s though some are due", .0.as_secs())]
    Stuck(Duration),
    /// The first lists of autoscalers and pods are not complete.
    #[error("the caches are not filled yet")]
    NotSynced,
    /// It was told to stop.
    #[error("shutting down")]
    Stopping,
}

impl Telemetry {
    /// The caches are filled.
    pub fn set_synced(&self) {
        self.health.state.lock().is_synced = true;
    }

    /// Whether workers run. While none do, as in a standby that does not lead, none can be stuck.
    pub fn set_working(&self, working: bool) {
        self.health.state.lock().working = working.then(Instant::now);
    }

    /// The controller was told to stop.
    pub fn set_stopping(&self) {
        self.health.state.lock().is_stopping = true;
    }

    /// Since when workers run.
    pub(crate) fn working_since(&self) -> Option<Instant> {
        self.health.state.lock().working
    }

    /// Whether workers make progress: the answer to a liveness probe.
    pub fn alive(&self) -> Result<(), HealthError> {
        let Some(working) = self.working_since() else { return Ok(()) };
        let stats = self.sources.lock().queue.stats();
        let since = stats.progress.map_or(working, |progress| progress.max(working));
        let idle = Instant::now().saturating_duration_since(since);
        if stats.depth > 0 && idle >= STUCK_AFTER { Err(HealthError::Stuck(idle)) } else { Ok(()) }
    }

    /// Whether the controller can do its work, or take it over at once from another: the answer to a readiness probe.
    pub fn ready(&self) -> Result<(), HealthError> {
        let State { is_synced, is_stopping, .. } = *self.health.state.lock();
        match (is_stopping, is_synced) {
            (true, _) => Err(HealthError::Stopping),
            (false, false) => Err(HealthError::NotSynced),
            (false, true) => Ok(()),
        }
    }
}
