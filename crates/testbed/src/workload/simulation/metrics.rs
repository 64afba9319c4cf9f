//! The metrics APIs of the simulated cluster.

use std::{collections::BTreeMap, sync::Arc};

use hpa_calc::MilliValue;
use hpa_simulate::workload::{
    model::{ClusterModel, ObjectMetric},
    number,
    scenario::{ObjectRef, OutageScope, PodMetricSpec},
    seconds::timestamp_at,
    series::Sample,
};
use jiff::Timestamp;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::{Shared, State};
use crate::{
    clock::format_time,
    error::{ApiError, name_with_group},
    metrics_provider::{
        CustomMetric, CustomMetricQuery, ExternalMetric, ExternalMetricQuery, MetricsProvider,
        PodMetrics, PodMetricsQuery,
    },
};

const NANO: f64 = 1e9;
const MILLI: f64 = 1e3;
const KIBI: f64 = 1024.0;

/// Responds to metrics queries with samples of the model.
pub(super) struct SimulatedMetrics {
    pub(super) shared: Arc<Shared>,
}

/// The model at the time of a query.
struct ModelAt<'a> {
    model: &'a ClusterModel,
    start: Timestamp,
    now: f64,
}

impl SimulatedMetrics {
    fn query<T>(
        &self,
        source: OutageScope,
        query: impl FnOnce(&ModelAt<'_>) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let state = self.shared.state.lock();
        let State { model, start, .. } = &*state;
        let now = model.query_time(self.shared.seconds_since(*start));
        if model.metrics.is_down(source, now) {
            return Err(ApiError::service_unavailable());
        }
        query(&ModelAt { model, start: *start, now })
    }
}

impl MetricsProvider for SimulatedMetrics {
    fn pods(&self, query: &PodMetricsQuery) -> Result<Vec<PodMetrics>, ApiError> {
        self.query(OutageScope::Resource, |model| {
            Ok(query.pods.iter().filter_map(|id| model.pod_usage(id)).collect())
        })
    }

    fn custom(&self, query: &CustomMetricQuery) -> Result<Vec<CustomMetric>, ApiError> {
        if query.resource == "pods" {
            return self.query(OutageScope::Pods, |model| model.pods_metric(query));
        }
        self.query(OutageScope::Object, |model| model.object_metric(query))
    }

    fn external(&self, query: &ExternalMetricQuery) -> Result<Vec<ExternalMetric>, ApiError> {
        self.query(OutageScope::External, |model| model.external_metric(query))
    }
}

impl ModelAt<'_> {
    fn time(&self, second: f64) -> String {
        format_time(timestamp_at(self.start, second))
    }

    fn pod_usage(&self, id: &(String, String)) -> Option<PodMetrics> {
        let (_, pod) = self.model.pod(id)?;
        let sample = pod.usage.latest(self.now, &self.model.metrics.settings.resource)?;
        let usage = |(name, cpu, memory): &(String, f64, f64)| {
            let cpu = format!("{}n", number::round(cpu * NANO));
            let memory = format!("{}Ki", number::round(memory / KIBI));
            (name.clone(), BTreeMap::from([("cpu".to_owned(), cpu), ("memory".to_owned(), memory)]))
        };
        Some(PodMetrics {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            timestamp: self.time(sample.at),
            window: format!("{}s", number::round(sample.window)),
            containers: sample.value.iter().map(usage).collect(),
        })
    }

    fn pods_metric(&self, query: &CustomMetricQuery) -> Result<Vec<CustomMetric>, ApiError> {
        let is_queried = |metric: &&PodMetricSpec| {
            metric.name == query.metric && query.metric_selector.matches(&metric.labels)
        };
        let value = |id: &(String, String)| {
            let (workload, pod) = self.model.pod(id)?;
            let metric = workload.pod_metrics.iter().find(is_queried)?;
            let sample = pod.rate.latest(self.now, &self.model.metrics.settings.pods)?;
            let object =
                json!({ "kind": "Pod", "apiVersion": "v1", "namespace": id.0, "name": id.1 });
            Some(self.custom_metric(object, sample, metric.value(sample.value)))
        };
        let pods = query.pods.iter().filter(|(_, name)| query.name == "*" || query.name == *name);
        let values: Vec<CustomMetric> = pods.filter_map(value).collect();
        if values.is_empty() {
            return Err(metric_not_found(&format!("{} for pods", query.metric)));
        }
        Ok(values)
    }

    fn object_metric(&self, query: &CustomMetricQuery) -> Result<Vec<CustomMetric>, ApiError> {
        let is_queried = |one: &&ObjectMetric| {
            one.metric.name == query.metric
                && describes(&one.object, query)
                && query.metric_selector.matches(&one.metric.labels)
        };
        let value = |one: &ObjectMetric| {
            let settings = &self.model.metrics.settings.object;
            let sample = one.metric.series.latest(self.now, settings)?;
            let ObjectRef { api_version, kind, namespace, name, .. } = &one.object;
            let object = json!({
                "kind": kind, "apiVersion": api_version, "namespace": namespace, "name": name,
            });
            Some(self.custom_metric(object, sample, sample.value))
        };
        let objects = self.model.metrics.objects.iter();
        let values: Vec<CustomMetric> = objects.filter(is_queried).filter_map(value).collect();
        if values.is_empty() {
            let CustomMetricQuery { metric, resource, name, .. } = query;
            return Err(metric_not_found(&format!("{metric} for {resource} {name}")));
        }
        Ok(values)
    }

    fn custom_metric(&self, object: Value, sample: &Sample<f64>, value: f64) -> CustomMetric {
        CustomMetric {
            described_object: object,
            value: milli_quantity(value),
            timestamp: self.time(sample.at),
            window_seconds: Some(number::round(sample.window)),
        }
    }

    fn external_metric(
        &self,
        query: &ExternalMetricQuery,
    ) -> Result<Vec<ExternalMetric>, ApiError> {
        let named: Vec<_> =
            self.model.external_metrics().filter(|(name, ..)| *name == query.metric).collect();
        if named.is_empty() {
            return Err(metric_not_found(&query.metric));
        }
        let settings = &self.model.metrics.settings.external;
        let selected = named.into_iter().filter(|(_, labels, _)| query.selector.matches(*labels));
        let metrics = selected.filter_map(|(name, labels, series)| {
            let sample = series.latest(self.now, settings)?;
            Some(ExternalMetric {
                metric_name: name.to_owned(),
                metric_labels: labels.clone(),
                timestamp: self.time(sample.at),
                value: milli_quantity(sample.value),
            })
        });
        Ok(metrics.collect())
    }
}

/// Whether the query is about `object`. The queried resource is `plural.group`, or `plural` in the
/// core group.
fn describes(object: &ObjectRef, query: &CustomMetricQuery) -> bool {
    // For an irregular plural, the scenario has `resource`.
    let regular = || ApiResource::from_gvk(&GroupVersionKind::gvk("", "", &object.kind)).plural;
    let plural = object.resource.clone().unwrap_or_else(regular);
    name_with_group(&plural, object.group()) == query.resource
        && object.name == query.name
        && object.namespace == query.namespace
}

fn milli_quantity(value: f64) -> String {
    MilliValue::from_milli(number::round(value * MILLI)).to_string()
}

fn metric_not_found(metric: &str) -> ApiError {
    ApiError::new(404, "NotFound", format!("the server could not find the metric {metric}"))
}
