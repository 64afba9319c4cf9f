//! The workload and the metrics of a rebuilt scenario.

use anyhow::bail;
use hpa_calc::HorizontalPodAutoscaler;
use hpa_simulate::report::{format_duration, percent};
use serde_json::{Value, json};

use super::{
    fit::{Line, fit},
    metric::{Metric, Source, Target, matching_labels},
    past::{Past, RecordedMetric},
    series::{Series, six_digits},
};

/// The maximum error of a good fit, as a share of the metric's mean.
const GOOD_FIT: f64 = 0.1;

const NANOS_PER_CORE: f64 = 1e9;
const MILLIS_PER_BYTE: f64 = 1e3;

/// The load gets the value of a sample this many seconds before the sample. The simulation measures
/// the load over the 15 s before a sample, so the autoscaler reads the recorded value.
const LEAD_SECONDS: f64 = 14.5;
/// The assumed start-up time of pods if none is recorded, in seconds.
const DEFAULT_STARTUP: f64 = 10.0;

/// A scenario, and the assumptions on which it was rebuilt.
#[derive(Clone, Debug)]
pub(super) struct RebuiltScenario {
    pub(super) scenario: Value,
    /// The name of the metric from which the load was derived.
    pub(super) load_metric: String,
    pub(super) assumptions: Vec<String>,
}

/// Builds the parts of the scenario that depend on metrics.
pub(super) struct Model {
    workload: String,
    container: Option<String>,
    profile: serde_json::Map<String, Value>,
    pod_metrics: Vec<Value>,
    object_metrics: Vec<Value>,
    external_metrics: Vec<Value>,
    /// The resources that metrics have claimed.
    resources: Vec<String>,
    assumptions: Vec<String>,
}

impl Model {
    pub(super) fn new(past: &Past, main: &Metric, hpa: &HorizontalPodAutoscaler) -> Self {
        let startup = past.startup.unwrap_or(DEFAULT_STARTUP);
        // All recorded usage is load, so pods without load use nothing.
        let profile = json!({
            "scheduling": 0, "starting": startup / 2.0, "readiness": startup / 2.0,
            "startupCpu": "0", "idleCpu": "0", "cpuPerUnit": "0", "idleMemory": "0",
            "memoryPerUnit": "0",
        });
        let mut model = Self {
            workload: hpa.spec.scale_target_ref.name.clone(),
            container: None,
            profile: profile.as_object().cloned().unwrap_or_default(),
            pod_metrics: Vec::new(),
            object_metrics: Vec::new(),
            external_metrics: Vec::new(),
            resources: Vec::new(),
            assumptions: Vec::new(),
        };
        if past.metrics.len() > 1 {
            model.add_assumption(format!(
                "The load is that of {}, which asked for the most replicas most of the time.",
                main.describe()
            ));
        }
        if past.startup.is_none() {
            model.add_assumption(format!(
                "Pods are ready {DEFAULT_STARTUP} s after their creation: Prometheus has no \
                 kube_pod_status_ready_time (--pod-startup)."
            ));
        }
        for (name, request) in &past.requests {
            let (field, value) = match name.as_str() {
                "cpu" => ("cpuRequest", cpu_quantity(*request)),
                _ => ("memoryRequest", memory_quantity(*request)),
            };
            model.profile.insert(field.to_owned(), value.into());
        }
        model
    }

    pub(super) fn add_assumption(&mut self, sentence: String) {
        self.assumptions.push(sentence);
    }

    /// Reserves a resource of the container for a metric. Fails if the resource is taken, or if the
    /// metric is of another container, because the model has only one.
    fn claim_resource(&mut self, metric: &Metric, container: Option<&str>) -> anyhow::Result<()> {
        let differs = self.container.as_deref().is_some_and(|claimed| Some(claimed) != container);
        let is_other_container = container.is_some() && differs;
        if is_other_container || self.resources.contains(&metric.name) {
            bail!(
                "{}: replay models one container, and one metric of {}: add --ignore-metric={}",
                metric.field,
                metric.name,
                metric.index
            );
        }
        if let Some(container) = container {
            self.container = Some(container.to_owned());
        }
        self.resources.push(metric.name.clone());
        Ok(())
    }

    fn set_profile(&mut self, field: &str, value: String) {
        self.profile.insert(field.to_owned(), value.into());
    }

    /// Adds the metric from which the load was derived.
    pub(super) fn add_load(&mut self, recorded: &RecordedMetric) {
        let Metric { name, source, target, .. } = &recorded.metric;
        let workload = self.workload.clone();
        let value = match target {
            Target::Value(_) => json!({ "loadPerPod": workload }),
            _ => json!({ "load": workload }),
        };
        match source {
            Source::Resource { container } => {
                self.container.clone_from(container);
                self.resources.push(name.clone());
                match name.as_str() {
                    "cpu" => self.set_profile("cpuPerUnit", "1".to_owned()),
                    _ => self.set_profile("memoryPerUnit", "1Mi".to_owned()),
                }
            }
            Source::Pods(metric) => {
                let labels = matching_labels(metric);
                self.pod_metrics.push(json!({ "name": name, "labels": labels }));
            }
            Source::Object { .. } | Source::External(_) => self.add_value(&recorded.metric, value),
        }
        if let (Target::Value(_), false) = (target, source.is_of_pods()) {
            self.add_assumption(format!(
                "The value of {name} falls as replicas are added: the load is the value times the \
                 replicas."
            ));
        }
    }

