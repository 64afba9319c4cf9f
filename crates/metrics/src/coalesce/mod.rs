//! Shares requests between autoscalers.

mod pod_list;
mod settings;
mod sharding;
mod sharing;
mod single_flight;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use hpa_calc::{
    readings::{MetricQuery, PodSamples, ReadError, Reading},
    selector::Selector,
};

pub use self::settings::CoalescingSettings;
pub use self::single_flight::SingleFlight;
use self::{pod_list::PodList, sharing::Sharing};
use crate::{
    KindMapper, MetricError, MetricSource, MetricsClient, Query, Values,
    wire::{self, ExternalMetricValue, MetricValue, PodMetrics},
};

/// A [`MetricsClient`] that shares requests to a [`MetricSource`] between autoscalers.
///
/// # Equal requests
///
/// If an equal request is in flight, a caller waits for that request and gets its response. A
/// response is decoded once, and reused within [`CoalescingSettings::freshness`] of the start of
/// its request. A list of more than 2000 values of a custom or external metric is not reused. An
/// error goes to the callers that waited for the request, and to no later ones. All resources and
/// containers of a pod are in one response, so an autoscaler with CPU and memory metrics sends one
/// request.
///
/// Reuse does not change decisions. Each sample has its own timestamp and window, which the engine
/// uses. A response that is up to `freshness` old has the same effect as reconciling that much
/// earlier, and the reference does not define when in a period it reconciles. `freshness` is a
/// small part of the sync period, so an autoscaler does not get the same response in two periods.
/// For a list of thousands of pods, the cost of a request matters more than the age of the data, so
/// such a list is fresh for up to five times as long: for a third of the sync period.
///
/// # One list for a namespace
///
/// The items of resource metrics contain the labels of their pods. So the list of a namespace can
/// answer all selectors in it. The client requests this list if at least
/// [`CoalescingSettings::min_selectors`] selectors are in use, and the list would have been cheaper
/// for the last request of each of them. A selector is in use for [`CoalescingSettings::window`]
/// after its last request. Costs are counted in items:
///
/// - separate requests: `selectors × 100 + items matched`
/// - namespace lists: `bursts × (100 + items of the namespace) + selectors`
///
/// A burst is a series of requests that one list can answer, because all of them are within the
/// freshness of a list that the first one fetches. 100 is the cost of a request without its items.
/// Sharing pays off if the autoscalers of a namespace reconcile at the same time. It does not pay
/// off if few autoscalers are distributed over the period, or if they select a small part of a
/// large namespace. The size of the namespace is the length of its last list. It is valid for 8
/// windows after the last use of a list. A list is grouped by labels once. Selecting the items of
/// an autoscaler then usually takes time in proportion to its own pods.
///
/// If a list has items but none has labels (old servers don't copy them), or if it can't be decoded
/// or is too large, the client sends separate requests immediately and for the next 8 windows. If
/// the request fails in another way, its error is the result, and the client also sends separate
/// requests for the next 8 windows.
///
/// Metrics of custom.metrics.k8s.io are not shared between selectors, because their items have no
/// labels of the pod.
///
/// # State
///
/// While there are requests, stale responses are dropped every `freshness`, or every second if that
/// is longer. The statistics of a namespace are dropped when its selectors are no longer in use. No
/// lock is held across an await.
///
/// # Example
///
/// ```
/// use std::{error::Error, sync::Arc, time::Duration};
///
/// use hpa_calc::{api::ResourceName, readings::{MetricQuery, Reading}, selector::Selector};
/// use hpa_metrics::{
///     Coalescing, CoalescingSettings, KindMapper, MetricError, MetricSource, MetricsClient, Query,
///     ResourceNames, Values, resource::GroupResource, wire::{PodMetrics, decode_list},
/// };
///
/// struct RecordedSource;
///
/// #[async_trait::async_trait]
/// impl MetricSource for RecordedSource {
///     async fn read(&self, _: &Query) -> Result<Values, MetricError> {
///         let body = br#"{ "items": [{
///             "metadata": { "name": "web-1", "labels": { "app": "web" } },
///             "timestamp": "2026-01-01T00:00:00Z", "window": "15s",
///             "containers": [{ "name": "app", "usage": { "cpu": "250m" } }] }] }"#;
///         let items = decode_list::<PodMetrics>(body).expect("a valid list");
///         Ok(Values::PodMetrics(items.into()))
///     }
/// }
///
/// /// Usage of pods needs no kinds.
/// struct NoKinds;
///
/// #[async_trait::async_trait]
/// impl ResourceNames for NoKinds {
///     async fn resource_for(
///         &self,
///         _: &str,
///         kind: &str,
///     ) -> Result<GroupResource, Box<dyn Error + Send + Sync>> {
///         Err(format!("no matches for kind {kind:?}").into())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let settings = CoalescingSettings::for_sync_period(Duration::from_secs(15));
/// let kinds = KindMapper::new(Arc::new(NoKinds), Duration::from_secs(10));
/// let client = Coalescing::new(RecordedSource, kinds, settings);
/// let query = MetricQuery::Resource { resource: ResourceName::Cpu, container: None };
/// let reading = client.read("shop", &Selector::parse("app=web")?, &query).await?;
/// let Reading::Pods(samples) = reading else { unreachable!("a resource metric has samples") };
/// assert_eq!(samples.len(), 1);
/// # Ok(())
/// # }
/// ```
pub struct Coalescing<S> {
    source: Arc<S>,
    kinds: KindMapper,
    sharing: Sharing,
    pod_metrics: SingleFlight<Query, PodList>,
    custom_values: SingleFlight<Query, Vec<MetricValue>>,
    external_values: SingleFlight<Query, Vec<ExternalMetricValue>>,
}

