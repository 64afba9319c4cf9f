//! Informers: lists and watches that keep the caches up to date.

mod autoscalers;
mod pods;
mod relist_timer;
mod rewind_check;
mod scales;
mod stream;
mod undecodable;
mod watch_client;

use std::{
    fmt::Display,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hpa_calc::HorizontalPodAutoscaler;
use hpa_lease::Clock;
use kube::{Client, core::ApiResource};
use tracing::warn;

pub use scales::ScaleInformers;
#[cfg(fuzzing)]
pub(crate) use scales::differential;

use self::stream::WatchStream;
use crate::{
    cache::{Caches, WatchAge},
    k8s::{CachedKind, FieldManager, PartialObject},
    key::{HpaKey, Scope},
    queue::WorkQueue,
    settings::SettingSource,
};

/// The informers of autoscalers and pods: the caches that they fill, and the work queue to which
/// they add new and changed autoscalers.
#[derive(Clone)]
pub struct Informers {
    pub caches: Caches,
    pub queue: Arc<WorkQueue<HpaKey>>,
    /// The number of times that an object was skipped because it could not be decoded.
    pub undecodable_count: Arc<AtomicU64>,
    pub intervals: WatchIntervals,
    /// The period over which the first reconciles of listed autoscalers are distributed.
    pub sync_period: Duration,
    /// Whether the whole controller is in dry run: it compares its decisions with a peer's, and
    /// writes nothing.
    pub dry_run: bool,
    /// Derives the effective settings of autoscalers.
    pub settings: Arc<SettingSource>,
    /// The field manager of this controller's status writes. A status write by any other one is a
    /// peer's. `None` if it writes none.
    pub field_manager: Option<FieldManager>,
    /// The clock that times in objects are compared with.
    pub clock: Arc<dyn Clock>,
}

impl Informers {
    /// Decodes an object. If that fails, counts the object and logs it as `name`.
    fn decode<K: CachedKind>(&self, name: impl Display, object: PartialObject) -> Option<K> {
        let kind = K::KIND;
        object
            .decode()
            .inspect_err(|error| {
                self.undecodable_count.fetch_add(1, Ordering::Relaxed);
                warn!(%kind, object = %name, %error, "skipping an object that cannot be decoded");
            })
            .ok()
    }

    /// The events of a watch. The watch keeps `age` up to date, and `age` is added to the ages of
    /// all watches.
    fn stream(
        &self,
        name: &str,
        resource: &ApiResource,
        client: &Client,
        scope: &Scope,
        age: Arc<WatchAge>,
    ) -> WatchStream {
        let watch_ages = &self.caches.watch_ages;
        watch_ages.add(name.to_owned(), age.clone());
        WatchStream::new(name, resource, client, scope, self.intervals, age, watch_ages)
    }
}

/// Lets a metric source queue autoscalers of a running controller, for example because a metric has
/// changed.
#[derive(Clone, Default)]
pub struct ReconcileTrigger(Arc<OnceLock<Informers>>);

impl ReconcileTrigger {
    /// Connects a controller. Later calls have no effect.
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

/// The time limits of watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchIntervals {
    /// The delay from missed events, or from a first undecodable object, to the relist. Also the
    /// longest backoff after a failed watch or rewind check.
    pub relist: Duration,
    /// A cached scale is used only if the API server has confirmed its cache within this time.
    pub max_age: Duration,
}

impl WatchIntervals {
    /// The timeout of the requests of one watch: 75 to 90 % of `max_age`, so that the watch resumes
    /// before the cache is too old. It differs between watches, so that they don't resume together.
    pub(super) fn timeout(&self, watch: &impl Hash) -> Duration {
        let mut hasher = DefaultHasher::new();
        watch.hash(&mut hasher);
        let percent = 75 + u32::try_from(hasher.finish() % 16).unwrap_or_default();
        self.max_age * percent / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_differ_and_are_shorter_than_max_age() {
        let max_age = Duration::from_secs(30);
        let intervals = WatchIntervals { relist: Duration::from_secs(7), max_age };
        let timeouts: Vec<_> = (0..100).map(|watch| intervals.timeout(&watch)).collect();
        assert_eq!(timeouts.iter().min(), Some(&Duration::from_millis(22_500)));
        assert_eq!(timeouts.iter().max(), Some(&Duration::from_secs(27)));
    }
}
