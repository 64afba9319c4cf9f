//! The metrics of a report, with the pods that they count.

use std::collections::HashSet;

use jiff::Timestamp;
use serde::Serialize;

use super::{inputs::Inputs, target_pods::is_in_start_up};
use crate::{
    api::{MetricSourceType, MetricSpec, Pod, ResourceName},
    explain::{Explanation, MetricExplanation, TargetValue, is_memory, metric_name},
    pods::{PodClass, PodClassReason, class_reason, is_unready},
    quantity::MilliValue,
    readings::{PodSample, PodSamples, Reading},
    replicas::request_or_limit,
    settings::{PodSelection, ReadinessRules},
};

/// A metric: its reading, its proposal, and the pods that count.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MetricReport {
    /// The index in `spec.metrics`.
    #[serde(skip)]
    pub index: usize,
    /// The metric's name, with its container or object. If another metric has the same name, also
    /// with its selector.
    pub name: String,
    /// Whether the values are bytes of memory, by the metric's own name.
    #[serde(skip)]
    pub is_memory: bool,
    /// `Resource`, `Pods` or another type.
    #[serde(rename = "type")]
    pub source_type: MetricSourceType,
    /// The explanation of the engine.
    #[serde(flatten)]
    pub explanation: MetricExplanation,
    /// The pods that the target's selector matches, if the metric is read by pod, or if a `value`
    /// is multiplied by the number of ready pods.
    pub pod_list: Vec<PodReport>,
    /// Samples of pods that the selector doesn't match, or that the target doesn't own.
    pub unselected_samples: Option<UnselectedSamples>,
    /// The number of series of an External metric.
    pub series: Option<usize>,
}

/// A pod, and its class for a metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PodReport {
    /// The pod's name.
    pub name: String,
    /// The class of the pod.
    pub class: PodClass,
    /// The class in one word, for people.
    pub label: &'static str,
    /// The reason for the class.
    pub why: &'static str,
    /// Whether the pod is not ready, by its condition.
    #[serde(skip)]
    pub is_unready: bool,
    /// See [`is_in_start_up`].
    #[serde(skip)]
    pub(super) is_starting: bool,
    /// The value of the sample.
    #[serde(rename = "usageMilli")]
    pub usage: Option<MilliValue>,
    /// The time of the sample: the end of the window over which it was measured.
    pub sampled_at: Option<Timestamp>,
    /// The length of that window, if one was read.
    pub window_seconds: Option<i64>,
    /// The request or limit for a utilization target. Absent if the pod has none that is readable.
    #[serde(rename = "requestMilli")]
    pub request: Option<MilliValue>,
}

/// Samples of pods that are not among the selected ones: the selector doesn't match them, the
/// target doesn't own them, or they were deleted after the measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UnselectedSamples {
    /// The names of the pods, sorted.
    pub pods: Vec<String>,
    /// Whether the samples count in the average. They do unless only owned pods count.
    pub are_counted: bool,
    /// The sum of the samples.
    #[serde(rename = "totalMilli")]
    pub total: MilliValue,
}

pub(super) fn metric_reports(inputs: &Inputs, explanation: &Explanation) -> Vec<MetricReport> {
    let specs = inputs.hpa.spec.metrics.iter().enumerate();
    specs
        .zip(&explanation.metrics)
        .map(|((index, spec), explanation)| {
            let reading = inputs.readings.get(index).and_then(|reading| reading.as_ref().ok());
            MetricReport::new(inputs, index, spec, explanation.clone(), reading)
        })
        .collect()
}

impl MetricReport {
    /// The times of the newest and the oldest sample of the selected pods.
    pub fn sample_times(&self) -> Option<(Timestamp, Timestamp)> {
        let times = || self.pod_list.iter().filter_map(|pod| pod.sampled_at);
        Some((times().max()?, times().min()?))
    }

    fn new(
        inputs: &Inputs,
        index: usize,
        spec: &MetricSpec,
        explanation: MetricExplanation,
        reading: Option<&Reading>,
    ) -> Self {
        let pods = || inputs.selected.pods.iter().map(AsRef::as_ref);
        let (pod_list, unselected_samples) = match reading {
            Some(Reading::Pods(samples)) => {
                let pods =
                    pods().map(|pod| averaged_pod(inputs, index, spec, &explanation, pod, samples));
                (pods.collect(), unselected_samples(inputs, samples))
            }
            // The metric has a `value`, whose ratio is multiplied by the number of ready pods.
            Some(_) if explanation.pods.is_some() => {
                (pods().map(|pod| counted_pod(inputs, pod)).collect(), None)
            }
            _ => (Vec::new(), None),
        };
        let series = match reading {
            Some(Reading::External(values)) => Some(values.value.len()),
            _ => None,
        };
        Self {
            index,
            name: metric_name(&inputs.hpa.spec.metrics, index),
            is_memory: is_memory(spec),
            source_type: spec.source_type.clone(),
            explanation,
            pod_list,
            unselected_samples,
            series,
        }
    }
}

