//! Rebuilds a scenario of `hpa simulate` from the recorded past of an autoscaler.

use anyhow::bail;
use hpa_calc::HorizontalPodAutoscaler;
use hpa_simulate::report::{format_duration, percent, six_digits};
use serde_json::{Value, json};

use super::{
    fit::{Line, fit},
    load::{MainLoad, main_load},
    metric::{Metric, Source, Target, matching_labels},
    past::{Past, RecordedMetric},
    series::Series,
};

/// The maximum error of a good fit, as a share of the metric's mean.
const GOOD_FIT: f64 = 0.1;

const NANOS_PER_CORE: f64 = 1e9;
const MILLIS_PER_BYTE: f64 = 1e3;

/// The load gets the value of a sample this many seconds before the sample. The simulation measures
/// the load over the 15 s before a sample, so the autoscaler reads the recorded value.
const LEAD_SECONDS: f64 = 14.5;

/// The pointer to the metrics of pods in a scenario.
const POD_METRICS: &str = "/workload/podMetrics";

/// The assumed start-up time of pods if none is recorded, in seconds.
const DEFAULT_STARTUP: f64 = 10.0;

/// The minimum capacity of a pod without `--pod-capacity`, as a multiple of its target. The
/// capacity limits a pod's metrics. These must be able to reach twice the target, because an
/// autoscaler can double the replicas at once by default.
const TARGETS_PER_POD: f64 = 2.0;

/// A scenario, and the assumptions on which it was rebuilt.
#[derive(Clone, Debug)]
pub(super) struct RebuiltScenario {
    pub(super) scenario: Value,
    /// The name of the metric from which the load was derived.
    pub(super) load_metric: String,
    pub(super) assumptions: Vec<String>,
    /// The assumption about the capacity of a pod. `None` with `--pod-capacity`.
    pub(super) capacity_assumption: Option<String>,
}

/// Rebuilds the load from the main metric, and the other metrics as functions of the load.
pub(super) fn rebuild(
    past: &Past,
    hpa: &HorizontalPodAutoscaler,
) -> anyhow::Result<RebuiltScenario> {
    let MainLoad { index: main, recorded, load, target } = main_load(past)?;
    let load_per_pod = divide_by_replicas(&load, &past.replicas);
    let mut builder = ScenarioBuilder::new(past, &recorded.metric, hpa);
    for (index, other) in past.metrics.iter().enumerate() {
        if index != main {
            builder.add_other(other, &load_per_pod)?;
        }
    }
    let max_per_pod = load_per_pod.quantile(1.0).unwrap_or_default();
    let capacity = past.capacity.unwrap_or_else(|| max_per_pod.max(TARGETS_PER_POD * target));
    let capacity_assumption = past.capacity.is_none().then(|| {
        let basis =
            if max_per_pod >= capacity { "the most that one served" } else { "twice the target" };
        format!(
            "The capacity of a pod is assumed: {basis}, {}. Overload, latency and risk depend on \
             it: measure it, and replay with --pod-capacity.",
            recorded.metric.load_amount(six_digits(capacity))
        )
    });
    builder.assumptions.extend(capacity_assumption.clone());
    let (scenario, assumptions) = builder.finish(&load, capacity);
    let load_metric = recorded.metric.describe();
    Ok(RebuiltScenario { scenario, load_metric, assumptions, capacity_assumption })
}

/// Builds the parts of a scenario that depend on metrics.
struct ScenarioBuilder<'p> {
    past: &'p Past,
    /// The metric from which the load was derived.
    main: &'p Metric,
    scenario: Value,
    container: Option<String>,
    /// The resources that metrics have claimed.
    resources: Vec<String>,
    assumptions: Vec<String>,
}

impl<'p> ScenarioBuilder<'p> {
    /// A scenario of a workload with the metric from which the load was derived.
    fn new(past: &'p Past, main: &'p Metric, hpa: &HorizontalPodAutoscaler) -> Self {
        let startup = past.startup.unwrap_or(DEFAULT_STARTUP);
        let replicas = past.replicas.values().next().unwrap_or(1.0).round();
        // All recorded usage is load, so pods without load use nothing.
        let profile = json!({
            "scheduling": 0, "starting": startup / 2.0, "readiness": startup / 2.0,
            "startupCpu": "0", "idleCpu": "0", "cpuPerUnit": "0", "idleMemory": "0",
            "memoryPerUnit": "0",
        });
        let workload = json!({
            "replicas": whole_replicas(replicas), "profile": profile, "podMetrics": [],
        });
        let scenario = json!({
            "seed": 1, "start": past.window.start.to_string(), "duration": past.window.seconds(),
            "loadUnit": main.load_unit(),
            "workload": workload, "objectMetrics": [], "externalMetrics": [],
        });
        let (resources, mut assumptions) = (Vec::new(), Vec::new());
        if past.metrics.len() > 1 {
            assumptions.push(format!(
                "The load is that of {}, which asked for the most replicas most of the time.",
                main.describe()
            ));
        }
        if past.startup.is_none() {
            assumptions.push(format!(
                "Pods are ready {DEFAULT_STARTUP} s after their creation: Prometheus has no \
                 kube_pod_status_ready_time (--pod-startup)."
            ));
        }
        let mut builder = Self { past, main, scenario, container: None, resources, assumptions };
        for (name, request) in &past.pod_requests {
            match name.as_str() {
                "cpu" => builder.set_profile("cpuRequest", cpu_quantity(*request)),
                _ => builder.set_profile("memoryRequest", memory_quantity(*request)),
            }
        }
        builder.add_load(&hpa.spec.scale_target_ref.name);
        builder
    }

