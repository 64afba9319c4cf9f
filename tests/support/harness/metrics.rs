//! The three metrics APIs with settable values.

use std::{
    collections::BTreeMap,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use hpa_testbed::{
    ApiError, CustomMetric, CustomMetricQuery, ExternalMetric, ExternalMetricQuery,
    MetricsProvider, PodMetrics, PodMetricsQuery,
};
use serde_json::json;

use crate::harness::{NAMESPACE, objects::CPU_REQUEST_MILLI};

/// One CPU usage for all pods, and one value for all custom and external metrics except
/// [`SettableMetrics::METRIC_WITHOUT_SERIES`].
#[derive(Debug)]
pub struct SettableMetrics {
    cpu_percent: AtomicI64,
    value: AtomicI64,
    is_external_down: AtomicBool,
    /// Set by [`Self::restrict_to`].
    listed: OnceLock<Vec<String>>,
}

impl SettableMetrics {
    /// Name of the external metric that has no series.
    pub const METRIC_WITHOUT_SERIES: &str = "broken";

    /// `cpu_percent` is relative to the pods' request.
    pub const fn new(cpu_percent: i64, value: i64) -> Self {
        let (cpu_percent, value) = (AtomicI64::new(cpu_percent), AtomicI64::new(value));
        let is_external_down = AtomicBool::new(false);
        Self { cpu_percent, value, is_external_down, listed: OnceLock::new() }
    }

    /// Restricts the custom metrics (`RESOURCE/METRIC`) and external metrics to these names, and
    /// lists them in discovery. Without this call, metrics of all names exist and discovery lists
    /// none. Further calls have no effect.
    pub fn restrict_to(&self, names: &[&str]) {
        let _ = self.listed.set(names.iter().map(|name| (*name).to_owned()).collect());
    }

    fn ensure_exists(&self, listed_name: &str, metric: &str) -> Result<(), ApiError> {
        let Some(listed) = self.listed.get() else { return Ok(()) };
        if listed.iter().any(|name| name == listed_name) {
            return Ok(());
        }
        let objects = listed_name.split_once('/').map_or("", |(resource, _)| resource);
        let message = format!("the server could not find the metric {metric} for {objects}");
        Err(ApiError::new(404, "NotFound", message))
    }

    pub fn set_cpu_percent(&self, percent: i64) {
        self.cpu_percent.store(percent, Ordering::SeqCst);
    }

    /// Sets the value of all custom and external metrics.
    pub fn set_value(&self, value: i64) {
        self.value.store(value, Ordering::SeqCst);
    }

    /// Starts an outage of the external metrics API.
    pub fn start_external_outage(&self) {
        self.is_external_down.store(true, Ordering::SeqCst);
    }

    /// Ends the outage of the external metrics API.
    pub fn end_external_outage(&self) {
        self.is_external_down.store(false, Ordering::SeqCst);
    }

    fn value(&self) -> String {
        self.value.load(Ordering::SeqCst).to_string()
    }
}

impl Default for SettableMetrics {
    /// Full CPU usage, and 1 for all other metrics.
    fn default() -> Self {
        Self::new(100, 1)
    }
}

impl MetricsProvider for SettableMetrics {
    fn listed_metrics(&self, group: &str) -> Vec<String> {
        let is_custom = group.starts_with("custom.");
        let mut listed = self.listed.get().cloned().unwrap_or_default();
        listed.retain(|name| name.contains('/') == is_custom && group != "metrics.k8s.io");
        listed
    }

    fn pods(&self, query: &PodMetricsQuery) -> Result<Vec<PodMetrics>, ApiError> {
        let milli = self.cpu_percent.load(Ordering::SeqCst) * CPU_REQUEST_MILLI / 100;
        let metrics = |(namespace, name): &(String, String)| {
            pod_metrics(namespace, name, format!("{milli}m"))
        };
        Ok(query.pods.iter().map(metrics).collect())
    }

    fn custom(&self, query: &CustomMetricQuery) -> Result<Vec<CustomMetric>, ApiError> {
        self.ensure_exists(&format!("{}/{}", query.resource, query.metric), &query.metric)?;
        let metric = |kind: &str, name: &str| CustomMetric {
            described_object: json!({
                "apiVersion": "v1", "kind": kind, "namespace": NAMESPACE, "name": name,
            }),
            value: self.value(),
            ..CustomMetric::default()
        };
        if query.resource.starts_with("services") {
            return Ok(vec![metric("Service", &query.name)]);
        }
        Ok(query.pods.iter().map(|(_, name)| metric("Pod", name)).collect())
    }

    fn external(&self, query: &ExternalMetricQuery) -> Result<Vec<ExternalMetric>, ApiError> {
        if self.is_external_down.load(Ordering::SeqCst) {
            return Err(ApiError::new(503, "ServiceUnavailable", "outage set by a test"));
        }
        self.ensure_exists(&query.metric, &query.metric)?;
        if query.metric == Self::METRIC_WITHOUT_SERIES {
            return Ok(Vec::new());
        }
        let (metric_name, value) = (query.metric.clone(), self.value());
        Ok(vec![ExternalMetric { metric_name, value, ..ExternalMetric::default() }])
    }
}

/// Metrics of a pod that was created by [`crate::harness::objects::pod`] and uses this much CPU.
pub fn pod_metrics(namespace: &str, name: &str, cpu: String) -> PodMetrics {
    let usage = BTreeMap::from([("cpu".to_owned(), cpu)]);
    PodMetrics {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        window: "15s".into(),
        containers: BTreeMap::from([("app".to_owned(), usage)]),
        ..PodMetrics::default()
    }
}
