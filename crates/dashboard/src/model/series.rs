//! The samples of an autoscaler over time, read by the dashboard or recorded by the controller.

use std::collections::VecDeque;

use hpa_calc::{
    HorizontalPodAutoscaler, MilliValue,
    api::MetricSpec,
    explain::{MetricExplanation, TargetValue, is_memory, metric_name, status_value, target_value},
    report::Report,
};
use hpa_controller::debug::DecisionSample;
use jiff::{SignedDuration, Timestamp};
use serde::{Serialize, Serializer};

use super::row::{current_replicas, desired_replicas};
use crate::past::shifted;

/// The unit of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Unit {
    /// Percentage of the pods' requests.
    Percent,
    Bytes,
    /// An amount of another resource, as Kubernetes prints it: `540m`.
    Quantity,
    Number,
}

impl Unit {
    fn new(spec: &MetricSpec) -> Self {
        let target = spec.target();
        if target.is_some_and(|target| target.average_utilization.is_some()) {
            Self::Percent
        } else {
            Self::for_pods(spec)
        }
    }

    /// The unit of a pod's sample: an amount, even if the target is a utilization.
    fn for_pods(spec: &MetricSpec) -> Self {
        let is_resource = spec.resource.is_some() || spec.container_resource.is_some();
        match (is_memory(spec), is_resource) {
            (true, _) => Self::Bytes,
            (false, true) => Self::Quantity,
            (false, false) => Self::Number,
        }
    }
}

/// A metric in the chart, with its units and its target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MetricLine {
    pub(crate) name: String,
    pub(crate) unit: Unit,
    /// The unit of the values of single pods.
    pub(crate) sample_unit: Unit,
    #[serde(rename = "targetMilli")]
    pub(crate) target: Option<MilliValue>,
}

/// The replicas and metrics of an autoscaler at one time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) at: Timestamp,
    pub(crate) current: Option<i32>,
    pub(crate) desired: Option<i32>,
    /// The largest proposal of the metrics, before all limits. `None` in samples from a status.
    pub(crate) recommended: Option<i32>,
    /// The values of the metrics, in the order of the spec.
    pub(crate) values: Box<[Option<MilliValue>]>,
}

impl Sample {
    /// The sample in the status, as the controller last stored it.
    pub(crate) fn from_status(hpa: &HorizontalPodAutoscaler, at: Timestamp) -> Self {
        let status = &hpa.status;
        let values = hpa.spec.metrics.iter().enumerate();
        let values =
            values.map(|(index, spec)| status_value(spec, status.current_metrics.get(index)?));
        Self {
            at,
            current: current_replicas(hpa),
            desired: desired_replicas(hpa),
            recommended: None,
            values: values.collect(),
        }
    }

    /// The sample of a decision by the dashboard. `None` if the target could not be read. Without
    /// the history, the decision may differ from the controller's, so the desired replicas are
    /// those of the status, as after a failed decision.
    pub(crate) fn from_report(report: &Report, hpa: &HorizontalPodAutoscaler) -> Option<Self> {
        let values = report.metrics.iter().map(|metric| compared_value(&metric.explanation));
        let current = Some(report.current_replicas?);
        let decided = report.desired_replicas.filter(|_| report.history_known);
        Some(Self {
            at: report.at,
            current,
            desired: decided.or_else(|| desired_replicas(hpa)),
            recommended: report.proposed_replicas,
            values: values.collect(),
        })
    }

    /// The sample of an earlier reconcile. If the spec had another number of metrics then, the
    /// values are left out.
    fn from_past(past: DecisionSample, metrics: &[MetricLine]) -> Self {
        let DecisionSample { at, current, desired, proposed, values } = past;
        let has_same_count = values.len() == metrics.len();
        let values = metrics.iter().zip(values).map(|(metric, value)| match metric.unit {
            Unit::Percent => value.map(MilliValue::from_units),
            Unit::Bytes | Unit::Quantity | Unit::Number => value.map(MilliValue::from_milli),
        });
        Self {
            at,
            current: Some(current),
            desired,
            recommended: proposed,
            values: if has_same_count {
                values.collect()
            } else {
                vec![None; metrics.len()].into()
            },
        }
    }

