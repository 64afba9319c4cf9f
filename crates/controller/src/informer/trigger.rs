//! Reconciles for reasons outside the controller.

use std::sync::{Arc, OnceLock};

use hpa_calc::HorizontalPodAutoscaler;

use super::Informers;

/// Queues autoscalers of a running controller, for example because a metric has changed.
#[derive(Clone, Debug, Default)]
pub struct ReconcileTrigger(Arc<OnceLock<Informers>>);

impl ReconcileTrigger {
    /// Connects a controller. Only the first one counts.
    pub(crate) fn attach(&self, informers: Informers) {
        _ = self.0.set(informers);
    }

    /// Queues the autoscalers that the predicate selects, without those in shadow mode, whose
    /// decisions follow a peer's.
    pub fn reconcile_where(&self, predicate: impl Fn(&HorizontalPodAutoscaler) -> bool) {
        let Some(informers) = self.0.get() else { return };
        for (key, autoscaler) in informers.caches.autoscalers.all() {
            if predicate(&autoscaler.object()) && !informers.is_shadowed(&key) {
                informers.queue.add(key);
            }
        }
    }
}
