//! The workload and the metrics of a rebuilt scenario.

use anyhow::bail;
use hpa_calc::HorizontalPodAutoscaler;
use hpa_simulate::report::{percent, span};
use serde_json::{Value, json};

use super::{
    metric::{Metric, Source, Target},
    past::{Past, Recorded, Startup},
    rebuild::{Line, fit},
    series::{Series, significant},
};

/// The maximum error of a good fit, as a share of the metric's mean.
const GOOD_FIT: f64 = 0.1;

const NANO: f64 = 1e9;
const MILLI: f64 = 1e3;

/// The load changes to the value of a sample this many seconds before the sample. The model
/// measures the load over the 15 s before a sample, so the autoscaler reads the recorded value.
const LEAD_SECONDS: f64 = 14.5;
/// The assumed start-up time of pods without data, in seconds.
const DEFAULT_STARTUP: f64 = 10.0;

/// A scenario and its assumptions.
#[derive(Clone, Debug)]
pub(super) struct Rebuilt {
    pub(super) scenario: Value,
    /// The metric that is the load.
    pub(super) load: String,
    pub(super) assumptions: Vec<String>,
}

/// The parts of the scenario that depend on metrics.
pub(super) struct Model {
    workload: String,
    container: Option<String>,
    profile: serde_json::Map<String, Value>,
    pod_metrics: Vec<Value>,
    object_metrics: Vec<Value>,
    external_metrics: Vec<Value>,
    resources: Vec<String>,
    assumptions: Vec<String>,
}