type PodReading = Result<PodSamples, ReadError>;

impl<S: MetricSource> Coalescing<S> {
    /// Creates a client that sends its requests to `source`. `kinds` maps the kinds of objects to
    /// resources.
    pub fn new(source: S, kinds: KindMapper, settings: CoalescingSettings) -> Self {
        let freshness = settings.freshness;
        Self {
            source: Arc::new(source),
            kinds,
            sharing: Sharing::new(settings),
            pod_metrics: SingleFlight::with_freshness(freshness, move |list: &PodList| {
                settings.freshness_of_pods(list.items.len())
            }),
            custom_values: SingleFlight::with_freshness(freshness, move |items: &Vec<_>| {
                settings.freshness_of_values(items.len())
            }),
            external_values: SingleFlight::with_freshness(freshness, move |items: &Vec<_>| {
                settings.freshness_of_values(items.len())
            }),
        }
    }

    /// Applies `reduce` to the items of the selected pods. Takes them from the namespace list if
    /// that is cheaper than a separate request.
    async fn read_pod_metrics(
        &self,
        namespace: &str,
        pods: &Selector,
        reduce: impl Fn(&mut dyn Iterator<Item = &PodMetrics>) -> PodReading + Sync,
    ) -> Result<PodReading, MetricError> {
        let uses_namespace_list = self.sharing.record_request(namespace, pods);
        if uses_namespace_list && let Some(list) = self.read_namespace_list(namespace).await? {
            let selected = list.select(pods);
            self.sharing.record_matches(namespace, pods, selected.len());
            return Ok(reduce(&mut selected.into_iter()));
        }
        let list = self.read_pod_list(namespace, pods).await?;
        self.sharing.record_matches(namespace, pods, list.items.len());
        Ok(reduce(&mut list.items.iter()))
    }

