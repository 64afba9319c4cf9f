//! Prometheus metrics and health of a controller.
//!
//! A [`Telemetry`] observes reconciles ([`Observer`](crate::reconcile::Observer)) and API requests
//! ([`RequestObserver`](crate::k8s::RequestObserver)). It counts events as they happen.
//! [`Telemetry::render`] reads everything else from the caches and the work queue: no value is
//! stale, and a deleted autoscaler has no series.
//!
//! If kube-controller-manager has a metric, its name, labels and buckets are the same, apart from
//! the label `hpa_group` of the custom API. `docs/metrics.md` lists all metrics.

mod collector;
mod counters;
mod family;
mod health;
mod observed_source;
mod reconciles;
#[cfg(test)]
mod tests;
mod text;

use std::sync::{Arc, atomic::AtomicU64};

use hpa_lease::events::DroppedEvents;
use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus::core::Collector;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{
    cache::{Autoscalers, WatchAges},
    forecast::Forecasts,
    history_store::HistoryHealth,
    key::HpaKey,
    queue::WorkQueue,
    shadow::Summary,
};

pub(crate) use collector::longest_reconcile_age;
use counters::Counters;
use health::Health;
pub use health::HealthError;
pub use observed_source::ObservedSource;
pub use text::CONTENT_TYPE;

/// The build of the binary: the labels of `hpa_build_info`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildInfo {
    pub version: String,
    /// The git commit.
    pub revision: String,
    /// The date of the sources, in RFC 3339.
    pub date: String,
}

impl Default for BuildInfo {
    /// The version of this crate; revision and date are `unknown`.
    fn default() -> Self {
        let unknown = || "unknown".to_owned();
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), revision: unknown(), date: unknown() }
    }
}

/// The options of a [`Telemetry`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TelemetryOptions {
    pub build: BuildInfo,
    /// `--per-hpa-metrics`: up to [`MAX_METRICS_PER_AUTOSCALER`] + 3 series for each autoscaler,
    /// with the proposals of its metrics, its limits and the failure of its last reconcile.
    pub per_autoscaler: bool,
}

/// The maximum number of an autoscaler's metrics with series: the first ones of its spec.
pub const MAX_METRICS_PER_AUTOSCALER: usize = 16;

/// The parts of a running controller that metrics are read from.
#[derive(Clone, Default)]
pub struct TelemetrySources {
    pub autoscalers: Arc<Autoscalers>,
    pub queue: Arc<WorkQueue<HpaKey>>,
    /// The number of times that an object could not be decoded.
    pub undecodable_count: Arc<AtomicU64>,
    pub watch_ages: Arc<WatchAges>,
    pub forecasts: Arc<Forecasts>,
    pub(crate) history: Arc<HistoryHealth>,
}

/// Names the caches that are not synced.
type UnsyncedCaches = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

struct LeaseStatus {
    name: String,
    /// Whether this process holds the lease.
    is_held: bool,
}

/// The metrics and the health of one controller.
#[derive(Default)]
pub struct Telemetry {
    options: TelemetryOptions,
    counters: Counters,
    sources: Mutex<TelemetrySources>,
    dropped_events: Mutex<Arc<DroppedEvents>>,
    /// `None` without leader election.
    lease: Mutex<Option<LeaseStatus>>,
    /// The time since which requests for the lease fail. `None` if they succeed.
    lease_failing_since: Mutex<Option<Instant>>,
    /// Sources of metrics outside the controller, such as queries to Prometheus.
    collectors: Mutex<Vec<Arc<dyn Collector>>>,
    /// The caches of metric sources in this process. `None` without such sources.
    metric_caches: Mutex<Option<UnsyncedCaches>>,
    health: Mutex<Health>,
}

impl Telemetry {
    pub fn new(options: TelemetryOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Attaches the parts of a controller that starts now, in place of those of an earlier one, and
    /// resets the health.
    pub fn attach(&self, sources: TelemetrySources) {
        *self.health.lock() = Health::default();
        self.set_lease_failing_since(None);
        *self.sources.lock() = sources;
    }

    /// The parts of the controller that metrics and the debug API are read from.
    pub(crate) fn sources(&self) -> TelemetrySources {
        self.sources.lock().clone()
    }

    pub(crate) fn build_info(&self) -> &BuildInfo {
        &self.options.build
    }

    /// Returns the name of the lease, and whether this process holds it. Without leader election,
    /// there is no name, and the process counts as the leader.
    pub(crate) fn leadership(&self) -> (Option<String>, bool) {
        let lease = self.lease.lock();
        lease.as_ref().map_or((None, true), |lease| (Some(lease.name.clone()), lease.is_held))
    }

    /// Adds the metrics of a collector to the exposition. Their names must be unique.
    pub fn attach_collector(&self, collector: Arc<dyn Collector>) {
        self.collectors.lock().push(collector);
    }

    /// Adds the caches of metric sources in this process to the readiness probe. `unsynced` names
    /// those that are not synced.
    pub fn attach_metric_caches(&self, unsynced: impl Fn() -> Vec<String> + Send + Sync + 'static) {
        *self.metric_caches.lock() = Some(Arc::new(unsynced));
    }

    /// Exports the numbers of dropped events.
    pub fn attach_events(&self, dropped: Arc<DroppedEvents>) {
        *self.dropped_events.lock() = dropped;
    }

    /// Summarizes the comparisons with the peer.
    pub fn shadow_summary(&self, now: Timestamp) -> Summary {
        let mut autoscalers = self.sources().autoscalers.all();
        autoscalers.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let mut summary = Summary::default();
        for (key, autoscaler) in autoscalers {
            let record = autoscaler.shadow_record.lock();
            summary.add(key, autoscaler.peer_writes.last(), record.as_deref(), now);
        }
        summary
    }

    /// Sets the lease, and whether this process holds it (`leader_election_master_status`).
    pub fn set_leader(&self, lease: &str, is_leader: bool) {
        *self.lease.lock() = Some(LeaseStatus { name: lease.to_owned(), is_held: is_leader });
    }

    /// Sets the time since which requests for the lease fail; `None` if they succeed.
    pub(crate) fn set_lease_failing_since(&self, since: Option<Instant>) {
        *self.lease_failing_since.lock() = since;
    }

    /// Returns all metrics in the Prometheus text format ([`CONTENT_TYPE`]).
    pub fn render(&self) -> String {
        let mut families = self.counters.registry.gather();
        families.extend(self.collect());
        let collectors = self.collectors.lock().clone();
        families.extend(collectors.iter().flat_map(|collector| collector.collect()));
        families.sort_by(|a, b| a.name().cmp(b.name()));
        text::render(&families)
    }
}
