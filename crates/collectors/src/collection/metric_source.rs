//! Serves collected metrics as a metric source.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use async_trait::async_trait;
use futures::{FutureExt, StreamExt, stream};
use hpa_calc::{
    Selector,
    report::error_texts::{AUTOSCALERS_NOT_SYNCED, NO_COLLECTOR_READS, not_discovered},
};
use hpa_metrics::{
    ApiGroups, Catalog, CustomQuery, CustomValues, ExternalQuery, ExternalValues, MetricError,
    MetricSource, NotFound, ObjectKind, Objects, Origin, Query, Values,
    resource::{ApiResource, GroupResource},
    source::{ListedCustomMetric, ListedExternalMetric},
    wire::{ExternalMetricValue, ItemLabels, MetricValue},
};

use super::{
    CollectedMetrics,
    metric::{CollectedMetric, CollectedValues},
    resource_kind::{is_pods, is_resource_of, resource_of},
};
use crate::{FetchError, LookupError, MetricConfig, Sample, annotations::MetricType};

/// The maximum number of metrics that one request collects concurrently.
const MAX_CONCURRENT: usize = 8;

/// A metric with the result of its collection.
type ReadMetric = (Arc<CollectedMetric>, Result<Arc<CollectedValues>, Arc<FetchError>>);

/// Serves [`CollectedMetrics`] as a metric source.
pub struct CollectionSource {
    collection: Arc<CollectedMetrics>,
    selects_by_labels: bool,
}

impl CollectionSource {
    /// A source for a controller: a query selects the metrics whose selector in the spec is equal.
    pub fn new(collection: Arc<CollectedMetrics>) -> Self {
        Self { collection, selects_by_labels: false }
    }

    /// A source for a metrics API: as in kube-metrics-adapter, a query selects all metrics with
    /// matching labels, even those with more labels.
    pub fn for_api(collection: Arc<CollectedMetrics>) -> Self {
        Self { collection, selects_by_labels: true }
    }

    fn is_selected(&self, metric: &CollectedMetric, selector: &Selector) -> bool {
        if !self.selects_by_labels {
            return metric.has_selector(selector);
        }
        let labels = metric.config.labels();
        selector.matches_by(|key| Some(labels?.get(key)?.as_str()))
    }

    fn metrics_named(
        &self,
        namespace: &str,
        metric_type: MetricType,
        name: &str,
    ) -> Vec<Arc<CollectedMetric>> {
        self.collection.index.lock().metrics_named(namespace, metric_type, name)
    }

    /// The pods of a namespace that match a selector.
    async fn pods(
        &self,
        namespace: &str,
        selector: &Selector,
    ) -> Result<BTreeSet<String>, MetricError> {
        let pods = ApiResource {
            group_resource: GroupResource::pods(),
            version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            singular: "pod".to_owned(),
        };
        let names = self.collection.objects.names(&pods, namespace, selector).await;
        names.map(|names| names.into_iter().collect()).map_err(MetricError::List)
    }

    /// Returns those of `metrics` whose targets have any of these pods. If the selector of a target
    /// equals `selector`, returns only the metric of that target. A single metric is returned
    /// without looking up its pods.
    async fn metrics_of_pods(
        &self,
        metrics: Vec<Arc<CollectedMetric>>,
        selector: Option<&Selector>,
        pods: &BTreeSet<String>,
    ) -> Result<Vec<Arc<CollectedMetric>>, MetricError> {
        if metrics.len() < 2 {
            return Ok(metrics);
        }
        // All selectors are compared before pods are looked up, because many autoscalers may share
        // a name.
        let (mut candidates, mut failure) = (Vec::new(), None);
        for metric in metrics {
            let MetricConfig { namespace, target, .. } = &metric.config;
            let target_selector = match self.collection.targets.selector(namespace, target).await {
                Ok(selector) => selector,
                // Another autoscaler's target may have been deleted.
                Err(LookupError::NotFound { .. }) => continue,
                Err(error) => {
                    failure = Some(error);
                    continue;
                }
            };
            if selector == Some(&target_selector) {
                return Ok(vec![metric]);
            }
            candidates.push((metric, target_selector));
        }
        // A target whose selector can't be read may have some of the pods.
        if let Some(error) = failure {
            return Err(MetricError::from_fetch_error(FetchError::from(error)));
        }
        let mut matching = Vec::new();
        for (metric, selector) in candidates {
            if !self.pods(&metric.config.namespace, &selector).await?.is_disjoint(pods) {
                matching.push(metric);
            }
        }
        Ok(matching)
    }

