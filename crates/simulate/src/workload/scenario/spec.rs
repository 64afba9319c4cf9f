//! The schema of scenarios.

use std::collections::BTreeMap;

use hpa_calc::crd::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    decode::{ScenarioFileError, decode, positions, read_yaml},
    incident::Incident,
};
use crate::workload::{
    load::Load, profile::PodProfile, samples_file::parse_offsets, seconds::Seconds,
    series::SourceSettings,
};

/// A scenario: the objects in the cluster, their load, the accuracy of metrics, and incidents.
///
/// Written in YAML, with fields in camel case such as `maxPods`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Scenario {
    pub name: String,
    pub description: String,
    /// Seed of the random numbers. The same seed results in the same run.
    pub seed: u64,
    /// The duration in simulated time.
    pub duration: Seconds,
    /// Whether the initial pods have been ready for ten minutes at the start, and have metrics.
    /// Otherwise, they are created at the start.
    pub warm: bool,
    /// The number of pods that can be scheduled. Further pods stay pending.
    pub max_pods: Option<u32>,
    /// The profile of workloads that don't have their own.
    pub default_profile: PodProfile,
    /// Workloads to create at the start.
    pub workloads: Vec<WorkloadSpec>,
    /// Queues that workloads drain.
    pub queues: Vec<QueueSpec>,
    /// Custom metrics of objects other than pods.
    pub object_metrics: Vec<ObjectMetricSpec>,
    /// External metrics other than those of queues.
    pub external_metrics: Vec<ExternalMetricSpec>,
    /// Accuracy of metrics.
    pub metrics: MetricsSettings,
    pub incidents: Vec<Incident>,
    /// Further objects to create at the start, such as autoscalers.
    pub manifests: Vec<Value>,
    /// Faults of the API server, for the caller: see `Fault::from_json` of `hpa-testbed`.
    pub faults: Vec<Value>,
}

/// Reads a file that a scenario refers to.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// The time that [`WorkloadSpec::past`] describes: four weeks.
pub const PAST_MINUTES: u32 = 28 * 24 * 60;
/// [`PAST_MINUTES`] in seconds.
pub const PAST_SECONDS: f64 = PAST_MINUTES as f64 * 60.0;

/// An object with pods, and the load on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct WorkloadSpec {
    /// The name, which is also the value of the pods' label `app`.
    pub name: String,
    /// The namespace, which is created if it doesn't exist.
    pub namespace: String,
    pub kind: String,
    /// Required for custom resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Replicas at the start.
    pub replicas: u32,
    /// By default the scenario's default profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<PodProfile>,
    /// The total load, in units per second.
    pub load: Load,
    /// The load in the four weeks before the start, for autoscalers with forecasts. Its times count
    /// from the start of these weeks. By default that of `load`, so a repeated load also repeats in
    /// the past.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub past: Option<Load>,
    /// Custom metrics of the pods (`type: Pods`).
    pub pod_metrics: Vec<PodMetricSpec>,
    /// Further fields of the object's spec, such as `strategy` or `minReadySeconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<serde_json::Map<String, Value>>,
}

/// A custom metric of pods. Its value is `base + perUnit × load served`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodMetricSpec {
    pub name: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub base: f64,
    /// Increase per unit of load per second.
    #[serde(default = "default_per_unit")]
    pub per_unit: f64,
}

/// A queue. Its backlog is an external metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueueSpec {
    pub name: String,
    /// Arriving work, in units per second.
    pub arrivals: Load,
    /// The workload that drains the queue (`name` or `namespace/name`). `hpa simulate` defaults to
    /// the autoscaler's target.
    #[serde(default)]
    pub workload: String,
    /// The maximum that a pod drains, in units per second. By default, the capacity that its other
    /// load leaves.
    #[serde(default)]
    pub drain_per_pod: Option<f64>,
    /// Waiting work at the start.
    #[serde(default)]
    pub backlog: f64,
    /// Name of the external metric.
    pub metric: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// A custom metric of an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectMetricSpec {
    pub metric: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The described object, which need not exist.
    pub object: ObjectRef,
    pub value: ValueSource,
}

/// An object that a metric describes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectRef {
    #[serde(default = "default_api_version")]
    pub api_version: String,
    pub kind: String,
    #[serde(default = "default_namespace")]
    pub namespace: String,
    pub name: String,
    /// The plural name such as `ingresses`, if it can't be derived from the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExternalMetricSpec {
    pub metric: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    pub value: ValueSource,
}

/// The source of a metric's value. Workloads are given by `name` or `namespace/name`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum ValueSource {
    /// The load on a workload, in units per second.
    Load(String),
    /// The load on a workload, in units per second, divided by its ready pods.
    LoadPerPod(String),
    /// The load that a workload serves, in units per second.
    Served(String),
    /// The backlog of a queue.
    Backlog(String),
    /// A curve that doesn't depend on workloads and queues.
    Curve(Load),
}

