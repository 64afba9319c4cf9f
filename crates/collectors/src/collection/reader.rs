//! Reads the values of plans, a bounded number at a time.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::fetch::{Context, FetchError, Fetched, Fetchers};
use crate::plan::Source;
use async_trait::async_trait;
use hpa_calc::api::CrossVersionObjectReference;
use tokio::{sync::Semaphore, time::Instant};

use super::settings::CollectionSettings;
use crate::schedules::source::Now;

/// Reads the values of a plan once.
#[async_trait]
pub trait Fetch: Send + Sync {
    /// Reads the values.
    async fn fetch(&self, source: &Source, context: &Context<'_>) -> Result<Fetched, FetchError>;
}

#[async_trait]
impl Fetch for Fetchers {
    async fn fetch(&self, source: &Source, context: &Context<'_>) -> Result<Fetched, FetchError> {
        Self::fetch(self, source, context).await
    }
}

/// Observes collections, for metrics.
pub trait CollectionObserver: Send + Sync {
    /// A collection ended. It may have failed.
    fn collected(&self, collector: &'static str, duration: Duration, has_failed: bool);

    /// Autoscalers were listed, or could not be listed.
    fn updated(&self, has_failed: bool);
}

/// Ignores everything.
impl CollectionObserver for () {
    fn collected(&self, _: &'static str, _: Duration, _: bool) {}

    fn updated(&self, _: bool) {}
}

/// Reads values within the limits of their collectors, and reports to the observer.
pub(super) struct Reader {
    pub(super) settings: CollectionSettings,
    pub(super) observer: Arc<dyn CollectionObserver>,
    fetchers: Arc<dyn Fetch>,
    now: Now,
    slots: BTreeMap<&'static str, Arc<Semaphore>>,
}

impl Reader {
    pub(super) fn new(
        settings: CollectionSettings,
        fetchers: Arc<dyn Fetch>,
        now: Now,
        observer: Arc<dyn CollectionObserver>,
    ) -> Self {
        let slot = |name: &&'static str| (*name, Arc::new(Semaphore::new(settings.concurrency)));
        let slots = settings.collectors.iter().map(slot).collect();
        Self { settings, observer, fetchers, now, slots }
    }

    /// Reads the values of a plan for an autoscaler. Returns also when it started.
    pub(super) async fn read(
        &self,
        source: &Source,
        namespace: &str,
        target: &CrossVersionObjectReference,
    ) -> (Instant, Result<Fetched, FetchError>) {
        let collector = source.collector();
        let _slot = match self.slots.get(collector) {
            Some(slots) => slots.acquire().await.ok(),
            None => None,
        };
        let start = Instant::now();
        let context = Context { namespace, target, now: (self.now)() };
        let fetched = self.fetchers.fetch(source, &context).await;
        self.observer.collected(collector, start.elapsed(), fetched.is_err());
        (start, fetched)
    }

    #[cfg(test)]
    pub(super) fn free_slots(&self, collector: &str) -> Option<usize> {
        self.slots.get(collector).map(|slots| slots.available_permits())
    }
}
