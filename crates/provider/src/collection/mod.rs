//! Metrics that annotations and selectors of autoscalers ask to be collected.
//!
//! Nothing is polled. A value is collected when it is asked for, and is reused until it is one
//! interval old. A value that can't be renewed is used up to a bounded age.

mod cluster;
mod index;
mod metric;
mod plural;
mod problems;
mod provider;
#[cfg(test)]
mod tests;
mod watch;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use hpa_collectors::{Environment, plan::Source};
use hpa_fetch::{Context, FetchError, Fetched, Fetchers};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

pub use cluster::{KubeCluster, Targets};
pub use problems::CollectorProblem;
pub use provider::CollectionProvider;
pub use watch::AutoscalerGroup;

use self::index::Index;
use crate::{objects::ObjectLister, schedules::Now};

/// Settings of a [`Collection`].
#[derive(Clone, Debug)]
pub struct CollectionSettings {
    /// What decides which metrics can be collected.
    pub environment: Environment,
    /// The collectors that are on, by [`Source::collector`].
    pub collectors: BTreeSet<&'static str>,
    /// How old a value may be that can't be renewed. By default, two intervals of the metric.
    pub max_age: Option<Duration>,
    /// How many collections of each collector run at a time.
    pub concurrency: usize,
}

impl Default for CollectionSettings {
    /// Documents of pods and of endpoints.
    fn default() -> Self {
        Self {
            environment: Environment::default(),
            collectors: ["pods", "http"].into(),
            max_age: None,
            concurrency: 32,
        }
    }
}

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

/// Is told of collections, for metrics.
pub trait CollectionObserver: Send + Sync {
    /// A collection ended. It may have failed.
    fn collected(&self, collector: &'static str, duration: Duration, has_failed: bool);

    /// Autoscalers were listed, or could not be listed.
    fn updated(&self, has_failed: bool);
}

/// Nobody is told.
impl CollectionObserver for () {
    fn collected(&self, _: &'static str, _: Duration, _: bool) {}

    fn updated(&self, _: bool) {}
}

/// The metrics of one collector.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CollectorStatus {
    /// Metrics that can be collected.
    pub metrics: usize,
    /// Metrics that have a value that is young enough.
    pub values: usize,
    /// The age of the oldest of them.
    pub oldest: Option<Duration>,
}

/// Collects values when they are asked for.
pub struct Collection {
    settings: CollectionSettings,
    fetchers: Arc<dyn Fetch>,
    /// Selects pods.
    objects: Arc<dyn ObjectLister>,
    targets: Arc<dyn Targets>,
    now: Now,
    observer: Arc<dyn CollectionObserver>,
    index: Mutex<Index>,
    /// Problems of autoscalers have changed.
    problems_changed: Notify,
    slots: BTreeMap<&'static str, Arc<Semaphore>>,
}

impl Collection {
    /// Has no metrics until [`Self::watch`] has read the autoscalers.
    pub fn new(
        settings: CollectionSettings,
        fetchers: Arc<dyn Fetch>,
        objects: Arc<dyn ObjectLister>,
        targets: Arc<dyn Targets>,
        now: Now,
        observer: Arc<dyn CollectionObserver>,
    ) -> Self {
        let slot = |name: &&'static str| (*name, Arc::new(Semaphore::new(settings.concurrency)));
        let slots = settings.collectors.iter().map(slot).collect();
        Self {
            settings,
            fetchers,
            objects,
            targets,
            now,
            observer,
            index: Mutex::default(),
            problems_changed: Notify::new(),
            slots,
        }
    }

    /// The state of each collector that is on.
    pub fn status(&self) -> BTreeMap<&'static str, CollectorStatus> {
        let mut all: BTreeMap<_, CollectorStatus> = self
            .settings
            .collectors
            .iter()
            .map(|name| (*name, CollectorStatus::default()))
            .collect();
        for metric in self.index.lock().metrics() {
            let Some(status) = all.get_mut(metric.collector()) else { continue };
            status.metrics += 1;
            if let Some(age) = metric.age(self) {
                status.values += 1;
                status.oldest = status.oldest.max(Some(age));
            }
        }
        all
    }

    fn now(&self) -> Timestamp {
        (self.now)()
    }
}
