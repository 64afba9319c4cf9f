//! Replaces the rest of the cluster: creates pods that are ready at once, and serves their metrics.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use hpa_test_harness::{
    NAMESPACE, VirtualClock,
    objects::{self, CPU_REQUEST_MILLI},
    pod_metrics,
};
use hpa_testbed::{
    ApiError, CustomMetric, CustomMetricQuery, ExternalMetric, ExternalMetricQuery,
    MetricsProvider, PodMetrics, PodMetricsQuery, Testbed,
};
use parking_lot::Mutex;
use serde_json::json;

use crate::journal::{Actor, Journal};

/// Load of each target over time, in replicas needed to carry it.
#[derive(Debug)]
pub(crate) struct Loads {
    clock: VirtualClock,
    by_target: Mutex<HashMap<String, Vec<(Duration, i64)>>>,
    /// Pods without metrics.
    unmeasured: Mutex<HashSet<String>>,
}

impl Loads {
    pub(crate) fn new(clock: VirtualClock) -> Arc<Self> {
        Arc::new(Self { clock, by_target: Mutex::default(), unmeasured: Mutex::default() })
    }

    /// Removes the metrics of these pods, and restores the metrics of all others.
    pub(crate) fn set_unmeasured(&self, pods: &[&str]) {
        *self.unmeasured.lock() = pods.iter().map(|pod| (*pod).to_owned()).collect();
    }

    fn is_measured(&self, pod: &str) -> bool {
        !self.unmeasured.lock().contains(pod)
    }

    /// Sets the load from now on.
    pub(crate) fn set(&self, target: &str, load: i64) {
        let now = self.clock.age();
        self.by_target.lock().entry(target.to_owned()).or_default().push((now, load));
    }

    pub(crate) fn remove(&self, target: &str) {
        self.by_target.lock().remove(target);
    }

    pub(crate) fn now(&self, target: &str) -> i64 {
        self.by_target
            .lock()
            .get(target)
            .and_then(|loads| loads.last())
            .map_or(0, |(_, load)| *load)
    }

    /// All loads between two ages of the cluster.
    pub(crate) fn within(&self, target: &str, from: Duration, to: Duration) -> Vec<i64> {
        let by_target = self.by_target.lock();
        let Some(loads) = by_target.get(target) else { return vec![0] };
        let first = loads.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        loads[first..].iter().take_while(|(at, _)| *at <= to).map(|(_, load)| *load).collect()
    }
}

/// The metrics APIs. The load of a target is divided among its pods.
pub(crate) struct Metrics(pub(crate) Arc<Loads>);

impl MetricsProvider for Metrics {
    /// A load of 1 is half of what a pod requests.
    fn pods(&self, query: &PodMetricsQuery) -> Result<Vec<PodMetrics>, ApiError> {
        let counts = counts(&query.pods);
        let metrics = |(namespace, name): &(String, String)| {
            let target = target_of(name);
            let pods = counts.get(target).copied().unwrap_or(1);
            let micro = self.0.now(target) * CPU_REQUEST_MILLI * 1000 / 2 / pods;
            pod_metrics(namespace, name, format!("{micro}u"))
        };
        Ok(query.pods.iter().filter(|(_, name)| self.0.is_measured(name)).map(metrics).collect())
    }

    /// A load of 1 is ten requests per second.
    fn custom(&self, query: &CustomMetricQuery) -> Result<Vec<CustomMetric>, ApiError> {
        let counts = counts(&query.pods);
        let metrics = |(namespace, name): &(String, String)| {
            let target = target_of(name);
            let pods = counts.get(target).copied().unwrap_or(1);
            CustomMetric {
                described_object: json!({ "apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name }),
                value: format!("{}m", self.0.now(target) * 10_000 / pods),
                ..CustomMetric::default()
            }
        };
        Ok(query.pods.iter().filter(|(_, name)| self.0.is_measured(name)).map(metrics).collect())
    }

    /// The metric is named after its target. A load of 1 is ten jobs.
    fn external(&self, query: &ExternalMetricQuery) -> Result<Vec<ExternalMetric>, ApiError> {
        let value = (self.0.now(&query.metric) * 10).to_string();
        Ok(vec![ExternalMetric {
            metric_name: query.metric.clone(),
            value,
            ..ExternalMetric::default()
        }])
    }
}

fn counts(pods: &[(String, String)]) -> HashMap<&str, i64> {
    let mut counts = HashMap::new();
    for (_, name) in pods {
        *counts.entry(target_of(name)).or_default() += 1;
    }
    counts
}

/// Pods are named `TARGET-INDEX`.
fn target_of(pod: &str) -> &str {
    pod.rsplit_once('-').map_or(pod, |(target, _)| target)
}

/// Creates and deletes pods to match the Deployments, forever.
pub(crate) async fn run(testbed: Testbed, journal: Arc<Journal>) {
    loop {
        journal.scaled.notified().await;
        journal.acting(Actor::Cluster, || update_pods(&testbed));
    }
}

fn update_pods(testbed: &Testbed) {
    let mut pods = pod_counts(testbed);
    for mut deployment in testbed.list("apps/v1", "Deployment") {
        let name = deployment["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let wanted = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
        resize(testbed, &name, pods.remove(&name).unwrap_or_default(), wanted);
        if deployment["status"]["replicas"].as_i64() != Some(wanted) {
            deployment["status"] = json!({ "replicas": wanted, "readyReplicas": wanted });
            testbed.apply(deployment).expect("a status");
        }
    }
    for (name, count) in pods {
        resize(testbed, &name, count, 0);
    }
}

fn pod_counts(testbed: &Testbed) -> HashMap<String, i64> {
    let mut counts = HashMap::new();
    for pod in testbed.list("v1", "Pod") {
        *counts
            .entry(target_of(pod["metadata"]["name"].as_str().unwrap_or_default()).to_owned())
            .or_default() += 1;
    }
    counts
}

fn resize(testbed: &Testbed, target: &str, from: i64, to: i64) {
    for index in from..to {
        testbed.apply(objects::pod(target, index)).expect("a pod");
    }
    for index in to..from {
        testbed
            .delete("v1", "Pod", NAMESPACE, &format!("{target}-{index}"))
            .expect("an existing pod");
    }
}
