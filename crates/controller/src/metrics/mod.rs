//! Prometheus metrics and health of a controller.
//!
//! A [`Telemetry`] observes reconciles ([`Observer`](crate::reconcile::Observer)) and API requests
//! ([`RequestObserver`](crate::k8s::RequestObserver)). It counts what happens; everything else it
//! reads from the caches and the work queue when [`Telemetry::render`] is called, so that no value
//! is stale and a deleted autoscaler has no series.
//!
//! If kube-controller-manager has a metric, its name, labels and buckets are the same.
//! `docs/metrics.md` lists all metrics.

mod collector;
mod counters;
mod family;
mod reconciles;
mod samples;
#[cfg(test)]
mod tests;
mod text;

use std::{
    fmt,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use hashbrown::HashMap;
use hpa_lease::events::DroppedEvents;
use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus::core::Collector;
use tokio::time::Instant;

use crate::{
    cache::{Autoscalers, WatchAges},
    forecast::Forecasts,
    health::{Health, HealthError},
    history_store::HistoryHealth,
    key::HpaKey,
    queue::WorkQueue,
    shadow::{ShadowRecords, Summary},
};

use counters::Counters;
pub use samples::ObservedSource;
pub use text::CONTENT_TYPE;

/// What `hpa_build_info` says of the binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildInfo {
    pub version: String,
    /// The git commit.
    pub revision: String,
    /// The date of the sources, as RFC 3339.
    pub date: String,
}

impl Default for BuildInfo {
    /// The version of this crate, and `unknown` for the rest.
    fn default() -> Self {
        let unknown = || "unknown".to_owned();
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), revision: unknown(), date: unknown() }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TelemetryOptions {
    pub build: BuildInfo,
    /// `--per-hpa-metrics`: series for each autoscaler with the proposal of each metric, the limits
    /// and the failure of its last reconcile; at most [`METRICS_PER_AUTOSCALER`] + 3 per
    /// autoscaler.
    pub per_autoscaler: bool,
}

/// How many metrics of one autoscaler have a series: the first ones of its spec.
pub const METRICS_PER_AUTOSCALER: usize = 16;

/// The parts of a running controller that metrics are read from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub autoscalers: Arc<Autoscalers>,
    pub queue: Arc<WorkQueue<HpaKey>>,
    /// How many objects could not be decoded.
    pub undecodable: Arc<AtomicU64>,
    pub shadow: Arc<ShadowRecords>,
    pub watch_ages: Arc<WatchAges>,
    pub forecasts: Arc<Forecasts>,
}

/// The metrics and the health of one controller.
pub struct Telemetry {
    options: TelemetryOptions,
    counters: Counters,
    sources: Mutex<Sources>,
    dropped_events: Mutex<Arc<DroppedEvents>>,
    history: Mutex<Arc<HistoryHealth>>,
    /// By the name of the lease.
    leader: Mutex<HashMap<String, bool>>,
    /// Metrics of others.
    collectors: Mutex<Vec<Arc<dyn Collector>>>,
    health: Health,
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        Self::new(TelemetryOptions::default())
    }
}

impl Telemetry {
    pub fn new(options: TelemetryOptions) -> Self {
        Self {
            options,
            counters: Counters::default(),
            sources: Mutex::default(),
            dropped_events: Mutex::default(),
            history: Mutex::default(),
            leader: Mutex::default(),
            collectors: Mutex::default(),
            health: Health::default(),
        }
    }

    /// A controller starts, after the previous one if there was one.
    pub fn attach(&self, sources: Sources) {
        self.health.reset();
        *self.sources.lock() = sources;
    }

    /// The parts of the controller that documents of the debug API are read from.
    pub(crate) fn sources(&self) -> Sources {
        self.sources.lock().clone()
    }

    pub(crate) fn build_info(&self) -> &BuildInfo {
        &self.options.build
    }

    /// The name of the lease, and whether this process holds it. Without leader election, there is
    /// no name, and the process counts as the leader.
    pub(crate) fn leadership(&self) -> (Option<String>, bool) {
        let leader = self.leader.lock();
        let first = leader.iter().next();
        first.map_or((None, true), |(name, is_leader)| (Some(name.clone()), *is_leader))
    }

    /// When the workers were started, if they run.
    pub(crate) fn working_since(&self) -> Option<Instant> {
        self.health.working_since()
    }

    /// How long writes of histories have been failing.
    pub(crate) fn history_unsaved(&self) -> Duration {
        self.history.lock().unsaved_for().unwrap_or_default()
    }

    /// Exports the metrics of a collector, too. Their names must not be those of other metrics.
    pub fn attach_collector(&self, collector: Arc<dyn Collector>) {
        self.collectors.lock().push(collector);
    }

    pub fn attach_events(&self, dropped: Arc<DroppedEvents>) {
        *self.dropped_events.lock() = dropped;
    }

    pub(crate) fn attach_history(&self, history: Arc<HistoryHealth>) {
        *self.history.lock() = history;
    }

    /// The comparisons with the peer until now.
    pub fn shadow_summary(&self, now: Timestamp) -> Summary {
        let sources = self.sources.lock().clone();
        Summary::new(&sources.autoscalers, &sources.shadow, now)
    }

    /// Sets whether this process holds the lease of that name (`leader_election_master_status`).
    pub fn set_leader(&self, lease: &str, is_leader: bool) {
        self.leader.lock().insert(lease.to_owned(), is_leader);
    }

    /// The caches are synced.
    pub fn set_synced(&self) {
        self.health.set_synced();
    }

    /// Sets whether the workers run. Workers that don't run, as in a standby, can't be stuck.
    pub fn set_working(&self, working: bool) {
        self.health.set_working(working);
    }

    /// The controller is shutting down.
    pub fn set_stopping(&self) {
        self.health.set_stopping();
    }

    /// The result of a liveness probe.
    pub fn alive(&self) -> Result<(), HealthError> {
        let queue = self.sources.lock().queue.clone();
        self.health.alive(&queue)
    }

    /// The result of a readiness probe. A standby is ready too.
    pub fn ready(&self) -> Result<(), HealthError> {
        self.health.ready()
    }

    /// All metrics in the Prometheus text format ([`CONTENT_TYPE`]).
    pub fn render(&self) -> String {
        let mut families = self.counters.gather();
        families.extend(self.collect());
        let collectors = self.collectors.lock().clone();
        families.extend(collectors.iter().flat_map(|collector| collector.collect()));
        families.sort_by(|a, b| a.name().cmp(b.name()));
        text::render(&families)
    }
}
