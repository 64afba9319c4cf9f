//! The metrics APIs of a simulated cluster.

use std::{collections::BTreeMap, sync::Arc};

use hpa_calc::{
    quantity::{Format, Quantity},
    selector::Selector,
};
use jiff::Timestamp;
use serde_json::json;

use super::{Shared, State, time};
use crate::{
    ApiError, CustomMetric, CustomMetricQuery, ExternalMetric, ExternalMetricQuery,
    MetricsProvider, PodMetrics, PodMetricsQuery, names,
    workload::{
        model::{Model, ObjectMetric},
        number,
        scenario::{MetricsSource, ObjectRef},
        series::{Sample, Series, SourceSettings},
    },
};

/// From one simulated second to the next.
const STEP: f64 = 1.0;
const NANO: f64 = 1e9;
const MILLI: f64 = 1e3;
const KIBI: f64 = 1024.0;

/// Tells what the sources of a simulation saw.
pub(super) struct Provider {
    pub(super) shared: Arc<Shared>,
}

/// What is known at the moment of a question.
struct Known<'a> {
    model: &'a Model,
    start: Timestamp,
    now: f64,
}

impl Provider {
    /// Answers from what is known, unless the source is down.
    fn answer<T>(
        &self,
        source: MetricsSource,
        answer: impl FnOnce(&Known<'_>) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let state = self.shared.state.lock();
        let State { model, start, .. } = &*state;
        // A simulation that lags behind its clock is asked as of when it got to: its sources did not fall silent.
        let now = self.shared.second(*start).min((model.now + STEP).next_down());
        let known = Known { model, start: *start, now };
        if model.is_down(source, known.now) {
            return Err(ApiError::service_unavailable());
        }
        answer(&known)
    }
}

impl MetricsProvider for Provider {
    fn pods(&self, query: &PodMetricsQuery) -> Result<Vec<PodMetrics>, ApiError> {
        self.answer(MetricsSource::Resource, |known| {
            Ok(query.pods.iter().filter_map(|id| known.usage(id)).collect())
        })
    }

    fn custom(&self, query: &CustomMetricQuery) -> Result<Vec<CustomMetric>, ApiError> {
        if query.resource == "pods" {
            return self.answer(MetricsSource::Pods, |known| known.pods_metric(query));
        }
        self.answer(MetricsSource::Object, |known| known.object_metric(query))
    }

    fn external(&self, query: &ExternalMetricQuery) -> Result<Vec<ExternalMetric>, ApiError> {
        self.answer(MetricsSource::External, |known| known.external_metric(query))
    }
}

impl Known<'_> {
    fn time(&self, second: f64) -> String {
        names::time(time(self.start, second))
    }

    fn usage(&self, id: &(String, String)) -> Option<PodMetrics> {
        let (_, pod) = self.model.pod(id)?;
        let sample = pod.usage.latest(self.now, &self.model.settings.resource)?;
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
        let is_it = |metric: &crate::workload::scenario::PodMetricSpec| {
            metric.name == query.metric && matches(&query.metric_selector, &metric.labels)
        };
        let asked = query.pods.iter().filter(|(_, name)| query.name == "*" || query.name == *name);
        let of = |id: &(String, String)| {
            let (workload, pod) = self.model.pod(id)?;
            let metric = workload.pod_metrics.iter().find(|metric| is_it(metric))?;
            let sample = pod.rate.latest(self.now, &self.model.settings.pods)?;
            let value = metric.base + metric.per_unit * sample.value;
            let object =
                json!({ "kind": "Pod", "apiVersion": "v1", "namespace": id.0, "name": id.1 });
            Some(self.custom(object, sample, value))
        };
        let found: Vec<CustomMetric> = asked.filter_map(of).collect();
        if found.is_empty() {
            return Err(unknown(&format!("{} for pods", query.metric)));
        }
        Ok(found)
    }

    fn object_metric(&self, query: &CustomMetricQuery) -> Result<Vec<CustomMetric>, ApiError> {
        let is_it = |one: &&ObjectMetric| {
            one.metric.name == query.metric
                && is_object(&one.object, query)
                && matches(&query.metric_selector, &one.metric.labels)
        };
        let of = |one: &ObjectMetric| {
            let sample = one.metric.series.latest(self.now, &self.model.settings.object)?;
            let ObjectRef { api_version, kind, namespace, name, .. } = &one.object;
            let object = json!({ "kind": kind, "apiVersion": api_version, "namespace": namespace, "name": name });
            Some(self.custom(object, sample, sample.value))
        };
        let found: Vec<CustomMetric> =
            self.model.objects.iter().filter(is_it).filter_map(of).collect();
        if found.is_empty() {
            return Err(unknown(&format!(
                "{} for {} {}",
                query.metric, query.resource, query.name
            )));
        }
        Ok(found)
    }

    fn custom(&self, object: serde_json::Value, sample: &Sample<f64>, value: f64) -> CustomMetric {
        CustomMetric {
            described_object: object,
            value: milli(value),
            timestamp: self.time(sample.at),
            window_seconds: Some(number::round(sample.window)),
        }
    }

    fn external_metric(
        &self,
        query: &ExternalMetricQuery,
    ) -> Result<Vec<ExternalMetric>, ApiError> {
        let queues =
            self.model.queues.iter().map(|one| (&one.spec.metric, &one.spec.labels, &one.series));
        let others = self.model.externals.iter().map(|one| (&one.name, &one.labels, &one.series));
        let named: Vec<_> =
            queues.chain(others).filter(|(name, ..)| **name == query.metric).collect();
        if named.is_empty() {
            return Err(unknown(&query.metric));
        }
        let selected = named.into_iter().filter(|(_, labels, _)| matches(&query.selector, labels));
        let settings = &self.model.settings.external;
        Ok(selected
            .filter_map(|(name, labels, series)| self.series(name, labels, series, settings))
            .collect())
    }

    fn series(
        &self,
        name: &str,
        labels: &BTreeMap<String, String>,
        series: &Series<f64>,
        settings: &SourceSettings,
    ) -> Option<ExternalMetric> {
        let sample = series.latest(self.now, settings)?;
        Some(ExternalMetric {
            metric_name: name.to_owned(),
            metric_labels: labels.clone(),
            timestamp: self.time(sample.at),
            value: milli(sample.value),
        })
    }
}

fn matches(selector: &Selector, labels: &BTreeMap<String, String>) -> bool {
    selector.matches(labels)
}

/// Whether the query is about the object: by its resource, with its group unless that is the core one, and its name.
fn is_object(object: &ObjectRef, query: &CustomMetricQuery) -> bool {
    let group = object.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    let plural = object.resource.clone().unwrap_or_else(|| plural(&object.kind));
    let resource = if group.is_empty() { plural } else { format!("{plural}.{group}") };
    resource == query.resource && object.name == query.name && object.namespace == query.namespace
}

/// The plural one would guess of a kind.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    if let Some(stem) = kind.strip_suffix('y') {
        return format!("{stem}ies");
    }
    if kind.ends_with('s') || kind.ends_with('x') || kind.ends_with("ch") {
        return format!("{kind}es");
    }
    format!("{kind}s")
}

fn milli(value: f64) -> String {
    Quantity::from_milli(number::round(value * MILLI), Format::DecimalSI).to_string()
}

fn unknown(what: &str) -> ApiError {
    ApiError::new(404, "NotFound", format!("the server could not find the metric {what}"))
}
