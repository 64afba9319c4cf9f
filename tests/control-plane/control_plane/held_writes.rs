//! Holds scale writes in the control plane while a test changes the object.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use hpa_testbed::{Gate, Release};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::test_env::WAIT_LIMIT;

type WriteSenders = HashMap<String, mpsc::UnboundedSender<Release>>;

/// Sends the release of each arrived write to the holder of its namespace. Clones share the holds.
#[derive(Clone, Default)]
pub(super) struct Holds {
    senders: Arc<Mutex<WriteSenders>>,
}

/// The held writes of one namespace.
pub(crate) struct HeldWrites {
    releases: mpsc::UnboundedReceiver<Release>,
    holds: Holds,
    ns: String,
}

impl Holds {
    fn senders(&self) -> MutexGuard<'_, WriteSenders> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to hold the writes of a namespace.
    pub(super) fn hold(&self, ns: &str) -> HeldWrites {
        let (sender, releases) = mpsc::unbounded_channel();
        self.senders().insert(ns.to_owned(), sender);
        HeldWrites { releases, holds: self.clone(), ns: ns.to_owned() }
    }

    /// Returns the gate for an arrived write, if writes of the namespace are held.
    pub(super) fn gate_for(&self, ns: &str) -> Option<Gate> {
        let (gate, release) = Gate::new();
        self.senders().get(ns)?.send(release).ok()?;
        Some(gate)
    }
}

impl HeldWrites {
    /// Waits for a write. Dropping the result releases it.
    pub(crate) async fn next(&mut self) -> Result<Release> {
        let next = timeout(WAIT_LIMIT, self.releases.recv()).await.context("no scale write")?;
        next.context("another hold of this namespace replaced this one")
    }
}

impl Drop for HeldWrites {
    fn drop(&mut self) {
        self.holds.senders().remove(&self.ns);
    }
}