    /// Reserves a resource of the container for a metric. Fails if the resource is taken, or if the
    /// metric is of another container, because a simulated pod has only one.
    fn claim_resource(&mut self, metric: &Metric, container: Option<&str>) -> anyhow::Result<()> {
        let claimed = self.container.as_deref();
        let is_other_container = claimed.is_some() && container.is_some() && claimed != container;
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

    #[expect(clippy::indexing_slicing, reason = "the scenario has a profile")]
    fn set_profile(&mut self, field: &str, value: impl Into<Value>) {
        self.scenario["workload"]["profile"][field] = value.into();
    }

    /// Adds a metric to a list of the scenario, which `pointer` names.
    fn add_metric(&mut self, pointer: &str, metric: Value) {
        if let Some(list) = self.scenario.pointer_mut(pointer).and_then(Value::as_array_mut) {
            list.push(metric);
        }
    }

    /// Adds the metric from which the load of `workload` was derived.
    fn add_load(&mut self, workload: &str) {
        let main = self.main;
        let name = &main.name;
        match &main.source {
            Source::Resource { container } => {
                self.container.clone_from(container);
                self.resources.push(name.clone());
                match name.as_str() {
                    "cpu" => self.set_profile("cpuPerUnit", "1"),
                    _ => self.set_profile("memoryPerUnit", "1Mi"),
                }
            }
            Source::Pods(metric) => {
                let labels = matching_labels(metric);
                self.add_metric(POD_METRICS, json!({ "name": name, "labels": labels }));
            }
            Source::Object { .. } | Source::External(_) => {
                let field = if main.falls_with_replicas() { "loadPerPod" } else { "load" };
                self.add_value(main, json!({ field: workload }));
            }
        }
        if main.is_divided() {
            self.assumptions.push(format!(
                "The collector divides the value of {name} by the replicas: the load is the value \
                 before that."
            ));
        } else if main.falls_with_replicas() {
            self.assumptions.push(format!(
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
                let labels = matching_labels(identifier);
                let metric =
                    json!({ "metric": name, "labels": labels, "object": object, "value": value });
                self.add_metric("/objectMetrics", metric);
            }
            Source::External(identifier) => {
                let labels = matching_labels(identifier);
                let metric = json!({ "metric": name, "labels": labels, "value": value });
                self.add_metric("/externalMetrics", metric);
            }
            Source::Resource { .. } | Source::Pods(_) => {}
        }
    }

    /// Adds another metric. A metric of pods becomes a linear function of the load. An object or
    /// external metric gets its recorded values.
    fn add_other(&mut self, other: &RecordedMetric, load_per_pod: &Series) -> anyhow::Result<()> {
        let Metric { name, source, target, .. } = &other.metric;
        let value_per_pod = || divide_by_replicas(&other.value, &self.past.replicas);
        if !source.is_of_pods() {
            let value =
                if other.metric.is_divided() { value_per_pod() } else { other.value.clone() };
            let points = value.points(self.past.window.step_seconds as f64);
            self.add_value(&other.metric, json!({ "curve": linear_load(&points) }));
            if let Target::Value(_) = target {
                self.assumptions
                    .push(format!("{name} has its recorded value, regardless of the replicas."));
            }
            return Ok(());
        }
        let line = fit(load_per_pod, &value_per_pod());
        self.assumptions.push(describe_fit(&other.metric, line));
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
            Source::Pods(metric) => {
                let metric = json!({
                    "name": name, "labels": matching_labels(metric),
                    "base": six_digits(base), "perUnit": six_digits(slope),
                });
                self.add_metric(POD_METRICS, metric);
            }
            Source::Object { .. } | Source::External(_) => {}
        }
        Ok(())
    }

    /// Adds the load, and an assumption about its gaps, if one has at least two steps. `capacity`
    /// is the load that a pod can serve. Returns the scenario and the assumptions.
    #[expect(clippy::indexing_slicing, reason = "the scenario has a workload")]
    fn finish(mut self, load: &Series, capacity: f64) -> (Value, Vec<String>) {
        let step = self.past.window.step_seconds as f64;
        let longest = load.longest_gap();
        if longest > 1 {
            self.assumptions.push(format!(
                "The load is recorded for {} of the time. Gaps (the longest: {}) are \
                 interpolated linearly.",
                percent(load.coverage()),
                format_duration(longest as f64 * step)
            ));
        }
        if let Some(container) = self.container.take() {
            self.set_profile("container", container);
        }
        self.set_profile("capacity", six_digits(capacity));
        self.scenario["workload"]["load"] = load_samples(self.main, load, step);
        (self.scenario, self.assumptions)
    }
}

/// The share of each pod. Without pods, the whole value.
fn divide_by_replicas(value: &Series, replicas: &Series) -> Series {
    value.zip(replicas, |value, replicas| value / replicas.max(1.0))
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
    if metric.resource() == Some("cpu") {
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