    /// Reads metrics concurrently. The results keep their order.
    async fn read_all(&self, metrics: Vec<Arc<CollectedMetric>>) -> Vec<ReadMetric> {
        let reads = metrics.into_iter().map(|metric| {
            let reader = self.collection.reader.clone();
            let read = async move {
                let collected = metric.read(&reader).await;
                (metric, collected)
            };
            read.boxed()
        });
        let reads: Vec<_> = reads.collect();
        stream::iter(reads).buffered(MAX_CONCURRENT).collect().await
    }

    /// Reads the values of these pods. Values of other pods, such as deleted ones, are dropped.
    async fn pod_values(
        &self,
        query: &CustomQuery,
        selector: Option<&Selector>,
        pods: &BTreeSet<String>,
    ) -> Result<CustomValues, MetricError> {
        let metrics = self.metrics_named(&query.namespace, MetricType::Pods, &query.metric);
        let metrics = self.metrics_of_pods(metrics, selector, pods).await?;
        let origin = origin(metrics.first());
        let mut by_pod = BTreeMap::new();
        let mut failure = None;
        for (_, collected) in self.read_all(metrics).await {
            match collected {
                Ok(collected) => {
                    let samples = collected.samples.iter();
                    let named = samples.filter_map(|sample| Some((sample.pod.as_ref()?, sample)));
                    for (pod, sample) in named.filter(|(pod, _)| pods.contains(*pod)) {
                        by_pod.entry(pod.clone()).or_insert_with(|| metric_value(pod, sample));
                    }
                }
                Err(error) => failure = Some(error),
            }
        }
        if by_pod.is_empty()
            && let Some(error) = failure
        {
            return Err(MetricError::Fetch(error));
        }
        Ok(CustomValues {
            object_kind: ObjectKind {
                resource: GroupResource::pods(),
                version: "v1".to_owned(),
                kind: "Pod".to_owned(),
            },
            items: by_pod.into_values().collect(),
            omitted: Vec::new(),
            origin,
        })
    }

    /// The metric of an object. If several autoscalers configure it, that of the first autoscaler
    /// by API group and name.
    fn metric_of_object(&self, query: &CustomQuery, name: &str) -> Option<Arc<CollectedMetric>> {
        let metrics = self.metrics_named(&query.namespace, MetricType::Object, &query.metric);
        metrics.into_iter().find(|metric| {
            let object = metric.config.object.as_ref();
            object.is_some_and(|object| {
                object.name == name && is_resource_of(&query.resource, object)
            }) && self.is_selected(metric, &query.metric_selector)
        })
    }

    fn has_custom(&self, query: &CustomQuery) -> bool {
        let CustomQuery { resource, namespace, metric, .. } = query;
        if is_pods(resource) && !self.metrics_named(namespace, MetricType::Pods, metric).is_empty()
        {
            return true;
        }
        if let Objects::Named(name) = &query.objects {
            return self.metric_of_object(query, name).is_some();
        }
        let metrics = self.metrics_named(namespace, MetricType::Object, metric);
        metrics
            .iter()
            .filter_map(|metric| metric.config.object.as_ref())
            .any(|object| is_resource_of(resource, object))
    }

    /// Like [`Self::selected_external`], but stops at the first metric, because many autoscalers
    /// may share a name.
    fn has_external(&self, query: &ExternalQuery) -> bool {
        let ExternalQuery { namespace, metric, metric_selector } = query;
        let metrics = self.metrics_named(namespace, MetricType::External, metric);
        metrics.iter().any(|metric| self.is_selected(metric, metric_selector))
    }