    fn equals_except_time(&self, other: &Self) -> bool {
        self.current == other.current
            && self.desired == other.desired
            && self.recommended == other.recommended
            && self.values == other.values
    }
}

/// The value that is compared with the metric's target. A utilization is in percent.
fn compared_value(metric: &MetricExplanation) -> Option<MilliValue> {
    match metric.target? {
        TargetValue::Utilization(_) => {
            metric.utilization.map(|percent| MilliValue::from_units(percent.into()))
        }
        TargetValue::Value(_) => metric.usage,
    }
}

/// Serializes to an array, which is shorter than an object: the time in milliseconds, the current,
/// desired and recommended replicas, and an array of the values in thousandths.
impl Serialize for Sample {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { at, current, desired, recommended, values } = self;
        (at.as_millisecond(), current, desired, recommended, values).serialize(serializer)
    }
}

/// The last samples of an autoscaler, and its metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Series {
    metrics: Vec<MetricLine>,
    samples: VecDeque<Sample>,
    /// The time of the last sample that the controller recorded, by the controller's clock.
    #[serde(skip)]
    past_until: Option<Timestamp>,
}

impl Series {
    /// Sets the metrics of the spec. If a name or unit has changed, drops the samples.
    pub(crate) fn set_metrics(&mut self, hpa: &HorizontalPodAutoscaler) {
        let specs = &hpa.spec.metrics;
        let metrics = specs.iter().enumerate().map(|(index, spec)| MetricLine {
            name: metric_name(specs, index),
            unit: Unit::new(spec),
            sample_unit: Unit::for_pods(spec),
            target: target_value(spec),
        });
        let metrics: Vec<_> = metrics.collect();
        let identity = |line: &MetricLine| (line.name.clone(), line.unit);
        if !self.metrics.iter().map(identity).eq(metrics.iter().map(identity)) {
            self.clear();
        }
        self.metrics = metrics;
    }

    /// Adds a sample, unless only its time differs from the last one. Keeps the last `capacity`
    /// samples. If the new sample is earlier than the last one, drops all others.
    pub(crate) fn record(&mut self, sample: Sample, capacity: usize) {
        match self.samples.back() {
            Some(last) if last.equals_except_time(&sample) => return,
            // The clock was set back.
            Some(last) if last.at > sample.at => self.clear(),
            _ => {}
        }
        while self.samples.len() >= capacity.max(1) {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// Drops all samples. The next read of the past then returns all samples of the controller.
    fn clear(&mut self) {
        self.samples.clear();
        self.past_until = None;
    }

    /// The time of the last sample that the controller recorded, by the controller's clock.
    pub(crate) fn past_until(&self) -> Option<Timestamp> {
        self.past_until
    }

    /// Adds samples that the controller recorded, oldest first. They replace the dashboard's
    /// samples of the same period. The dashboard's clock is ahead of the controller's by `ahead`.
    pub(crate) fn merge(
        &mut self,
        mut past: Vec<DecisionSample>,
        ahead: SignedDuration,
        capacity: usize,
    ) {
        self.past_until = past.last().map(|last| last.at).or(self.past_until);
        for sample in &mut past {
            sample.at = shifted(sample.at, ahead);
        }
        let (Some(first), Some(last)) = (past.first(), past.last()) else { return };
        let (from, until) = (first.at, last.at);
        let mut all: Vec<Sample> = self.samples.drain(..).collect();
        all.retain(|sample| sample.at < from || sample.at > until);
        all.extend(past.into_iter().map(|sample| Sample::from_past(sample, &self.metrics)));
        all.sort_by_key(|sample| sample.at);
        all.dedup_by(|next, previous| previous.equals_except_time(next));
        all.drain(..all.len().saturating_sub(capacity.max(1)));
        self.samples = all.into();
    }

    #[cfg(test)]
    pub(crate) fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter()
    }
}
