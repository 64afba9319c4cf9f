//! Reads the values of plans, with a concurrency limit.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hpa_calc::api::CrossVersionObjectReference;
use jiff::Timestamp;
use tokio::time::Instant;

use super::CollectionSettings;
use crate::{Clients, Context, FetchError, Plan, Values, schedules::source::Now, slots::Slots};

/// Observes collections, for metrics.
pub trait CollectionObserver: Send + Sync {
    /// Called after each collection.
    fn collected(&self, collector: &'static str, duration: Duration, has_failed: bool);

    /// Called after each list of autoscalers, and after each error of their watch.
    fn updated(&self, has_failed: bool);
}

/// Observes nothing.
impl CollectionObserver for () {
    fn collected(&self, _: &'static str, _: Duration, _: bool) {}

    fn updated(&self, _: bool) {}
}

/// Reads values within the concurrency limits of their collectors, and notifies the observer.
pub(super) struct Reader {
    pub(super) settings: CollectionSettings,
    pub(super) observer: Arc<dyn CollectionObserver>,
    clients: Arc<Clients>,
    now: Now,
    slots: BTreeMap<&'static str, Slots>,
}

impl Reader {
    pub(super) fn new(
        settings: CollectionSettings,
        clients: Arc<Clients>,
        now: Now,
        observer: Arc<dyn CollectionObserver>,
    ) -> Self {
        let slot = |name: &&'static str| (*name, Slots::new(settings.concurrency));
        let slots = settings.collectors.iter().map(slot).collect();
        Self { settings, observer, clients, now, slots }
    }

    pub(super) fn now(&self) -> Timestamp {
        (self.now)()
    }

    /// Reads the values of a plan for an autoscaler. Also returns the start of the read, after the
    /// wait for a slot, by the monotonic and by the system clock.
    pub(super) async fn read(
        &self,
        plan: &Plan,
        namespace: &str,
        target: &CrossVersionObjectReference,
    ) -> (Instant, Timestamp, Result<Values, FetchError>) {
        let _slot = match self.slots.get(plan.name) {
            Some(slots) => slots.acquire(namespace).await,
            None => None,
        };
        let (start, time) = (Instant::now(), self.now());
        let context = Context::new(&self.clients, namespace, target, time);
        let values = plan.read(&context).await;
        self.observer.collected(plan.name, start.elapsed(), values.is_err());
        (start, time, values)
    }

    #[cfg(test)]
    pub(super) fn free_slots(&self, collector: &str) -> Option<usize> {
        self.slots.get(collector).map(Slots::available)
    }
}
