//! The modelled metrics APIs, which answer the queries of a decision.

use hpa_calc::{
    MetricQuery, MilliValue, PodSample, PodSamples, ReadError, Reading, Sample as ApiSample,
    Selector,
    api::{CrossVersionObjectReference, ResourceName},
};
use jiff::{SignedDuration, Timestamp};

use crate::{
    cluster::Cluster,
    workload::{
        model,
        model::{ClusterModel, ObjectMetric, UsageSample},
        number,
        scenario::{ObjectRef, OutageScope, PodMetricSpec},
        seconds::{timestamp_at, whole_second},
        series::Sample,
    },
};

const NANO: f64 = 1e9;
const NANOS_PER_MILLI: i64 = 1_000_000;
const MILLI: f64 = 1e3;
const KIBI: i64 = 1024;

/// The metrics APIs at one time.
pub(crate) struct MetricsApis<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
    start: Timestamp,
    /// Seconds since the start.
    now: f64,
}

impl<'a> MetricsApis<'a> {
    pub(crate) fn new(
        cluster: &'a Cluster,
        namespace: &'a str,
        start: Timestamp,
        second: f64,
    ) -> Self {
        let now = cluster.model.query_time(second);
        Self { cluster, namespace, start, now }
    }

    /// Whether the scenario has the queried metric, with or without a value now.
    pub(crate) fn has(&self, query: &MetricQuery) -> bool {
        match query {
            MetricQuery::Resource { resource, .. } => {
                matches!(resource, ResourceName::Cpu | ResourceName::Memory)
            }
            MetricQuery::Pods { metric, metric_selector } => {
                self.pods_metric(metric, metric_selector).is_some()
            }
            MetricQuery::Object { object, metric, metric_selector } => {
                !self.object_metrics(object, metric, metric_selector).is_empty()
            }
            MetricQuery::External { metric, metric_selector } => {
                let selector = as_requested(metric_selector);
                let mut metrics = self.model().external_metrics();
                metrics.any(|(name, labels, _)| name == metric && selector.matches(labels))
            }
        }
    }

    pub(crate) fn read(&self, query: &MetricQuery) -> Result<Reading, ReadError> {
        if self.model().metrics.is_down(outage_scope(query), self.now) {
            let message = "the server is currently unable to handle the request";
            return Err(ReadError::fetch(query.api(), message));
        }
        match query {
            MetricQuery::Resource { resource, container } => {
                self.read_resource(query, resource, container.as_deref())
            }
            MetricQuery::Pods { metric, metric_selector } => {
                self.read_pods_metric(query, self.pods_metric(metric, metric_selector))
            }
            MetricQuery::Object { object, metric, metric_selector } => {
                let queried = self.object_metrics(object, metric, metric_selector);
                self.read_object_metric(query, &queried)
            }
            MetricQuery::External { metric, metric_selector } => {
                self.read_external_metric(query, metric, &as_requested(metric_selector))
            }
        }
    }

    fn sample(&self, sample: &Sample<f64>) -> ApiSample<MilliValue> {
        let timestamp = whole_second(timestamp_at(self.start, sample.at));
        ApiSample { value: milli(sample.value), timestamp: Some(timestamp) }
    }