/// The accuracy of each source of metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct MetricsSettings {
    /// CPU and memory from metrics-server.
    pub resource: SourceSettings,
    /// Custom metrics of pods.
    pub pods: SourceSettings,
    /// Custom metrics of other objects.
    pub object: SourceSettings,
    pub external: SourceSettings,
}

fn default_namespace() -> String {
    "default".to_owned()
}

fn default_api_version() -> String {
    "v1".to_owned()
}

fn default_per_unit() -> f64 {
    1.0
}

impl Default for Scenario {
    /// An empty scenario of twenty minutes.
    fn default() -> Self {
        Self {
            name: String::new(),
            description: String::new(),
            seed: 0,
            duration: Seconds::new(1200.0),
            warm: true,
            max_pods: None,
            default_profile: PodProfile::default(),
            workloads: Vec::new(),
            queues: Vec::new(),
            object_metrics: Vec::new(),
            external_metrics: Vec::new(),
            metrics: MetricsSettings::default(),
            incidents: Vec::new(),
            manifests: Vec::new(),
            faults: Vec::new(),
        }
    }
}

impl Default for WorkloadSpec {
    /// A Deployment in the namespace `default` with one replica of the default profile and no load.
    fn default() -> Self {
        Self {
            name: String::new(),
            namespace: default_namespace(),
            kind: "Deployment".to_owned(),
            api_version: None,
            replicas: 1,
            profile: None,
            load: Load::default(),
            past: None,
            pod_metrics: Vec::new(),
            spec: None,
        }
    }
}

impl ObjectRef {
    /// The API group. Empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }
}

impl PodMetricSpec {
    /// The value for a pod that serves this load, in units per second.
    pub fn value(&self, served: f64) -> f64 {
        self.base + self.per_unit * served
    }
}

impl WorkloadSpec {
    /// The load at a second after the start, or before it if negative.
    pub fn load_at(&self, second: f64) -> f64 {
        match &self.past {
            Some(past) if second < 0.0 => past.at(second + PAST_SECONDS),
            _ => self.load.at(second),
        }
    }
}

impl Scenario {
    /// The profile of a workload's pods.
    pub fn profile<'a>(&'a self, workload: &'a WorkloadSpec) -> &'a PodProfile {
        workload.profile.as_ref().unwrap_or(&self.default_profile)
    }

    /// Parses and validates a scenario. Files that it refers to aren't read: see
    /// [`Scenario::parse_with_files`].
    pub fn parse(text: &str) -> Result<Self, ScenarioFileError> {
        Self::decode(text, |_| Ok(()))
    }

    /// Parses and validates a scenario. `read` reads the sample files that it refers to.
    pub fn parse_with_files(text: &str, read: ReadFile<'_>) -> Result<Self, ScenarioFileError> {
        Self::decode(text, |scenario| scenario.load_samples(read))
    }

    fn decode(
        text: &str,
        load_samples: impl FnOnce(&mut Self) -> Result<(), ScenarioFileError>,
    ) -> Result<Self, ScenarioFileError> {
        let in_file = |problem: FieldError| {
            ScenarioFileError::new(positions(text).get(&problem.field), problem)
        };
        let mut scenario: Self = decode(read_yaml(text)?).map_err(in_file)?;
        load_samples(&mut scenario)?;
        scenario.validate().map_err(in_file)?;
        Ok(scenario)
    }

    /// Replaces the points of all loads that are recorded in files.
    pub(crate) fn load_samples(&mut self, read: ReadFile<'_>) -> Result<(), ScenarioFileError> {
        for samples in self.loads_mut().into_iter().flat_map(Load::samples_mut) {
            let Some(file) = &samples.file else { continue };
            let error = |problem| ScenarioFileError::new(None, format_args!("{file}: {problem}"));
            let points = parse_offsets(&read(file).map_err(error)?, samples.column.as_deref());
            samples.points = points.map_err(|problem| error(problem.to_string()))?;
        }
        Ok(())
    }

    fn loads_mut(&mut self) -> Vec<&mut Load> {
        let workloads = self.workloads.iter_mut();
        let workloads = workloads
            .flat_map(|workload| std::iter::once(&mut workload.load).chain(&mut workload.past));
        let queues = self.queues.iter_mut().map(|queue| &mut queue.arrivals);
        let object_values = self.object_metrics.iter_mut().map(|metric| &mut metric.value);
        let external_values = self.external_metrics.iter_mut().map(|metric| &mut metric.value);
        let curves = object_values.chain(external_values).filter_map(|value| match value {
            ValueSource::Curve(load) => Some(load),
            _ => None,
        });
        workloads.chain(queues).chain(curves).collect()
    }
}
