//! Writes of scales that wait in the control plane, so that a test can get between reading and write.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use hpa_testbed::{Gate, Release};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::world::PATIENCE;

type Waiting = HashMap<String, mpsc::UnboundedSender<Release>>;

/// Who waits for the writes of which namespace; a handle.
#[derive(Clone, Default)]
pub(super) struct Holds {
    waiting: Arc<Mutex<Waiting>>,
}

/// The held writes of one namespace.
pub(crate) struct HeldWrites {
    held: mpsc::UnboundedReceiver<Release>,
    holds: Holds,
    ns: String,
}

impl Holds {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the writes of the namespace are to be held.
    pub(super) fn of(&self, ns: &str) -> HeldWrites {
        let (sender, held) = mpsc::unbounded_channel();
        self.waiting().insert(ns.to_owned(), sender);
        HeldWrites { held, holds: self.clone(), ns: ns.to_owned() }
    }

    /// A write has arrived: where it is to wait, if anybody is waiting for it.
    pub(super) fn arrived(&self, ns: &str) -> Option<Gate> {
        let (gate, release) = Gate::new();
        self.waiting().get(ns)?.send(release).ok()?;
        Some(gate)
    }
}

impl HeldWrites {
    /// Waits for a write; it goes on when what is returned is dropped.
    pub(crate) async fn next(&mut self) -> Result<Release> {
        let next = timeout(PATIENCE, self.held.recv()).await.context("no write of the scale")?;
        next.context("another hold of this namespace")
    }
}

impl Drop for HeldWrites {
    fn drop(&mut self) {
        self.holds.waiting().remove(&self.ns);
    }
}