    async fn custom_by_name(
        &self,
        query: &CustomQuery,
        name: &str,
    ) -> Result<CustomValues, MetricError> {
        let object_metric = self.metric_of_object(query, name);
        if is_pods(&query.resource) && object_metric.is_none() {
            let all = self.pods(&query.namespace, &Selector::everything()).await?;
            let pods: BTreeSet<String> = all.into_iter().filter(|pod| pod == name).collect();
            let values = self.pod_values(query, None, &pods).await?;
            if values.items.is_empty() {
                let reason = format!("the pod {name} doesn't exist, isn't ready, or can't be read");
                return Err(MetricError::NoValueForObject(NotFound::Other(reason)));
            }
            return Ok(values);
        }
        let metric = object_metric.ok_or_else(|| unknown_metric(query))?;
        let collected = metric.read(&self.collection.reader).await;
        let collected = collected.map_err(|error| MetricError::Fetch(error))?;
        let no_value = || {
            let reason = "the collector has no value".to_owned();
            MetricError::NoValueForObject(NotFound::Other(reason))
        };
        let (sample, object) =
            collected.samples.first().zip(metric.config.object.as_ref()).ok_or_else(no_value)?;
        let value = metric.current_value(sample, &self.collection.reader).await;
        let value = value.map_err(MetricError::from_fetch_error)?;
        let version = object.api_version.rsplit('/').next().unwrap_or_default();
        Ok(CustomValues {
            object_kind: ObjectKind {
                resource: resource_of(object),
                version: version.to_owned(),
                kind: object.kind.clone(),
            },
            items: vec![MetricValue { value, ..metric_value(name, sample) }],
            omitted: Vec::new(),
            origin: origin(Some(&metric)),
        })
    }

    async fn custom_by_selector(
        &self,
        query: &CustomQuery,
        objects: &Selector,
    ) -> Result<CustomValues, MetricError> {
        if !is_pods(&query.resource) {
            let reason = "metrics of objects are read by name".to_owned();
            return Err(MetricError::UnknownMetric(NotFound::Other(reason)));
        }
        let pods = self.pods(&query.namespace, objects).await?;
        let values = self.pod_values(query, Some(objects), &pods).await?;
        // A metrics API returns an empty list. Without pods, a controller needs no other reason.
        if values.items.is_empty() && !pods.is_empty() && !self.selects_by_labels {
            return Err(no_value_of_pods(&values.origin));
        }
        Ok(values)
    }

    /// The external metrics that a query selects. Of several autoscalers that have the metric with
    /// the same labels, the first one by API group and name is used.
    fn selected_external(&self, query: &ExternalQuery) -> Vec<Arc<CollectedMetric>> {
        let ExternalQuery { namespace, metric, metric_selector } = query;
        let mut metrics = self.metrics_named(namespace, MetricType::External, metric);
        let mut distinct_labels = HashSet::new();
        metrics.retain(|metric| {
            let labels = || metric.config.labels().cloned().unwrap_or_default();
            self.is_selected(metric, metric_selector) && distinct_labels.insert(labels())
        });
        metrics
    }

    async fn external(&self, query: &ExternalQuery) -> Result<ExternalValues, MetricError> {
        let selected = self.selected_external(query);
        let origin = origin(selected.first());
        let mut items = Vec::new();
        for (metric, collected) in self.read_all(selected).await {
            // The sum of only some series would be wrong.
            let collected = collected.map_err(|error| MetricError::Fetch(error))?;
            let labels: Option<ItemLabels> =
                metric.config.labels().map(|labels| labels.iter().collect());
            items.extend(collected.samples.iter().map(|sample| ExternalMetricValue {
                labels: labels.clone(),
                timestamp: sample.at,
                value: sample.value,
            }));
        }
        Ok(ExternalValues { items, omitted: Vec::new(), origin })
    }

    /// The reason why the metrics of autoscalers are unknown. `None` once all are listed.
    fn autoscalers_not_synced(&self) -> Option<String> {
        if self.collection.sync_state.is_synced() {
            return None;
        }
        let failure = self.collection.sync_state.failure().map(|failure| format!(": {failure}"));
        Some(format!("{AUTOSCALERS_NOT_SYNCED}{}", failure.unwrap_or_default()))
    }
}

impl Catalog for CollectionSource {
    fn groups(&self) -> ApiGroups {
        ApiGroups { custom: true, external: true, resource: false }
    }

    fn readiness(&self) -> Result<(), Vec<String>> {
        let mut reasons: Vec<String> = self.autoscalers_not_synced().into_iter().collect();
        reasons.extend(self.collection.objects.unsynced_caches());
        if reasons.is_empty() { Ok(()) } else { Err(reasons) }
    }

    /// Autoscalers that are not listed yet may configure a metric with any name, of any object of
    /// their namespace. Usage, and metrics of objects without a namespace, are never collected.
    fn undiscovered(&self, query: &Query) -> Option<String> {
        let may_be_collected = match query {
            Query::Custom(query) => query.is_namespaced(),
            Query::External(_) => true,
            Query::PodUsage { .. } | Query::NodeUsage { .. } => false,
        };
        if !may_be_collected {
            return None;
        }
        Some(not_discovered("collectors", &[self.autoscalers_not_synced()?]))
    }