impl PodReport {
    /// A pod without a sample and without a request.
    fn new(inputs: &Inputs, pod: &Pod, class: PodClass, why: &'static str) -> Self {
        Self {
            name: pod.name.to_string(),
            class,
            label: class.label(),
            why,
            is_unready: is_unready(pod),
            is_starting: is_in_start_up(inputs, pod),
            usage: None,
            sampled_at: None,
            window_seconds: None,
            request: None,
        }
    }
}

/// The text about a CPU sample that counts although its pod is not ready.
const READY_BEFORE: &str = "is not ready, but its sample counts because it was ready before";
/// The same for other metrics.
const NEEDS_NO_READINESS: &str =
    "is not ready, but its sample counts because readiness matters only for CPU";

/// A pod in an average over pods.
fn averaged_pod(
    inputs: &Inputs,
    index: usize,
    spec: &MetricSpec,
    explanation: &MetricExplanation,
    pod: &Pod,
    samples: &PodSamples,
) -> PodReport {
    let settings = inputs.settings.metric(index);
    let container = spec.container_resource.as_ref().map(|source| source.container.as_str());
    let is_resource = spec.source_type.is_resource();
    let resource = is_resource.then(|| ResourceName::from(spec.metric_name()));
    let needs_request = !matches!(explanation.target, Some(TargetValue::Value(_))) && is_resource;
    let is_too_old = |sample: &PodSample| settings.is_too_old(sample.timestamp, inputs.now);
    let sample = samples.get(&pod.name).filter(|sample| !is_too_old(sample));
    let is_cpu = resource == Some(ResourceName::Cpu);
    let readiness = ReadinessRules::new(inputs.now, &inputs.settings);
    let reason = class_reason(pod, sample, is_cpu, &readiness);
    let request = resource.filter(|_| needs_request);
    let request = request.map(|name| request_or_limit(pod, container, &name, settings));
    let (class, why) = match &request {
        Some(Err(error)) if error.skips_pod(settings) => {
            (PodClass::Ignored, "is left out because it lacks the request or limit")
        }
        _ if reason == PodClassReason::SampleCounts && is_unready(pod) => {
            (PodClass::Ready, if is_cpu { READY_BEFORE } else { NEEDS_NO_READINESS })
        }
        _ if reason == PodClassReason::NoSample && is_unready(pod) => {
            (PodClass::Missing, "is not ready and has no value")
        }
        _ => (reason.class(), reason.text()),
    };
    PodReport {
        usage: sample.map(|sample| sample.value),
        sampled_at: sample.map(|sample| sample.timestamp),
        window_seconds: sample.map(|sample| sample.window.as_secs()).filter(|window| *window > 0),
        request: request.and_then(Result::ok),
        ..PodReport::new(inputs, pod, class, why)
    }
}

/// A pod of a metric with a `value`, which only counts pods.
fn counted_pod(inputs: &Inputs, pod: &Pod) -> PodReport {
    if pod.is_running_and_ready() {
        PodReport::new(inputs, pod, PodClass::Ready, "runs and is ready")
    } else {
        PodReport::new(inputs, pod, PodClass::Unready, "doesn't run or is not ready")
    }
}

fn unselected_samples(inputs: &Inputs, samples: &PodSamples) -> Option<UnselectedSamples> {
    let selected: HashSet<&str> = inputs.selected.pods.iter().map(|pod| &*pod.name).collect();
    let mut pods = Vec::new();
    let mut total = MilliValue::ZERO;
    for (name, sample) in samples.iter().filter(|(name, _)| !selected.contains(name)) {
        pods.push(name.to_owned());
        total = total.saturating_add(sample.value);
    }
    pods.sort();
    (!pods.is_empty()).then(|| {
        let are_counted = inputs.settings.pods == PodSelection::Selected;
        UnselectedSamples { pods, are_counted, total }
    })
}
