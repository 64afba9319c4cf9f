//! The recorded replicas, metrics and requests of an autoscaler.

use std::collections::BTreeMap;

use anyhow::bail;
use hpa_simulate::report::format_duration;

use super::{
    metric::{Metric, Target},
    series::Series,
    window::Window,
};

/// A metric and its recorded values.
#[derive(Clone, Debug)]
pub(super) struct RecordedMetric {
    pub(super) metric: Metric,
    /// The total over all pods. For an object or external metric, its value, before the division if
    /// [`Metric::is_divided`].
    pub(super) value: Series,
}

/// The recorded past of an autoscaler.
#[derive(Clone, Debug)]
pub(super) struct Past {
    /// The time of the series. After [`Past::trimmed`], it starts and ends at a recorded step.
    pub(super) window: Window,
    /// The time between `--since` and `--until`.
    pub(super) requested_window: Window,
    pub(super) replicas: Series,
    pub(super) metrics: Vec<RecordedMetric>,
    /// The requests of a pod: CPU in cores, memory in bytes.
    pub(super) pod_requests: BTreeMap<String, f64>,
    /// The time from a pod's creation until it is ready, in seconds: `--pod-startup`, or else the
    /// recorded median. `None` if neither is known.
    pub(super) startup: Option<f64>,
    /// The load that a pod can serve (`--pod-capacity`), in the unit of the load.
    pub(super) capacity: Option<f64>,
}

impl Past {
    /// Removes the steps before the first and after the last one with replicas and a metric. With 0
    /// replicas, a step needs no metric.
    pub(super) fn trimmed(self) -> anyhow::Result<Self> {
        let is_recorded = |step: &usize| {
            let has_metric = || self.metrics.iter().any(|one| one.value.get(*step).is_some());
            self.replicas.get(*step).is_some_and(|replicas| replicas <= 0.0 || has_metric())
        };
        let mut steps = (0..self.window.len()).filter(is_recorded);
        let Some(first) = steps.next() else {
            bail!(
                "Prometheus has replicas and metrics, but not at the same time: choose another \
                 time with --since and --until"
            );
        };
        let last = steps.next_back().unwrap_or(first);
        let mut metrics = self.metrics;
        for metric in &mut metrics {
            metric.value = metric.value.slice(first, last);
        }
        let window = self.window.slice(first, last);
        Ok(Self { window, metrics, replicas: self.replicas.slice(first, last), ..self })
    }

    /// A message if less than the requested time is recorded.
    pub(super) fn describe_missing_time(&self) -> Option<String> {
        let (requested, recorded) = (self.requested_window.seconds(), self.window.seconds());
        // A few steps may be missing at the end, because rates need later samples.
        (recorded < requested * 0.99).then(|| {
            format!(
                "Prometheus has both replicas and metrics for only {recorded} of the requested \
                 {requested}. Only these {recorded} are used. A rate has no result while its \
                 window (--rate-window, or the window in the metric's query) has fewer than two \
                 samples.",
                recorded = format_duration(recorded),
                requested = format_duration(requested)
            )
        })
    }
}

impl RecordedMetric {
    /// The load in the unit of the metric: see [`Metric::total`].
    pub(super) fn total(&self, replicas: &Series) -> Series {
        self.metric.total(self.value.clone(), replicas)
    }

    /// The target for a pod, in the unit of the metric.
    pub(super) fn target(&self, requests: &BTreeMap<String, f64>) -> anyhow::Result<f64> {
        let Metric { name, field, .. } = &self.metric;
        let target = match self.metric.target {
            Target::PerPod(value) | Target::Value(value) => value,
            Target::Utilization(percent) => match requests.get(name) {
                Some(request) => request * percent / 100.0,
                None => bail!(
                    "{field}: the target is a percentage of the pods' requests, which are not \
                     known: give the request of a pod with --request {name}=QUANTITY"
                ),
            },
        };
        if target > 0.0 { Ok(target) } else { bail!("{field}: the target is 0") }
    }
}
