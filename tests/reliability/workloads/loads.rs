//! Loads of targets, and the metrics APIs that report them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use hpa_testbed::{
    ApiError, CustomMetric, CustomMetricQuery, ExternalMetric, ExternalMetricQuery,
    MetricsProvider, PodMetrics, PodMetricsQuery,
};
use hpa_tests::harness::{VirtualClock, objects::CPU_REQUEST_MILLI, pod_metrics};
use parking_lot::Mutex;
use serde_json::json;

use crate::targets::Id;

/// Namespace and name of a pod.
pub(super) type PodId = (String, String);

/// Load of each target over time, in replicas needed to carry it.
#[derive(Debug)]
pub(crate) struct Loads {
    clock: VirtualClock,
    /// The age of the load that the metrics APIs report.
    lag: Duration,
    by_target: Mutex<HashMap<Id, Vec<(Duration, i64)>>>,
    /// Loads of single pods, in thousandths. They replace the pods' shares of the target's load.
    milli_by_pod: Mutex<HashMap<String, i64>>,
    /// Pods without metrics.
    unmeasured: Mutex<HashSet<String>>,
    /// Pods that are not ready, and carry no load.
    pub(super) starting: Mutex<HashSet<PodId>>,
    /// The times at which pods of each target were created or became ready, if startup takes time.
    starts: Mutex<HashMap<Id, Vec<Duration>>>,
}

impl Loads {
    pub(crate) fn new(clock: VirtualClock, lag: Duration) -> Arc<Self> {
        Arc::new(Self {
            clock,
            lag,
            by_target: Mutex::default(),
            milli_by_pod: Mutex::default(),
            unmeasured: Mutex::default(),
            starting: Mutex::default(),
            starts: Mutex::default(),
        })
    }

    /// Removes the metrics of these pods, and restores the metrics of all others.
    pub(crate) fn set_unmeasured(&self, pods: &[&str]) {
        *self.unmeasured.lock() = pods.iter().map(|pod| (*pod).to_owned()).collect();
    }

    /// Sets the load of a pod, in thousandths of the load that a replica carries.
    pub(crate) fn set_pod_milli(&self, pod: &str, milli: i64) {
        self.milli_by_pod.lock().insert(pod.to_owned(), milli);
    }

    /// Sets the load of a target in [`NAMESPACE`](crate::NAMESPACE) from now on.
    pub(crate) fn set(&self, target: &str, load: i64) {
        self.set_of(&Id::in_shop(target), load);
    }

    /// Sets the load of a target from now on.
    pub(crate) fn set_of(&self, target: &Id, load: i64) {
        let now = self.clock.age();
        self.by_target.lock().entry(target.clone()).or_default().push((now, load));
    }

    pub(crate) fn remove(&self, target: &str) {
        self.by_target.lock().remove(&Id::in_shop(target));
    }

    /// The current load, which the metrics APIs may report later.
    pub(crate) fn now(&self, target: &Id) -> i64 {
        self.at(target, self.clock.age())
    }

    fn at(&self, target: &Id, age: Duration) -> i64 {
        let by_target = self.by_target.lock();
        let Some(loads) = by_target.get(target) else { return 0 };
        let next = loads.partition_point(|(at, _)| *at <= age);
        // Before the first change, the first load applies.
        loads.get(next.saturating_sub(1)).map_or(0, |(_, load)| *load)
    }

    /// The load in the metrics APIs now.
    fn reported(&self, target: &Id) -> i64 {
        self.at(target, self.clock.age().saturating_sub(self.lag))
    }

    /// The loads that the metrics APIs could report between two ages of the cluster. `[0]` if the
    /// target's load was never set.
    pub(crate) fn within(&self, target: &Id, from: Duration, to: Duration) -> Vec<i64> {
        let (from, to) = (from.saturating_sub(self.lag), to.saturating_sub(self.lag));
        let by_target = self.by_target.lock();
        let Some(loads) = by_target.get(target) else { return vec![0] };
        let first = loads.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        let end = loads.partition_point(|(at, _)| *at <= to).max(first + 1);
        loads.iter().take(end).skip(first).map(|(_, load)| *load).collect()
    }

