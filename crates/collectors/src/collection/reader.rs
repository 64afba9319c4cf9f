//! Reads the values of plans, with a concurrency limit.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hpa_calc::api::CrossVersionObjectReference;
use hpa_metrics::FairSemaphore;
use jiff::Timestamp;
use tokio::time::Instant;

use super::CollectionSettings;
use crate::{Clients, CollectorPlan, Context, FetchError, Values, schedules::source::Now};

/// Observes collections and watches, for the metrics that the process exports. The default methods
/// do nothing.
pub trait CollectionObserver: Send + Sync {
    /// Called after each successful collection.
    fn collection_succeeded(&self, _collector: &'static str, _duration: Duration) {}

    /// Called after each failed collection. If the collector panicked, the duration includes the
    /// wait for a permit.
    fn collection_failed(&self, _collector: &'static str, _duration: Duration) {}

    /// Called after each complete list of autoscalers.
    fn watch_succeeded(&self) {}

    /// Called after each error of a watch of autoscalers, except that the API isn't installed.
    fn watch_failed(&self) {}
}

/// Reads values within the concurrency limits of their collectors, and notifies the observer.
pub(super) struct Reader {
    pub(super) settings: CollectionSettings,
    pub(super) observer: Arc<dyn CollectionObserver>,
    clients: Arc<Clients>,
    now: Now,
    semaphores: BTreeMap<&'static str, FairSemaphore>,
}

impl Reader {
    pub(super) fn new(
        settings: CollectionSettings,
        clients: Arc<Clients>,
        now: Now,
        observer: Arc<dyn CollectionObserver>,
    ) -> Self {
        let semaphore = |name: &&'static str| (*name, FairSemaphore::new(settings.concurrency));
        let semaphores = settings.collectors.iter().map(semaphore).collect();
        Self { settings, observer, clients, now, semaphores }
    }

    pub(super) fn now(&self) -> Timestamp {
        (self.now)()
    }

    /// Waits for a permit, then reads the values of a plan for an autoscaler. Also returns the
    /// start of the read, by the monotonic clock and by the wall clock.
    pub(super) async fn read(
        &self,
        plan: &CollectorPlan,
        namespace: &str,
        target: &CrossVersionObjectReference,
    ) -> (Instant, Timestamp, Result<Values, FetchError>) {
        let _permit = match self.semaphores.get(plan.name) {
            Some(semaphore) => semaphore.acquire(namespace).await,
            None => None,
        };
        let (start, time) = (Instant::now(), self.now());
        let context = Context::new(&self.clients, namespace, target, time);
        let values = plan.read(&context).await;
        let duration = start.elapsed();
        match &values {
            Ok(_) => self.observer.collection_succeeded(plan.name, duration),
            Err(_) => self.observer.collection_failed(plan.name, duration),
        }
        (start, time, values)
    }

    /// The context of a read for an autoscaler that starts now.
    pub(super) fn context<'c>(
        &'c self,
        namespace: &'c str,
        target: &'c CrossVersionObjectReference,
    ) -> Context<'c> {
        Context::new(&self.clients, namespace, target, self.now())
    }

    #[cfg(test)]
    pub(super) fn free_permits(&self, collector: &str) -> usize {
        let semaphore = self.semaphores.get(collector);
        // Each in another namespace, because one gets at most half.
        let take = |namespace: usize| semaphore?.try_acquire(&namespace.to_string());
        let permits: Vec<_> = (0..).map_while(take).collect();
        permits.len()
    }
}