    /// Returns the items of all pods of a namespace. `None` if selectors can't be applied to them,
    /// or if the list is too large or can't be decoded.
    async fn read_namespace_list(
        &self,
        namespace: &str,
    ) -> Result<Option<Arc<PodList>>, MetricError> {
        match self.read_pod_list(namespace, &Selector::everything()).await {
            Ok(list) if list.is_selectable() => {
                self.sharing.record_namespace_list(namespace, list.items.len());
                Ok(Some(list))
            }
            Ok(_) => {
                self.sharing.suspend(namespace);
                Ok(None)
            }
            Err(error) => {
                self.sharing.suspend(namespace);
                if error.is_caused_by_content() { Ok(None) } else { Err(error) }
            }
        }
    }

    async fn read_pod_list(
        &self,
        namespace: &str,
        pods: &Selector,
    ) -> Result<Arc<PodList>, MetricError> {
        let is_namespace_list = pods.is_empty();
        let query = Query::pod_usage(namespace, pods);
        self.fetch(&self.pod_metrics, query, move |values| {
            let items = values.into_pods()?.into_result()?;
            Ok(if is_namespace_list {
                PodList::for_namespace(items)
            } else {
                PodList::for_selector(items)
            })
        })
        .await
    }

    /// Returns the answer to a query, from a request of this caller or a recent one of another
    /// caller.
    async fn fetch<T: Send + Sync + 'static>(
        &self,
        flights: &SingleFlight<Query, T>,
        query: Query,
        convert: impl FnOnce(Values) -> Result<T, MetricError> + Send + 'static,
    ) -> Result<Arc<T>, MetricError> {
        let source = Arc::clone(&self.source);
        let fetch = |query| async move { convert(source.read(&query).await?) };
        flights.get(query, fetch).await
    }

    /// Answers a query of an autoscaler. The outer error is that of the request. The inner error is
    /// that of its items, for example that there are none.
    async fn answer(
        &self,
        namespace: &str,
        pods: &Selector,
        metric: &MetricQuery,
    ) -> Result<Result<Reading, ReadError>, MetricError> {
        Ok(match metric {
            MetricQuery::Resource { resource, container } => {
                let everything = Selector::everything();
                // A selector of nothing is sent as the empty string, which selects everything. In a
                // namespace list, it would select nothing.
                let pods = if pods.is_nothing() { &everything } else { pods };
                let samples = self.read_pod_metrics(namespace, pods, |items| {
                    wire::resource_samples(items, resource, container.as_deref())
                });
                samples.await?.map(Reading::Pods)
            }
            MetricQuery::Pods { .. } => {
                let items = self.read_custom_values(namespace, pods, metric).await?;
                wire::pod_samples(&*items).map(Reading::Pods)
            }
            MetricQuery::Object { .. } => {
                let items = self.read_custom_values(namespace, pods, metric).await?;
                wire::object_value(&items).map(Reading::Object)
            }
            MetricQuery::External { .. } => {
                let query = Query::for_metric(namespace, pods, metric, &self.kinds).await?;
                let items = self.fetch(&self.external_values, query, |values| {
                    Ok(values.into_external()?.items)
                });
                wire::external_values(&*items.await?).map(Reading::External)
            }
        })
    }

    /// Reads the values of a metric of pods or of an object.
    async fn read_custom_values(
        &self,
        namespace: &str,
        pods: &Selector,
        metric: &MetricQuery,
    ) -> Result<Arc<Vec<MetricValue>>, MetricError> {
        let query = Query::for_metric(namespace, pods, metric, &self.kinds).await?;
        self.fetch(&self.custom_values, query, |values| Ok(values.into_custom()?.items)).await
    }
}

#[async_trait]
impl<S: MetricSource> MetricsClient for Coalescing<S> {
    async fn read(
        &self,
        namespace: &str,
        pods: &Selector,
        query: &MetricQuery,
    ) -> Result<Reading, ReadError> {
        let answer = self.answer(namespace, pods, query).await;
        answer.map_err(|error| error.into_read_error(query.api()))?
    }
}
