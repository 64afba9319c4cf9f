//! What the controller tells of itself: Prometheus metrics, and whether it is alive and ready.
//!
//! A [`Telemetry`] is an [`Observer`](crate::reconcile::observer::Observer) of reconciles, and knows the caches and the queue of
//! the controller that runs. What can be counted only as it happens is counted; all else is looked up when
//! [`Telemetry::render`] is called, so that nothing can be stale: an autoscaler that is gone has no series.
//!
//! Names, labels and buckets are those of kube-controller-manager where it has the metric. `docs/metrics.md` lists all.

mod autoscaler;
mod collector;
mod counters;
mod reconciles;
mod requests;
mod samples;
#[cfg(test)]
mod tests;
mod text;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::{
    cache::Autoscalers, events::DroppedEvents, health::Health, key::HpaKey, queue::WorkQueue,
    shadow::Summary,
};

use counters::Counters;
pub use samples::ObservedSource;
pub use text::CONTENT_TYPE;

/// What is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TelemetryOptions {
    /// `--per-hpa-metrics`: for each autoscaler what each metric proposes, what limits it, and whether it fails. At
    /// most [`METRICS_PER_AUTOSCALER`] + 3 series for each.
    pub per_autoscaler: bool,
}

/// How many metrics of one autoscaler have a series of their own; of more, the first.
pub const METRICS_PER_AUTOSCALER: usize = 16;

/// The parts of a running controller that are looked at.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The autoscalers.
    pub autoscalers: Arc<Autoscalers>,
    /// What waits to be reconciled.
    pub queue: Arc<WorkQueue<HpaKey>>,
    /// Objects that could not be decoded.
    pub undecodable: Arc<AtomicU64>,
}

/// The metrics and the health of one controller.
#[derive(Debug)]
pub struct Telemetry {
    options: TelemetryOptions,
    counters: Counters,
    pub(crate) sources: Mutex<Sources>,
    dropped: Mutex<Arc<DroppedEvents>>,
    leading: Mutex<HashMap<String, bool>>,
    pub(crate) health: Health,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self::new(TelemetryOptions::default())
    }
}

impl Telemetry {
    /// Telemetry of a controller that has not begun.
    pub fn new(options: TelemetryOptions) -> Self {
        Self {
            options,
            counters: Counters::default(),
            sources: Mutex::default(),
            dropped: Mutex::default(),
            leading: Mutex::default(),
            health: Health::default(),
        }
    }

    /// Has these caches and this queue looked at from now on.
    pub fn attach(&self, sources: Sources) {
        *self.sources.lock() = sources;
    }

    /// What was compared with another controller's decisions so far.
    pub fn shadow_summary(&self) -> Summary {
        Summary::of(&self.sources.lock().autoscalers)
    }

    /// Has these events counted from now on.
    pub fn attach_events(&self, dropped: Arc<DroppedEvents>) {
        *self.dropped.lock() = dropped;
    }

    /// Tells whether this process holds the lease of that name (`leader_election_master_status`).
    pub fn set_leading(&self, lease: &str, leads: bool) {
        self.leading.lock().insert(lease.to_owned(), leads);
    }

    /// All metrics in Prometheus' text format ([`CONTENT_TYPE`]).
    pub fn render(&self) -> String {
        let mut families = self.counters.gather();
        families.extend(self.looked_up());
        families.sort_by(|a, b| a.name().cmp(b.name()));
        text::render(&families)
    }

    fn undecodable(&self) -> u64 {
        self.sources.lock().undecodable.load(Ordering::Relaxed)
    }
}