    fn model(&self) -> &'a ClusterModel {
        &self.cluster.model
    }

    fn pods(&self) -> impl Iterator<Item = &'a model::Pod> {
        self.cluster.workload().into_iter().flat_map(|workload| workload.pods.values())
    }

    fn pods_metric(&self, name: &str, selector: &Selector) -> Option<&'a PodMetricSpec> {
        let selector = as_requested(selector);
        let mut metrics = self.cluster.workload()?.pod_metrics.iter();
        metrics.find(|one| one.name == name && selector.matches(&one.labels))
    }

    fn object_metrics(
        &self,
        object: &CrossVersionObjectReference,
        name: &str,
        selector: &Selector,
    ) -> Vec<&'a ObjectMetric> {
        let selector = as_requested(selector);
        let is_queried = |one: &&ObjectMetric| {
            one.metric.name == name
                && self.is_queried_object(&one.object, object)
                && selector.matches(&one.metric.labels)
        };
        self.model().metrics.objects.iter().filter(is_queried).collect()
    }

    fn pod_sample<T>(&self, sample: &Sample<T>, value: MilliValue) -> PodSample {
        PodSample {
            value,
            timestamp: whole_second(timestamp_at(self.start, sample.at)),
            window: SignedDuration::from_secs(number::round(sample.window)),
        }
    }

    fn read_resource(
        &self,
        query: &MetricQuery,
        resource: &ResourceName,
        container: Option<&str>,
    ) -> Result<Reading, ReadError> {
        let settings = &self.model().metrics.settings.resource;
        let mut samples = PodSamples::default();
        let mut has_samples = false;
        for pod in self.pods() {
            let Some(sample) = pod.usage.latest(self.now, settings) else { continue };
            has_samples = true;
            if let Some(value) = usage(&sample.value, resource, container) {
                samples.insert(pod.name.as_str(), self.pod_sample(sample, value));
            }
        }
        for others in self.cluster.other_pods(self.now) {
            let Some(value) = others.usage(resource, container) else { continue };
            let sample = Sample { at: self.now, window: settings.resolution.get(), value };
            for pod in &others.pods {
                has_samples = true;
                samples.insert(&*pod.name, self.pod_sample(&sample, value));
            }
        }
        if has_samples { Ok(Reading::Pods(samples)) } else { Err(ReadError::Empty(query.api())) }
    }

    fn read_pods_metric(
        &self,
        query: &MetricQuery,
        metric: Option<&PodMetricSpec>,
    ) -> Result<Reading, ReadError> {
        let metric = metric.ok_or_else(|| not_found(query))?;
        let settings = &self.model().metrics.settings.pods;
        let samples: PodSamples = self
            .pods()
            .filter_map(|pod| {
                let sample = pod.rate.latest(self.now, settings)?;
                let value = metric.value(sample.value);
                Some((pod.name.as_str(), self.pod_sample(sample, milli(value))))
            })
            .collect();
        if samples.is_empty() { Err(not_found(query)) } else { Ok(Reading::Pods(samples)) }
    }

    fn read_object_metric(
        &self,
        query: &MetricQuery,
        queried: &[&ObjectMetric],
    ) -> Result<Reading, ReadError> {
        let settings = &self.model().metrics.settings.object;
        let queried = queried.iter();
        let mut samples = queried.filter_map(|one| one.metric.series.latest(self.now, settings));
        match (samples.next(), samples.next()) {
            (Some(sample), None) => Ok(Reading::Object(self.sample(sample))),
            (None, _) => Err(not_found(query)),
            _ => Err(ReadError::fetch(query.api(), "there are several values")),
        }
    }

    fn read_external_metric(
        &self,
        query: &MetricQuery,
        metric: &str,
        selector: &Selector,
    ) -> Result<Reading, ReadError> {
        let model = self.model();
        let mut named = model.external_metrics().filter(|(name, ..)| *name == metric).peekable();
        if named.peek().is_none() {
            return Err(not_found(query));
        }
        let settings = &model.metrics.settings.external;
        let selected = named.filter(|(_, labels, _)| selector.matches(*labels));
        let samples = selected.filter_map(|(_, _, series)| series.latest(self.now, settings));
        let samples: Vec<_> = samples.map(|sample| self.sample(sample)).collect();
        if samples.is_empty() {
            return Err(ReadError::Empty(query.api()));
        }
        let timestamp = samples.iter().filter_map(|sample| sample.timestamp).min();
        let value = samples.into_iter().map(|sample| sample.value).collect();
        Ok(Reading::External(ApiSample { value, timestamp }))
    }

    fn is_queried_object(&self, object: &ObjectRef, queried: &CrossVersionObjectReference) -> bool {
        let is_same_name = if queried.is_namespace() {
            object.name == self.namespace
        } else {
            object.name == queried.name && object.namespace == self.namespace
        };
        object.kind == queried.kind && object.group() == queried.group() && is_same_name
    }
}

/// The usage of a pod or of one container. Each container's CPU is rounded up to milli-units, its
/// memory to the nearest KiB.
fn usage(
    sample: &UsageSample,
    resource: &ResourceName,
    container: Option<&str>,
) -> Option<MilliValue> {
    let value = |(_, cpu, memory): &(_, f64, f64)| match resource {
        ResourceName::Cpu => {
            let nanos = number::round(cpu * NANO);
            let up = i64::from(nanos.rem_euclid(NANOS_PER_MILLI) != 0);
            Some(MilliValue::from_milli(nanos.div_euclid(NANOS_PER_MILLI) + up))
        }
        ResourceName::Memory => {
            let kibibytes = number::round(memory / KIBI as f64);
            Some(MilliValue::from_units(kibibytes.saturating_mul(KIBI)))
        }
        _ => None,
    };
    if let Some(name) = container {
        return sample.iter().find(|(container, ..)| **container == *name).and_then(value);
    }
    let values = sample.iter().map(value);
    values.reduce(|sum, value| Some(sum?.saturating_add(value?))).flatten()
}

fn outage_scope(query: &MetricQuery) -> OutageScope {
    match query {
        MetricQuery::Resource { .. } => OutageScope::Resource,
        MetricQuery::Pods { .. } => OutageScope::Pods,
        MetricQuery::Object { .. } => OutageScope::Object,
        MetricQuery::External { .. } => OutageScope::External,
    }
}

/// The selector as the metrics API reads it from the URL. A query for a metric without a selector
/// has one that matches nothing. Its text is empty, so the API reads one that matches everything.
fn as_requested(selector: &Selector) -> Selector {
    Selector::parse(&selector.to_string()).unwrap_or_else(|_| selector.clone())
}

fn milli(value: f64) -> MilliValue {
    MilliValue::from_milli(number::round(value * MILLI))
}

fn not_found(query: &MetricQuery) -> ReadError {
    let message = format!("the server could not find the metric {}", query.metric_name());
    ReadError::fetch(query.api(), message)
}