    /// Records that a pod of the target was created or became ready.
    pub(super) fn record_start(&self, target: &Id) {
        self.starts.lock().entry(target.clone()).or_default().push(self.clock.age());
    }

    /// Whether a pod of the target was created or became ready between two ages of the cluster.
    pub(crate) fn has_starts_within(&self, target: &Id, from: Duration, to: Duration) -> bool {
        let starts = self.starts.lock();
        starts.get(target).is_some_and(|ages| ages.iter().any(|at| (from..=to).contains(at)))
    }

    /// The pods with metrics, and the number of pods that carry the load of each target.
    fn measured<'a>(&self, pods: &'a [PodId]) -> (Vec<&'a PodId>, HashMap<Id, i64>) {
        let (unmeasured, starting) = (self.unmeasured.lock(), self.starting.lock());
        let mut ready_counts = HashMap::new();
        for pod in pods.iter().filter(|pod| !starting.contains(*pod)) {
            *ready_counts.entry(target_of(pod)).or_default() += 1;
        }
        (pods.iter().filter(|(_, name)| !unmeasured.contains(name)).collect(), ready_counts)
    }

    /// The share of the reported load that a pod carries. `unit` stands for a load of 1.
    fn share(&self, pod: &PodId, ready_counts: &HashMap<Id, i64>, unit: i64) -> i64 {
        if self.starting.lock().contains(pod) {
            return 0;
        }
        if let Some(milli) = self.milli_by_pod.lock().get(&pod.1) {
            return milli * unit / 1000;
        }
        let target = target_of(pod);
        self.reported(&target) * unit / ready_counts[&target]
    }
}

/// The metrics APIs. The load of a target is divided among its pods.
pub(crate) struct Metrics(pub(crate) Arc<Loads>);

impl MetricsProvider for Metrics {
    /// A load of 1 is half of a pod's request.
    fn pods(&self, query: &PodMetricsQuery) -> Result<Vec<PodMetrics>, ApiError> {
        let (measured, ready_counts) = self.0.measured(&query.pods);
        let metrics = |pod: &PodId| {
            let micro = self.0.share(pod, &ready_counts, CPU_REQUEST_MILLI * 1000 / 2);
            pod_metrics(&pod.0, &pod.1, format!("{micro}u"))
        };
        Ok(measured.into_iter().map(metrics).collect())
    }

    /// A load of 1 is ten requests per second.
    fn custom(&self, query: &CustomMetricQuery) -> Result<Vec<CustomMetric>, ApiError> {
        let (measured, ready_counts) = self.0.measured(&query.pods);
        let metrics = |pod: &PodId| CustomMetric {
            described_object: json!({
                "apiVersion": "v1", "kind": "Pod", "namespace": pod.0, "name": pod.1,
            }),
            value: format!("{}m", self.0.share(pod, &ready_counts, 10_000)),
            ..CustomMetric::default()
        };
        Ok(measured.into_iter().map(metrics).collect())
    }

    /// The metric is named after its target. A load of 1 is ten jobs.
    fn external(&self, query: &ExternalMetricQuery) -> Result<Vec<ExternalMetric>, ApiError> {
        let target = Id::new(&query.namespace, &query.metric);
        let value = (self.0.reported(&target) * 10).to_string();
        Ok(vec![ExternalMetric {
            metric_name: query.metric.clone(),
            value,
            ..ExternalMetric::default()
        }])
    }
}

/// Pods are named `TARGET-INDEX`.
fn target_of((namespace, name): &PodId) -> Id {
    Id::new(namespace, name.rsplit_once('-').map_or(name, |(target, _)| target))
}
