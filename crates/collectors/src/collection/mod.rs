//! Collects the metrics that annotations and selectors of autoscalers describe.
//!
//! Values are collected on request and reused for almost one interval. If a collection fails, the
//! previous value is used up to a maximum age.

mod cluster;
mod index;
mod metric;
mod metric_source;
mod problems;
mod reader;
mod resource_kind;
#[cfg(test)]
mod tests;
mod watch;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use hpa_calc::HorizontalPodAutoscaler;
use hpa_metrics::{ObjectLister, SyncState};
use parking_lot::Mutex;
use tokio::sync::Notify;

pub use cluster::{KubeCluster, Targets};
pub use metric_source::CollectionSource;
pub use problems::CollectorProblem;
pub use reader::CollectionObserver;

use self::{
    index::{AutoscalerKey, Entry, Index},
    reader::Reader,
};
use crate::{Clients, Environment, schedules::source::Now};

/// The operator's settings for collections.
#[derive(Clone, Debug)]
pub struct CollectionSettings {
    pub environment: Environment,
    /// The enabled collectors, by [`Registration::name`](crate::registry::Registration::name).
    pub collectors: BTreeSet<&'static str>,
    /// The maximum age of a value. A value becomes that old only if collections fail or are slow.
    /// By default, two intervals of the metric.
    pub max_age: Option<Duration>,
    /// The maximum number of concurrent collections per collector. One namespace gets at most half
    /// of them, rounded up.
    pub concurrency: usize,
}

impl Default for CollectionSettings {
    /// Enables the collectors that read JSON documents of pods and of HTTP endpoints.
    fn default() -> Self {
        Self {
            environment: Environment::default(),
            collectors: ["pods", "http"].into(),
            max_age: None,
            concurrency: 32,
        }
    }
}

/// The number of metrics and values of one collector.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CollectorStatus {
    pub metric_count: usize,
    /// The number of metrics with a value that hasn't expired.
    pub value_count: usize,
    /// The age of the oldest such value.
    pub oldest_age: Option<Duration>,
}

/// The metrics of all autoscalers, collected on request.
pub struct CollectedMetrics {
    reader: Arc<Reader>,
    /// Lists the names of pods by selector.
    objects: Arc<dyn ObjectLister>,
    targets: Arc<dyn Targets>,
    index: Mutex<Index>,
    /// Notified when the problems of an autoscaler change, but not when it is deleted.
    problems_changed: Notify,
    /// Synced after the first lists of the autoscalers of all APIs.
    sync_state: SyncState,
}

impl CollectedMetrics {
    /// Without metrics. [`Self::watch`] adds those of the autoscalers.
    pub fn new(
        settings: CollectionSettings,
        clients: Arc<Clients>,
        objects: Arc<dyn ObjectLister>,
        targets: Arc<dyn Targets>,
        now: Now,
        observer: Arc<dyn CollectionObserver>,
    ) -> Self {
        Self {
            reader: Arc::new(Reader::new(settings, clients, now, observer)),
            objects,
            targets,
            index: Mutex::default(),
            problems_changed: Notify::new(),
            sync_state: SyncState::default(),
        }
    }

    /// The status of each enabled collector.
    pub fn status(&self) -> BTreeMap<&'static str, CollectorStatus> {
        let settings = &self.reader.settings;
        let mut all: BTreeMap<_, CollectorStatus> =
            settings.collectors.iter().map(|name| (*name, CollectorStatus::default())).collect();
        for metric in self.index.lock().metrics() {
            let Some(status) = all.get_mut(metric.collector()) else { continue };
            status.metric_count += 1;
            if let Some(age) = metric.age(&self.reader) {
                status.value_count += 1;
                status.oldest_age = status.oldest_age.max(Some(age));
            }
        }
        all
    }

    /// Waits until all first lists of autoscalers are complete, or one of them has failed.
    /// [`Self::watch`] must run.
    pub async fn wait_for_first_list(&self) {
        self.sync_state.wait_for_first_outcome().await;
    }

    /// The current problems of all autoscalers.
    pub fn problems(&self) -> Vec<CollectorProblem> {
        self.index.lock().problems()
    }

    /// Waits until the problems of an autoscaler change, except by its deletion. Only one caller
    /// may wait.
    pub async fn wait_for_problem_change(&self) {
        self.problems_changed.notified().await;
    }

    /// Adds or replaces an autoscaler. Unchanged metrics keep their values.
    fn apply(&self, key: AutoscalerKey, hpa: &HorizontalPodAutoscaler) {
        let context = self.index.lock().entry_context(&key);
        let entry = Entry::new(&key, hpa, &context, &self.reader.settings);
        if self.index.lock().insert(key, entry) {
            self.problems_changed.notify_one();
        }
    }

    /// Removes an autoscaler with its values.
    fn remove(&self, key: &AutoscalerKey) {
        self.index.lock().remove(key);
    }

    /// Removes the autoscalers of an API group that are not in `listed`.
    fn remove_unlisted(&self, group: &str, listed: &BTreeSet<AutoscalerKey>) {
        self.index.lock().remove_unlisted(group, listed);
    }
}
