//! The rest of a cluster: pods that are there and ready as soon as a target asks for them, and their metrics.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use hpa_testbed::{
    ApiError, CustomMetric, CustomMetricQuery, ExternalMetric, ExternalMetricQuery,
    MetricsProvider, PodMetrics, PodMetricsQuery, Testbed,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    NAMESPACE,
    journal::{Actor, Journal},
    time::VirtualClock,
};

/// The load of each target over time: how many replicas would carry it exactly.
#[derive(Debug)]
pub(crate) struct Loads {
    clock: VirtualClock,
    by_target: Mutex<HashMap<String, Vec<(Duration, i64)>>>,
    /// The pods of which the metrics APIs know nothing.
    unmeasured: Mutex<HashSet<String>>,
}

impl Loads {
    pub(crate) fn new(clock: VirtualClock) -> Arc<Self> {
        Arc::new(Self { clock, by_target: Mutex::default(), unmeasured: Mutex::default() })
    }

    /// From now on the metrics APIs know nothing of these pods, but of all others.
    pub(crate) fn leave_out(&self, pods: &[&str]) {
        *self.unmeasured.lock() = pods.iter().map(|pod| (*pod).to_owned()).collect();
    }

    fn is_measured(&self, pod: &str) -> bool {
        !self.unmeasured.lock().contains(pod)
    }

    /// From now on the load is this much.
    pub(crate) fn set(&self, target: &str, load: i64) {
        let now = self.clock.age();
        self.by_target.lock().entry(target.to_owned()).or_default().push((now, load));
    }

    /// Forgets a target.
    pub(crate) fn forget(&self, target: &str) {
        self.by_target.lock().remove(target);
    }

    /// The load now.
    pub(crate) fn now(&self, target: &str) -> i64 {
        self.by_target
            .lock()
            .get(target)
            .and_then(|loads| loads.last())
            .map_or(0, |(_, load)| *load)
    }

    /// All that the load was in a time.
    pub(crate) fn within(&self, target: &str, from: Duration, to: Duration) -> Vec<i64> {
        let by_target = self.by_target.lock();
        let Some(loads) = by_target.get(target) else { return vec![0] };
        let first = loads.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        loads[first..].iter().take_while(|(at, _)| *at <= to).map(|(_, load)| *load).collect()
    }
}

/// The metrics APIs: the load of a target, shared by its pods.
pub(crate) struct Metrics(pub(crate) Arc<Loads>);

impl MetricsProvider for Metrics {
    /// One of load is half a core, which is half of what a pod requests.
    fn pods(&self, query: &PodMetricsQuery) -> Result<Vec<PodMetrics>, ApiError> {
        let counts = counts(&query.pods);
        let metrics = |(namespace, name): &(String, String)| {
            let target = target_of(name);
            let pods = counts.get(target).copied().unwrap_or(1);
            let usage = format!("{}u", self.0.now(target) * 500_000 / pods);
            let usage = BTreeMap::from([("cpu".to_owned(), usage)]);
            PodMetrics {
                namespace: namespace.clone(),
                name: name.clone(),
                window: "15s".into(),
                containers: BTreeMap::from([("app".to_owned(), usage)]),
                ..PodMetrics::default()
            }
        };
        Ok(query.pods.iter().filter(|(_, name)| self.0.is_measured(name)).map(metrics).collect())
    }

    /// One of load is ten requests per second.
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

    /// The metric has its target's name; one of load is ten jobs.
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

/// A pod has its target's name and a number.
fn target_of(pod: &str) -> &str {
    pod.rsplit_once('-').map_or(pod, |(target, _)| target)
}

/// Gives each Deployment its pods, without end.
pub(crate) async fn run(testbed: Testbed, journal: Arc<Journal>) {
    loop {
        journal.scaled.notified().await;
        journal.acting(Actor::Cluster, || follow(&testbed));
    }
}

fn follow(testbed: &Testbed) {
    let mut pods = counts_of_all(testbed);
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

fn counts_of_all(testbed: &Testbed) -> HashMap<String, i64> {
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
        testbed.apply(pod(target, index)).expect("a pod");
    }
    for index in to..from {
        testbed
            .delete("v1", "Pod", NAMESPACE, &format!("{target}-{index}"))
            .expect("a pod that is there");
    }
}

/// A pod that has been ready for long.
fn pod(target: &str, index: i64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": format!("{target}-{index}"), "namespace": NAMESPACE, "labels": { "app": target } },
        "spec": { "containers": [{ "name": "app", "resources": { "requests": { "cpu": "1" } } }] },
        "status": { "phase": "Running", "startTime": "2020-01-01T00:00:00Z", "conditions": [
            { "type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:10Z" },
        ] },
    })
}
