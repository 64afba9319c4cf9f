//! The right to use a worker.

use std::{pin::pin, sync::Arc, task::Poll, time::Duration};

use futures::poll;
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// Requests that take longer are slow. Until this time, they occupy a worker.
const SLOW_AFTER: Duration = Duration::from_millis(200);

/// One slot for each worker, `--concurrent-horizontal-pod-autoscaler-syncs`.
#[derive(Clone, Debug)]
pub struct WorkerSlots(Arc<Semaphore>);

impl WorkerSlots {
    pub fn new(workers: usize) -> Self {
        Self(Arc::new(Semaphore::new(workers.min(Semaphore::MAX_PERMITS))))
    }

    /// Waits for a slot. Callers get slots in the order in which they wait.
    pub async fn acquire(&self) -> WorkerSlot {
        WorkerSlot { slots: self.clone(), permit: Mutex::new(self.acquire_permit().await) }
    }

    async fn acquire_permit(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed, so this doesn't fail.
        self.0.clone().acquire_owned().await.ok()
    }
}

/// The slot of a reconcile, which becomes free on drop.
#[derive(Debug)]
pub struct WorkerSlot {
    slots: WorkerSlots,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

impl WorkerSlot {
    /// Waits without occupying the slot, unless `wait` is ready at once. Meanwhile, another
    /// reconcile can use the slot. Afterwards, waits for a free slot.
    pub(super) async fn release_during<F: Future>(&self, wait: F) -> F::Output {
        let mut wait = pin!(wait);
        if let Poll::Ready(output) = poll!(wait.as_mut()) {
            return output;
        }
        *self.permit.lock() = None;
        let output = wait.await;
        let permit = self.slots.acquire_permit().await;
        *self.permit.lock() = permit;
        output
    }

    /// Sends requests, and stops occupying the slot if they are slow. Usually they aren't, so the
    /// number of workers limits the load on the API server.
    pub(super) async fn release_if_slow<F: Future>(&self, requests: F) -> F::Output {
        let mut requests = pin!(requests);
        match timeout(SLOW_AFTER, requests.as_mut()).await {
            Ok(output) => output,
            Err(_) => self.release_during(requests).await,
        }
    }
}