    /// Another autoscaler's metric with the same name, but other labels or another object, is
    /// another metric.
    fn has(&self, query: &Query) -> bool {
        match query {
            Query::PodUsage { .. } | Query::NodeUsage { .. } => false,
            Query::Custom(query) => self.has_custom(query),
            Query::External(query) => self.has_external(query),
        }
    }

    fn absence(&self, query: &Query) -> Option<String> {
        match query {
            Query::Custom(CustomQuery { metric, .. })
            | Query::External(ExternalQuery { metric, .. }) => {
                Some(format!("{NO_COLLECTOR_READS}{metric}"))
            }
            Query::PodUsage { .. } | Query::NodeUsage { .. } => None,
        }
    }

    fn custom_metrics(&self) -> Vec<ListedCustomMetric> {
        let index = self.collection.index.lock();
        let listed = index.metrics().filter_map(|metric| {
            let resource = match (metric.config.metric_type, &metric.config.object) {
                (MetricType::Pods, _) => GroupResource::pods(),
                (MetricType::Object, Some(object)) => resource_of(object),
                _ => return None,
            };
            let metric = metric.config.metric.name.clone();
            Some(ListedCustomMetric { resource, metric, is_namespaced: true })
        });
        let mut listed: Vec<_> = listed.collect();
        listed.sort_by(|a, b| (&a.metric, &a.resource).cmp(&(&b.metric, &b.resource)));
        listed.dedup();
        listed
    }

    fn external_metrics(&self) -> Vec<ListedExternalMetric> {
        let index = self.collection.index.lock();
        let external =
            index.metrics().filter(|metric| metric.config.metric_type == MetricType::External);
        let names: BTreeSet<_> = external.map(|metric| metric.config.metric.name.clone()).collect();
        let listed = |metric| ListedExternalMetric { metric, is_namespaced: true };
        names.into_iter().map(listed).collect()
    }
}

#[async_trait]
impl MetricSource for CollectionSource {
    fn catalog(&self) -> &dyn Catalog {
        self
    }

    async fn read(&self, query: &Query) -> Result<Values, MetricError> {
        match query {
            Query::PodUsage { .. } | Query::NodeUsage { .. } => {
                Err(MetricError::UnknownMetric(NotFound::NotConfigured))
            }
            Query::Custom(query) => {
                let values = match &query.objects {
                    Objects::Named(name) => self.custom_by_name(query, name).await,
                    Objects::Selected(selector) => self.custom_by_selector(query, selector).await,
                };
                values.map(Values::Custom)
            }
            Query::External(query) => self.external(query).await.map(Values::External),
        }
    }
}

fn origin(metric: Option<&Arc<CollectedMetric>>) -> Origin {
    let rule = metric.map(|metric| format!("collector {}", metric.collector()));
    Origin { rule: rule.unwrap_or_default(), ..Origin::default() }
}

fn metric_value(object: &str, sample: &Sample) -> MetricValue {
    MetricValue {
        object: object.into(),
        timestamp: sample.at,
        window_seconds: None,
        value: sample.value,
    }
}

/// The error about a metric of an object that no collector reads. The watch of the collectors may
/// see an autoscaler later than the controller does.
fn unknown_metric(query: &CustomQuery) -> MetricError {
    let CustomQuery { resource, namespace, metric, .. } = query;
    let reason = format!(
        "no autoscaler of the namespace {namespace} has a collector for the metric {metric} of \
         {resource}; a new autoscaler has its collectors within seconds"
    );
    MetricError::UnknownMetric(NotFound::Other(reason))
}

/// The error if no pod of a target has a value, although an autoscaler of the namespace has a
/// collector for the metric.
fn no_value_of_pods(origin: &Origin) -> MetricError {
    if origin.rule.is_empty() {
        let reason = "no autoscaler of these pods has a collector for it".to_owned();
        return MetricError::UnknownMetric(NotFound::Other(reason));
    }
    let reason = format!(
        "{} has none of these pods: they were not ready at its last read, or not for \
         min-pod-ready-age, or it reads the pods of another autoscaler",
        origin.rule
    );
    MetricError::NoValue(NotFound::Other(reason))
}
