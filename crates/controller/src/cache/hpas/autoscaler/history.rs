//! The history of an autoscaler in memory.

use hpa_calc::history::{History, Recommendation};
use hpa_lease::Instants;

use super::Autoscaler;

/// A history in memory, and the time of its last update.
#[derive(Debug, Default)]
pub(super) struct HistoryState {
    history: History,
    updated_at: Option<Instants>,
    /// Set when a history is restored, and removed when a reconcile checks it.
    restored: Option<RestoredEnd>,
}

/// The end of a restored history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RestoredEnd {
    /// The target's replicas at the end of the history. `None` if the history may lack its last
    /// part.
    replicas: Option<i32>,
}

impl Autoscaler {
    /// A copy of the history. If the wall clock was set since the last update, the timestamps are
    /// shifted by the step, because windows and periods are elapsed time.
    pub fn history(&self, now: Instants) -> History {
        let stored = self.history.lock();
        let mut history = stored.history.clone();
        if let Some(updated_at) = stored.updated_at {
            history.shift(now.wall_clock_step_since(updated_at));
        }
        history
    }

    /// Stores the history after a decision. A pending check of a restored history stays pending.
    pub fn set_history(&self, mut history: History, now: Instants) {
        // A decision adds a recommendation, which may double the capacity of the list.
        history.recommendations.shrink_to_fit();
        let mut stored = self.history.lock();
        (stored.history, stored.updated_at) = (history, Some(now));
    }

    /// Stores the history that the predecessor left. `replicas` are the target's at the end of the
    /// history; `None` if the history may lack its last part.
    pub fn restore_history(&self, history: History, replicas: Option<i32>, now: Instants) {
        let (updated_at, restored) = (Some(now), Some(RestoredEnd { replicas }));
        *self.history.lock() = HistoryState { history, updated_at, restored };
    }

    /// Compares the end of a restored history with the replicas that the first reconcile reads. If
    /// they differ, or if the history is incomplete, the history doesn't explain these replicas.
    /// Then the replicas become a recommendation, as after a start without a history.
    pub fn check_restored_history(&self, replicas: i32, now: Instants) {
        let mut stored = self.history.lock();
        let restored = stored.restored.take();
        if restored.is_some_and(|restored| restored.replicas != Some(replicas)) {
            stored.history.recommendations.push(Recommendation { replicas, at: now.wall });
        }
    }
}
