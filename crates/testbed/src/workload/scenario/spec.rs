//! The members of a scenario.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::incident::Incident;
use crate::workload::{load::Load, profile::PodProfile, seconds::Seconds, series::SourceSettings};

/// A simulation: what is in the cluster, what load comes, how metrics are measured, and what goes wrong when.
///
/// Written as YAML (or JSON, which is YAML) with the API's spelling: `maxPods`, `objectMetrics`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// What it is called.
    #[serde(default)]
    pub name: String,
    /// What it shows.
    #[serde(default)]
    pub description: String,
    /// Where chance begins: the same seed, the same run.
    #[serde(default)]
    pub seed: u64,
    /// How long it takes, in simulated time.
    #[serde(default = "duration")]
    pub duration: Seconds,
    /// Whether the pods that are there at the start have been ready for ten minutes, and measured. If not, they begin.
    #[serde(default = "yes")]
    pub warm: bool,
    /// How many pods have a place in the cluster; further ones wait.
    #[serde(default)]
    pub max_pods: Option<u32>,
    /// What the pods are like of workloads that are not listed.
    #[serde(default)]
    pub default_profile: PodProfile,
    /// The workloads, which are created at the start.
    #[serde(default)]
    pub workloads: Vec<WorkloadSpec>,
    /// Queues that workloads drain.
    #[serde(default)]
    pub queues: Vec<QueueSpec>,
    /// Custom metrics of objects other than pods.
    #[serde(default)]
    pub object_metrics: Vec<ObjectMetricSpec>,
    /// External metrics other than those of queues.
    #[serde(default)]
    pub external_metrics: Vec<ExternalMetricSpec>,
    /// How well metrics are measured.
    #[serde(default)]
    pub metrics: MetricsSettings,
    /// What happens when.
    #[serde(default)]
    pub incidents: Vec<Incident>,
    /// Further objects that are created at the start, such as autoscalers.
    #[serde(default)]
    pub manifests: Vec<Value>,
    /// Faults of the API, for whoever runs the scenario.
    #[serde(default)]
    pub faults: Vec<Value>,
}

/// A workload: an object with pods, and the load on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkloadSpec {
    /// Its name, which its pods have as the label `app`.
    pub name: String,
    /// Its namespace, which is created.
    #[serde(default = "namespace")]
    pub namespace: String,
    /// Its kind.
    #[serde(default = "deployment")]
    pub kind: String,
    /// The group and version of its kind; needed for a custom resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// How many replicas it has at the start.
    #[serde(default = "one")]
    pub replicas: u32,
    /// What its pods are like; the default profile unless it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<PodProfile>,
    /// The load on all its pods together, in units per second.
    #[serde(default)]
    pub load: Load,
    /// Metrics that its pods tell of themselves (`type: Pods`).
    #[serde(default)]
    pub pod_metrics: Vec<PodMetricSpec>,
    /// Further members of its spec, such as `strategy` or `minReadySeconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<serde_json::Map<String, Value>>,
}

/// A metric that pods tell of themselves: `base + perUnit × load served`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodMetricSpec {
    /// The metric.
    pub name: String,
    /// The labels of its series.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Its value without load.
    #[serde(default)]
    pub base: f64,
    /// What a unit of load a second adds.
    #[serde(default = "one_float")]
    pub per_unit: f64,
}

/// A queue. Its backlog is an external metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueueSpec {
    /// What it is called.
    pub name: String,
    /// What comes into it, in units per second.
    pub arrivals: Load,
    /// The workload that drains it (`name` or `namespace/name`).
    pub workload: String,
    /// What a pod drains, in units per second; unless it says so what its other load leaves of its capacity.
    #[serde(default)]
    pub drain_per_pod: Option<f64>,
    /// What waits at the start.
    #[serde(default)]
    pub backlog: f64,
    /// The external metric.
    pub metric: String,
    /// The labels of the metric's series.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// A custom metric of an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectMetricSpec {
    /// The metric.
    pub metric: String,
    /// The labels of the metric's series.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The object; it need not exist.
    pub object: ObjectRef,
    /// What it measures.
    pub value: MetricValue,
}

/// An object that a metric describes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectRef {
    /// Its group and version.
    #[serde(default = "core")]
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    #[serde(default = "namespace")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its resource, such as `ingresses`, where that is not the plural one would guess.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
}

/// An external metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExternalMetricSpec {
    /// The metric.
    pub metric: String,
    /// The labels of the metric's series.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// What it measures.
    pub value: MetricValue,
}

/// What a metric measures. Workloads are named by `name` or `namespace/name`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum MetricValue {
    /// The load on a workload, in units per second.
    Load(String),
    /// What of the load a workload serves, in units per second.
    Served(String),
    /// What waits in a queue.
    Backlog(String),
    /// A curve of its own.
    Curve(Load),
}

/// How well each source of metrics measures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct MetricsSettings {
    /// CPU and memory: the metrics server.
    pub resource: SourceSettings,
    /// Custom metrics of pods.
    pub pods: SourceSettings,
    /// Custom metrics of other objects.
    pub object: SourceSettings,
    /// External metrics.
    pub external: SourceSettings,
}

fn duration() -> Seconds {
    Scenario::default().duration
}

fn yes() -> bool {
    true
}

fn namespace() -> String {
    "default".to_owned()
}

fn deployment() -> String {
    "Deployment".to_owned()
}

fn core() -> String {
    "v1".to_owned()
}

fn one() -> u32 {
    1
}

fn one_float() -> f64 {
    1.0
}

impl Default for Scenario {
    /// Twenty minutes of nothing.
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

impl WorkloadSpec {
    /// A Deployment in the namespace `default` with one replica of the default profile and no load.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: namespace(),
            kind: deployment(),
            api_version: None,
            replicas: 1,
            profile: None,
            load: Load::default(),
            pod_metrics: Vec::new(),
            spec: None,
        }
    }
}
