//! The right to use a worker.

use std::{pin::pin, sync::Arc, task::Poll};

use futures::poll;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One slot for each worker, `--concurrent-horizontal-pod-autoscaler-syncs`.
#[derive(Clone, Debug)]
pub struct WorkerSlots(Arc<Semaphore>);

impl WorkerSlots {
    pub fn new(workers: usize) -> Self {
        Self(Arc::new(Semaphore::new(workers.min(Semaphore::MAX_PERMITS))))
    }

    /// Waits for a slot. Callers get slots in the order in which they wait.
    pub async fn acquire(&self) -> WorkerSlot {
        WorkerSlot { slots: self.clone(), permit: self.permit().await }
    }

    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed, so this doesn't fail.
        self.0.clone().acquire_owned().await.ok()
    }
}

/// The slot of a reconcile. It is free again when this is dropped.
#[derive(Debug)]
pub struct WorkerSlot {
    slots: WorkerSlots,
    permit: Option<OwnedSemaphorePermit>,
}

impl WorkerSlot {
    /// Waits without occupying the slot, unless `wait` is ready at once. Until then,
    /// another reconcile can use it.
    pub(super) async fn release_during<F: Future>(&mut self, wait: F) -> F::Output {
        let mut wait = pin!(wait);
        if let Poll::Ready(output) = poll!(wait.as_mut()) {
            return output;
        }
        self.permit = None;
        let output = wait.await;
        self.permit = self.slots.permit().await;
        output
    }
}