    /// Adds an object metric or an external metric with the given value.
    fn add_value(&mut self, metric: &Metric, value: Value) {
        let name = &metric.name;
        match &metric.source {
            Source::Object { object, identifier } => {
                let api_version =
                    if object.api_version.is_empty() { "v1" } else { &object.api_version };
                let object = json!({
                    "apiVersion": api_version, "kind": object.kind, "name": object.name,
                });
                self.object_metrics.push(json!({
                    "metric": name, "labels": matching_labels(identifier), "object": object,
                    "value": value,
                }));
            }
            Source::External(identifier) => self.external_metrics.push(json!({
                "metric": name, "labels": matching_labels(identifier), "value": value,
            })),
            Source::Resource { .. } | Source::Pods(_) => {}
        }
    }

    /// Adds another metric. A metric of pods becomes a linear function of the load. An object or
    /// external metric gets its recorded values.
    pub(super) fn add_other(
        &mut self,
        other: &RecordedMetric,
        past: &Past,
        per_pod: &Series,
    ) -> anyhow::Result<()> {
        let Metric { name, source, target, .. } = &other.metric;
        if !source.is_of_pods() {
            let points = other.value.points(past.window.step_seconds as f64);
            self.add_value(&other.metric, json!({ "curve": linear_load(&points) }));
            if let Target::Value(_) = target {
                self.add_assumption(format!(
                    "{name} has its recorded value, regardless of the replicas."
                ));
            }
            return Ok(());
        }
        let pod_values =
            other.value.zip(&past.replicas, |value, replicas| value / replicas.max(1.0));
        let line = fit(per_pod, &pod_values);
        self.add_assumption(describe_fit(&other.metric, line));
        let Line { base, slope, .. } = line;
        match source {
            Source::Resource { container } => {
                self.claim_resource(&other.metric, container.as_deref())?;
                if name == "cpu" {
                    self.set_profile("idleCpu", cpu_quantity(base));
                    self.set_profile("cpuPerUnit", cpu_quantity(slope));
                } else {
                    self.set_profile("idleMemory", memory_quantity(base));
                    self.set_profile("memoryPerUnit", memory_quantity(slope));
                }
            }
            Source::Pods(metric) => self.pod_metrics.push(json!({
                "name": name, "labels": matching_labels(metric),
                "base": six_digits(base), "perUnit": six_digits(slope),
            })),
            Source::Object { .. } | Source::External(_) => {}
        }
        Ok(())
    }

    /// Adds the assumption about gaps in the load, if one has at least two steps.
    pub(super) fn add_gap_assumption(&mut self, past: &Past, load: &Series) {
        let step = past.window.step_seconds as f64;
        let coverage = load.coverage();
        let longest = load.gaps(2).into_iter().map(|(_, len)| len).max();
        if let Some(longest) = longest {
            self.add_assumption(format!(
                "The load is recorded for {} of the time. Gaps (the longest: {}) are \
                 interpolated linearly.",
                percent(coverage),
                format_duration(longest as f64 * step)
            ));
        }
    }

    pub(super) fn finish(
        mut self,
        past: &Past,
        recorded: &RecordedMetric,
        load: &Series,
        capacity: f64,
    ) -> RebuiltScenario {
        if let Some(container) = &self.container {
            self.profile.insert("container".to_owned(), container.as_str().into());
        }
        self.profile.insert("capacity".to_owned(), six_digits(capacity).into());
        let replicas = past.replicas.values().next().unwrap_or(1.0).round();
        let workload = json!({
            "replicas": whole_replicas(replicas),
            "profile": self.profile,
            "podMetrics": self.pod_metrics,
            "load": load_samples(&recorded.metric, load, past.window.step_seconds as f64),
        });
        let scenario = json!({
            "seed": 1,
            "duration": past.window.seconds(),
            "loadUnit": recorded.metric.load_unit(),
            "workload": workload,
            "objectMetrics": self.object_metrics,
            "externalMetrics": self.external_metrics,
        });
        RebuiltScenario {
            scenario,
            load_metric: recorded.metric.describe(),
            assumptions: self.assumptions,
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
fn whole_replicas(replicas: f64) -> u32 {
    replicas as u32
}

fn linear_load(points: &[(f64, f64)]) -> Value {
    json!({ "samples": { "points": not_negative(points) } })
}

/// The points with 0 for each negative value. A scenario has no negative loads.
fn not_negative(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    points.iter().map(|(second, value)| (*second, value.max(0.0))).collect()
}

/// The load over time. Between samples, CPU rates are linear, and other metrics keep their last
/// value.
fn load_samples(metric: &Metric, load: &Series, step: f64) -> Value {
    let is_rate = matches!(metric.source, Source::Resource { .. }) && metric.name == "cpu";
    if is_rate {
        return linear_load(&load.points(step));
    }
    let points = not_negative(&load.step_points(step, LEAD_SECONDS));
    json!({ "samples": { "points": points, "interpolation": "step" } })
}

fn describe_fit(metric: &Metric, line: Line) -> String {
    let name = metric.describe();
    let error = percent(line.error);
    let quality = if line.error <= GOOD_FIT {
        format!("which is off by {error} on average")
    } else {
        format!("which is off by {error} on average, so don't trust variants that depend on it")
    };
    format!("{name} of a pod is a linear function of its load, {quality}.")
}

/// A Kubernetes quantity of CPU in billionths of a core, such as `250000000n`.
fn cpu_quantity(cores: f64) -> String {
    format!("{:.0}n", (cores * NANOS_PER_CORE).max(0.0))
}

/// A Kubernetes quantity of memory in thousandths of a byte.
fn memory_quantity(bytes: f64) -> String {
    format!("{:.0}m", (bytes * MILLIS_PER_BYTE).max(0.0))
}