impl Model {
    pub(super) fn new(past: &Past, main: &Metric, hpa: &HorizontalPodAutoscaler) -> Self {
        let startup = match past.startup {
            Startup::Given(seconds) | Startup::Recorded(seconds) => seconds,
            Startup::Unknown => DEFAULT_STARTUP,
        };
        // Pods without load use nothing, because the recorded total includes all usage.
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
            model.assume(format!(
                "The load is that of {}, which asked for the most replicas most of the time.",
                main.describe()
            ));
        }
        if past.startup == Startup::Unknown {
            model.assume(format!(
                "Pods are ready {DEFAULT_STARTUP} s after their creation: Prometheus has no \
                 kube_pod_status_ready_time (--pod-startup)."
            ));
        }
        for (name, request) in &past.requests {
            let (field, value) = match name.as_str() {
                "cpu" => ("cpuRequest", nano(*request)),
                _ => ("memoryRequest", milli(*request)),
            };
            model.profile.insert(field.to_owned(), value.into());
        }
        model
    }

    pub(super) fn assume(&mut self, sentence: String) {
        self.assumptions.push(sentence);
    }

    /// Assigns a metric to a resource of the container. The model has one container, and one value
    /// per resource.
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

    fn set(&mut self, field: &str, value: String) {
        self.profile.insert(field.to_owned(), value.into());
    }

    /// Adds the metric that is the load.
    pub(super) fn add_load(&mut self, recorded: &Recorded) {
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
                    "cpu" => self.set("cpuPerUnit", "1".to_owned()),
                    _ => self.set("memoryPerUnit", "1Mi".to_owned()),
                }
            }
            Source::Pods { labels, .. } => {
                self.pod_metrics.push(json!({ "name": name, "labels": labels }));
            }
            Source::Object { .. } | Source::External { .. } => {
                self.add_value(&recorded.metric, value);
            }
        }
        if let (Target::Value(_), false) = (target, source.is_of_pods()) {
            self.assume(format!(
                "The value of {name} falls as replicas are added: the load is the value times the \
                 replicas."
            ));
        }
    }

    /// Adds an object metric or an external metric with its value.
    fn add_value(&mut self, metric: &Metric, value: Value) {
        let name = &metric.name;
        match &metric.source {
            Source::Object { object, labels, .. } => {
                let api_version =
                    if object.api_version.is_empty() { "v1" } else { &object.api_version };
                let object = json!({
                    "apiVersion": api_version, "kind": object.kind, "name": object.name,
                });
                self.object_metrics.push(
                    json!({ "metric": name, "labels": labels, "object": object, "value": value }),
                );
            }
            Source::External { labels, .. } => {
                self.external_metrics
                    .push(json!({ "metric": name, "labels": labels, "value": value }));
            }
            Source::Resource { .. } | Source::Pods { .. } => {}
        }
    }

    /// Adds a metric other than the load. Metrics of pods become linear functions of the load.
    /// Others have their recorded values.
    pub(super) fn add_other(
        &mut self,
        other: &Recorded,
        past: &Past,
        per_pod: &Series,
    ) -> anyhow::Result<()> {
        let Metric { name, source, target, .. } = &other.metric;
        if !source.is_of_pods() {
            let points = other.value.points(past.window.step as f64);
            self.add_value(&other.metric, json!({ "curve": samples(&points) }));
            if let Target::Value(_) = target {
                self.assume(format!("{name} has its recorded value, regardless of the replicas."));
            }
            return Ok(());
        }
        let pod_values =
            other.value.zip(&past.replicas, |value, replicas| value / replicas.max(1.0));
        let line = fit(per_pod, &pod_values);
        self.assume(describe_fit(&other.metric, line));
        let Line { base, slope, .. } = line;
        match source {
            Source::Resource { container } => {
                self.claim_resource(&other.metric, container.as_deref())?;
                if name == "cpu" {
                    self.set("idleCpu", nano(base));
                    self.set("cpuPerUnit", nano(slope));
                } else {
                    self.set("idleMemory", milli(base));
                    self.set("memoryPerUnit", milli(slope));
                }
            }
            Source::Pods { labels, .. } => self.pod_metrics.push(json!({
                "name": name, "labels": labels,
                "base": significant(base), "perUnit": significant(slope),
            })),
            Source::Object { .. } | Source::External { .. } => {}
        }
        Ok(())
    }

    pub(super) fn assume_gaps(&mut self, past: &Past, load: &Series) {
        let step = past.window.step as f64;
        let coverage = load.coverage();
        let longest = load.gaps(2).into_iter().map(|(_, len)| len).max();
        if let Some(longest) = longest {
            self.assume(format!(
                "The load is recorded for {} of the time. Gaps, the longest of {}, are filled on \
                 the line between their ends.",
                percent(coverage),
                span(longest as f64 * step)
            ));
        }
    }

    pub(super) fn finish(
        mut self,
        past: &Past,
        recorded: &Recorded,
        load: &Series,
        capacity: f64,
    ) -> Rebuilt {
        if let Some(container) = &self.container {
            self.profile.insert("container".to_owned(), container.as_str().into());
        }
        self.profile.insert("capacity".to_owned(), significant(capacity).into());
        let replicas = past.replicas.values().next().unwrap_or(1.0).round();
        let workload = json!({
            "replicas": whole(replicas),
            "profile": self.profile,
            "podMetrics": self.pod_metrics,
            "load": load_samples(&recorded.metric, load, past.window.step as f64),
        });
        let scenario = json!({
            "seed": 1,
            "duration": past.window.seconds(),
            "loadUnit": recorded.metric.load_unit(),
            "workload": workload,
            "objectMetrics": self.object_metrics,
            "externalMetrics": self.external_metrics,
        });
        Rebuilt { scenario, load: recorded.metric.describe(), assumptions: self.assumptions }
    }
}

/// Replicas as a whole number.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
fn whole(replicas: f64) -> u32 {
    replicas as u32
}

fn samples(points: &[(f64, f64)]) -> Value {
    json!({ "samples": { "points": points } })
}

/// The load over time. CPU rates are interpolated linearly. A sample of another metric is valid
/// until the next one.
fn load_samples(metric: &Metric, load: &Series, step: f64) -> Value {
    let is_rate = matches!(metric.source, Source::Resource { .. }) && metric.name == "cpu";
    if is_rate {
        return samples(&load.points(step));
    }
    let points = load.held_points(step, LEAD_SECONDS);
    json!({ "samples": { "points": points, "interpolation": "step" } })
}

fn describe_fit(metric: &Metric, line: Line) -> String {
    let name = metric.describe();
    let error = percent(line.error);
    let quality = if line.error <= GOOD_FIT {
        format!("that is off by {error} on average")
    } else {
        format!("which is off by {error} on average, so don't trust variants that depend on it")
    };
    format!("{name} of a pod is a linear function of its load, {quality}.")
}

/// A quantity of CPU, in billionths of a core.
fn nano(cores: f64) -> String {
    format!("{:.0}n", (cores * NANO).max(0.0))
}

/// A quantity of bytes.
fn milli(bytes: f64) -> String {
    format!("{:.0}m", (bytes * MILLI).max(0.0))
}
