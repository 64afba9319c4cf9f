//! Requests shared between autoscalers.

mod shards;
mod sharing;
mod single_flight;
#[cfg(test)]
mod tests;
mod whole;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use hpa_calc::{
    MilliValue,
    api::{CrossVersionObjectReference, ResourceName},
    readings::{MetricsApi, PodSamples, ReadError},
    selector::Selector,
};

use crate::{
    FetchError, MetricsClient, MetricsSource,
    wire::{self, ExternalMetricValue, MetricValue, PodMetrics},
};
use sharing::Sharing;
pub(crate) use single_flight::SingleFlight;
use whole::PodList;

/// How far requests are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoalescingSettings {
    /// For how long after the start of a request its answer is given to others who ask the same. Zero: only while
    /// the request is under way.
    pub freshness: Duration,
    /// For how long a selector that was asked for counts as in use.
    pub window: Duration,
    /// With how many selectors in use a namespace's whole list is considered; `usize::MAX` for never.
    pub threshold: usize,
}

impl CoalescingSettings {
    /// The settings for a controller that asks every `period`: an answer is fresh for a fifteenth of it (1 s at the
    /// default of 15 s), a selector in use for two of them, and two selectors may share a list.
    pub fn for_sync_period(period: Duration) -> Self {
        Self { freshness: period / 15, window: period * 2, threshold: 2 }
    }

    /// For how long a list of this many items is fresh: a long one for up to five times as long, a third of the sync
    /// period.
    fn freshness_of(&self, items: usize) -> Duration {
        let times = (items / ITEMS_OF_A_SHORT_LIST).clamp(1, 5);
        self.freshness.saturating_mul(u32::try_from(times).unwrap_or(1))
    }
}

/// With more items a list is a long one.
const ITEMS_OF_A_SHORT_LIST: usize = 2000;

/// A [`MetricsClient`] that asks a [`MetricsSource`] as little as it can.
///
/// # Same question, one request
///
/// Whoever asks what is being asked already waits for the same answer; an answer is also given to those who ask
/// within [`CoalescingSettings::freshness`] of its request. It is parsed once. Errors go to those who wait, and no
/// further. The resources and containers of a pod are one answer: an autoscaler on cpu and memory asks once.
///
/// Decisions stay the same: each sample carries its own time and window, which the engine goes by, and an autoscaler
/// that is given an answer up to `freshness` old decides as if its turn had come that much earlier, which the
/// reference leaves to chance (metrics-server takes samples every 15 s by default). Since an autoscaler asks once
/// per sync period, of which the freshness is a small part, it is never given the same answer in two syncs unless
/// its spec changes in between. A list of thousands of pods costs much more than its age matters: it is fresh for up to
/// five times as long, a third of the period.
///
/// # One list for a namespace
///
/// Resource metrics of different selectors can be cut from the list of the whole namespace, since its items carry
/// the labels of their pods. That is done if it would have been cheaper over the last window, with the last question
/// of every selector, counted in items:
///
/// - apart: `selectors × 100 + items matched`,
/// - together: `bursts × (100 + items of the namespace) + selectors`,
///
/// where a burst is as many questions as one list can answer, all within its freshness of the first, and 100 stands for
/// what a request costs beside its items. So it pays where autoscalers of a namespace sync together, and not where a few
/// are spread over the period or cover a corner of a large namespace. The size of the namespace is learned from the first
/// shared list, and looked at again every 8 windows. A list is grouped by labels once, so that what an autoscaler takes
/// from it costs no more than its own pods.
///
/// If no item of the list has labels (old servers do not copy them), or the list cannot be read at all or is too
/// large, selectors are asked one by one, at once and for the next 8 windows. If the request failed otherwise, that
/// is the answer, without a second request, and the next ones are asked one by one.
///
/// Metrics of custom.metrics.k8s.io are not shared across selectors: their items carry no labels of the pod.
///
/// # State
///
/// Answers live for `freshness` and at most a second more while anybody asks; what is known of a namespace as
/// long as its selectors are in use. No lock is held across an await, and none is shared by all namespaces.
pub struct Coalescing<S> {
    source: Arc<S>,
    sharing: Sharing,
    pod_metrics: SingleFlight<PodsKey, PodList>,
    pod_values: SingleFlight<(PodsKey, MetricKey), Vec<MetricValue>>,
    object_values: SingleFlight<(ObjectKey, MetricKey), Vec<MetricValue>>,
    external_values: SingleFlight<(Box<str>, MetricKey), Vec<ExternalMetricValue>>,
}

/// The pods of a selector in a namespace.
type PodsKey = (Box<str>, Selector);
/// The series of a metric.
type MetricKey = (Box<str>, Selector);
/// An object in a namespace: its API version, kind and name.
type ObjectKey = (Box<str>, [Box<str>; 3]);

