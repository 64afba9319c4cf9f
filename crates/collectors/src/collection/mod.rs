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
mod reader;
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
pub use problems::CollectorProblem;
pub use provider::CollectionProvider;
pub use reader::CollectionObserver;
pub use watch::AutoscalerGroup;

use self::{
    index::{AutoscalerKey, Entry, Index},
    reader::Reader,
};
use crate::{Clients, Environment, schedules::source::Now};

/// Settings of a [`Collection`].
#[derive(Clone, Debug)]
pub struct CollectionSettings {
    pub environment: Environment,
    /// The collectors that are on, by [`Registration::name`](crate::registry::Registration::name).
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
    reader: Arc<Reader>,
    /// Selects pods.
    objects: Arc<dyn ObjectLister>,
    targets: Arc<dyn Targets>,
    index: Mutex<Index>,
    /// Problems of autoscalers have changed.
    problems_changed: Notify,
    /// Of the autoscalers of all APIs.
    state: SyncState,
}

impl Collection {
    /// Has no metrics until [`Self::watch`] has read the autoscalers.
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
            state: SyncState::default(),
        }
    }

    /// The state of each collector that is on.
    pub fn status(&self) -> BTreeMap<&'static str, CollectorStatus> {
        let settings = &self.reader.settings;
        let mut all: BTreeMap<_, CollectorStatus> =
            settings.collectors.iter().map(|name| (*name, CollectorStatus::default())).collect();
        for metric in self.index.lock().metrics() {
            let Some(status) = all.get_mut(metric.collector()) else { continue };
            status.metrics += 1;
            if let Some(age) = metric.age(&self.reader) {
                status.values += 1;
                status.oldest = status.oldest.max(Some(age));
            }
        }
        all
    }

    /// Waits until the first lists of autoscalers have ended. [`Self::watch`] must run.
    pub async fn listed(&self) {
        self.state.first_outcome().await;
    }

    /// The problems of all autoscalers now.
    pub fn problems(&self) -> Vec<CollectorProblem> {
        self.index.lock().problems()
    }

    /// Waits until the problems of an autoscaler change. For one caller at a time.
    pub async fn problems_changed(&self) {
        self.problems_changed.notified().await;
    }

    /// Adds or updates an autoscaler with all its annotations. Values of metrics that it still has
    /// remain.
    fn apply(&self, key: AutoscalerKey, hpa: &HorizontalPodAutoscaler) {
        let known = self.index.lock().metrics_of(&key);
        let entry = Entry::new(&key, hpa, &known, &self.reader.settings);
        if self.index.lock().insert(key, entry) {
            self.problems_changed.notify_one();
        }
    }

    /// Removes an autoscaler with its values.
    fn remove(&self, key: &AutoscalerKey) {
        self.index.lock().remove(key);
    }

    /// Removes the autoscalers of an API group that a list doesn't have.
    fn finish_list(&self, group: &str, listed: &BTreeSet<AutoscalerKey>) {
        self.index.lock().finish_list(group, listed);
    }
}
