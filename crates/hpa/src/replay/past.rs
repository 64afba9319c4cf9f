//! The past of an autoscaler.

use std::collections::BTreeMap;

use anyhow::bail;

use super::{
    metric::{Metric, Target},
    series::Series,
    window::Window,
};

/// A metric and its recorded values.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub(super) metric: Metric,
    /// The total over all pods. For a metric without pods, its value.
    pub(super) value: Series,
}

/// The recorded data of an autoscaler.
#[derive(Clone, Debug)]
pub(super) struct Past {
    /// The time from the first to the last step with replicas and metrics.
    pub(super) window: Window,
    /// The requested time.
    pub(super) requested: Window,
    pub(super) replicas: Series,
    pub(super) metrics: Vec<Recorded>,
    /// The requests of a pod: CPU in cores, memory in bytes.
    pub(super) requests: BTreeMap<String, f64>,
    /// Seconds from the creation of a pod until it is ready.
    pub(super) startup: Startup,
    /// The load that a pod can serve, in units of the load.
    pub(super) capacity: Option<f64>,
}

/// The start-up time of pods, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Startup {
    Given(f64),
    Recorded(f64),
    Unknown,
}

impl Past {
    /// Removes the steps before the first and after the last recorded one.
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
            metric.value = metric.value.part(first, last);
        }
        let window = self.window.part(first, last);
        Ok(Self { window, metrics, replicas: self.replicas.part(first, last), ..self })
    }
}

impl Recorded {
    /// The metric summed up over the pods.
    pub(super) fn total(&self, replicas: &Series) -> Series {
        self.metric.total(self.value.clone(), replicas)
    }

    /// The target for a pod, in units of the metric.
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
