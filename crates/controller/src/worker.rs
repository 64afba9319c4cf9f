//! The workers: each takes autoscalers from the work queue and reconciles them, one at a time.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use tokio::time::Instant;
use tracing::error;

use crate::{
    cache::NextDue, key::HpaKey, metrics::Telemetry, queue::WorkQueue, reconcile::Reconciler, trace,
};

pub(crate) struct Worker {
    pub(crate) queue: Arc<WorkQueue<HpaKey>>,
    pub(crate) reconciler: Arc<Reconciler>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) sync_period: Duration,
}

impl Worker {
    /// Reconciles until the queue is shut down.
    pub(crate) async fn run(self) {
        let Self { queue, reconciler, telemetry, sync_period } = self;
        while let Some(item) = queue.get().await {
            let started = Instant::now();
            // The next due time counts from when the key was due, so that a slow reconcile does not
            // delay the next ones.
            let due = started - item.lateness();
            let key = item.key().clone();
            telemetry.dequeued(&key, item.lateness(), sync_period);
            // A panic on one autoscaler must not stop the others.
            if AssertUnwindSafe(reconciler.reconcile(&key)).catch_unwind().await.is_err() {
                let _span = trace::reconcile(&key).entered();
                error!("reconcile panicked; retrying at the next sync");
            }
            if let Some(autoscaler) = reconciler.autoscalers.get(&key) {
                let next = match autoscaler.next_due(due, sync_period) {
                    NextDue::Early(next) => next,
                    NextDue::Periodic(next) => {
                        telemetry.scheduled(&key, next);
                        next
                    }
                };
                queue.add_after(key, next.saturating_duration_since(Instant::now()));
            } else {
                // Deleted during the reconcile, which may have registered its selector again.
                reconciler.selectors.remove(&key);
            }
            telemetry.processed(started.elapsed());
            item.done();
        }
    }
}