impl<S: MetricsSource> Coalescing<S> {
    /// A client that asks `source`.
    pub fn new(source: S, settings: CoalescingSettings) -> Self {
        let freshness = settings.freshness;
        Self {
            source: Arc::new(source),
            sharing: Sharing::new(settings),
            pod_metrics: SingleFlight::with_freshness(freshness, move |list: &PodList| {
                settings.freshness_of(list.items.len())
            }),
            pod_values: SingleFlight::new(freshness),
            object_values: SingleFlight::new(freshness),
            external_values: SingleFlight::new(freshness),
        }
    }

    /// Reduces the items of the selected pods, cut from a shared list if that is cheaper.
    async fn resource_samples(
        &self,
        namespace: &str,
        pods: &Selector,
        reduce: impl Fn(&mut dyn Iterator<Item = &PodMetrics>) -> Result<PodSamples, ReadError> + Sync,
    ) -> Result<Result<PodSamples, ReadError>, FetchError> {
        if self.sharing.ask(namespace, pods)
            && let Some(list) = self.whole_list(namespace).await?
        {
            let selected = list.select(pods);
            self.sharing.matched(namespace, pods, selected.len());
            return Ok(reduce(&mut selected.into_iter()));
        }
        let list = self.list(namespace, pods).await?;
        self.sharing.matched(namespace, pods, list.items.len());
        Ok(reduce(&mut list.items.iter()))
    }

    /// The items of all pods of a namespace; `None` if selectors cannot be cut from them.
    async fn whole_list(&self, namespace: &str) -> Result<Option<Arc<PodList>>, FetchError> {
        match self.list(namespace, &Selector::everything()).await {
            Ok(list) if list.can_be_cut() => {
                self.sharing.whole(namespace, list.items.len());
                Ok(Some(list))
            }
            Ok(_) => {
                self.sharing.bar(namespace);
                Ok(None)
            }
            Err(error) => {
                self.sharing.bar(namespace);
                if error.is_of_answer() { Ok(None) } else { Err(error) }
            }
        }
    }

    async fn list(&self, namespace: &str, pods: &Selector) -> Result<Arc<PodList>, FetchError> {
        let source = Arc::clone(&self.source);
        let fetch = |(namespace, pods): PodsKey| async move {
            let items = source.pod_metrics(&namespace, &pods).await?;
            let is_whole = pods.is_empty();
            Ok(if is_whole { PodList::of_namespace(items) } else { PodList::of_selector(items) })
        };
        self.pod_metrics.get((namespace.into(), pods.clone()), fetch).await
    }
}

#[async_trait]
impl<S: MetricsSource> MetricsClient for Coalescing<S> {
    async fn resource(
        &self,
        namespace: &str,
        pods: &Selector,
        resource: &ResourceName,
        container: Option<&str>,
    ) -> Result<PodSamples, ReadError> {
        let everything = Selector::everything();
        // Both are sent as the empty string; cut from a list they would differ.
        let pods = if pods.is_nothing() { &everything } else { pods };
        self.resource_samples(namespace, pods, |items| {
            wire::resource_samples(items, resource, container)
        })
        .await
        .map_err(|error| error.into_read_error(MetricsApi::Resource))?
    }

    async fn pods(
        &self,
        namespace: &str,
        pods: &Selector,
        metric: &str,
        metric_selector: &Selector,
    ) -> Result<PodSamples, ReadError> {
        let source = Arc::clone(&self.source);
        let key = ((namespace.into(), pods.clone()), (metric.into(), metric_selector.clone()));
        let fetch = |((namespace, pods), (metric, series)): (PodsKey, MetricKey)| async move {
            source.pod_values(&namespace, &pods, &metric, &series).await
        };
        let items = self.pod_values.get(key, fetch).await;
        wire::pod_samples(&*items.map_err(|error| error.into_read_error(MetricsApi::Custom))?)
    }

    async fn object(
        &self,
        namespace: &str,
        object: &CrossVersionObjectReference,
        metric: &str,
        metric_selector: &Selector,
    ) -> Result<MilliValue, ReadError> {
        let source = Arc::clone(&self.source);
        let names =
            [&object.api_version, &object.kind, &object.name].map(|name| name.as_str().into());
        let key = ((namespace.into(), names), (metric.into(), metric_selector.clone()));
        let object = object.clone();
        let fetch = |((namespace, _), (metric, series)): (ObjectKey, MetricKey)| async move {
            source.object_values(&namespace, &object, &metric, &series).await
        };
        let items = self.object_values.get(key, fetch).await;
        wire::object_value(&items.map_err(|error| error.into_read_error(MetricsApi::Custom))?)
    }

    async fn external(
        &self,
        namespace: &str,
        metric: &str,
        metric_selector: &Selector,
    ) -> Result<Vec<MilliValue>, ReadError> {
        let source = Arc::clone(&self.source);
        let key = (namespace.into(), (metric.into(), metric_selector.clone()));
        let fetch = |(namespace, (metric, series)): (Box<str>, MetricKey)| async move {
            source.external_values(&namespace, &metric, &series).await
        };
        let items = self.external_values.get(key, fetch).await;
        wire::external_values(&*items.map_err(|error| error.into_read_error(MetricsApi::External))?)
    }
}
