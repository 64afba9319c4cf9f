//! The schema of scenario files.

use hpa_calc::{HorizontalPodAutoscaler, Settings};
use jiff::{SignedDuration, Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    other_pods::OtherPods,
    workload::{
        random,
        scenario::{
            ExternalMetricSpec, Incident, MetricsSettings, ObjectMetricSpec, QueueSpec,
            WorkloadSpec,
        },
        seconds::Seconds,
    },
};

/// A scenario of `hpa simulate`: an autoscaler, its workload and the load on it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Document {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    /// A caution that the reports of `hpa simulate` and `hpa recommend` begin with, such as how far
    /// to trust a scenario of `hpa replay --save`.
    #[serde(default)]
    pub(super) caution: String,
    /// Seed of the random numbers. The same seed results in the same run.
    #[serde(default)]
    pub(super) seed: u64,
    /// The simulated time. By default an hour.
    #[serde(default = "default_duration")]
    pub(super) duration: Seconds,
    /// The calendar time of the start, for scheduled bounds and forecasts. By default a Monday at
    /// 00:00 UTC.
    #[serde(default = "default_start")]
    pub(super) start: Timestamp,
    /// Whether the initial pods have been ready for ten minutes at the start. Otherwise, they are
    /// created at the start.
    #[serde(default = "default_true")]
    pub(super) warm: bool,
    /// The number of pods that can be scheduled. Further pods stay pending.
    #[serde(default)]
    pub(super) max_pods: Option<u32>,
    /// The manifest of a HorizontalPodAutoscaler, or a file with it. The path is relative to the
    /// scenario. The file may have other objects, but no other autoscaler.
    #[schemars(schema_with = "autoscaler_schema")]
    pub(super) autoscaler: Value,
    /// The target. By default, name and kind are those of the `scaleTargetRef`, the namespace is
    /// that of the autoscaler, and `replicas` is `minReplicas`, but at least 1.
    pub(super) workload: WorkloadSpec,
    /// Pods that the workload's selector matches and that it doesn't own, such as those of a Job
    /// with the same labels.
    #[serde(default)]
    pub(super) other_pods: Vec<OtherPods>,
    /// Queues that the workload drains.
    #[serde(default)]
    pub(super) queues: Vec<QueueSpec>,
    /// Custom metrics of objects other than pods.
    #[serde(default)]
    pub(super) object_metrics: Vec<ObjectMetricSpec>,
    /// External metrics other than those of queues.
    #[serde(default)]
    pub(super) external_metrics: Vec<ExternalMetricSpec>,
    /// Accuracy of metrics.
    #[serde(default)]
    pub(super) metrics: MetricsSettings,
    #[serde(default)]
    pub(super) incidents: Vec<Incident>,
    #[serde(default)]
    pub(super) controller: ControllerSettings,
    #[serde(default)]
    pub(super) objective: Objective,
    /// The unit of the load, for the axes of charts. By default `units per second`.
    #[serde(default = "default_load_unit")]
    pub(super) load_unit: String,
    #[serde(default)]
    pub(super) cost: Cost,
    /// Variants of the scenario to compare.
    #[serde(default)]
    pub(super) variants: Vec<VariantSpec>,
}

/// The definition of overload for queues. Load beyond the capacity is always overload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Objective {
    /// Work that waits longer than this in a queue counts as load beyond the capacity.
    pub max_wait: Seconds,
}

impl Default for Objective {
    fn default() -> Self {
        Self { max_wait: Seconds::new(60.0) }
    }
}

/// The price of pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Cost {
    /// The price of an hour of a pod.
    pub per_pod_hour: f64,
    /// Printed before amounts.
    pub currency: String,
}

/// The controller: its sync period and the settings that kube-controller-manager has as flags.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ControllerSettings {
    /// Time between two reconciles.
    pub sync_period: Seconds,
    /// Time from the start until the first reconcile. By default a random part of the sync period.
    pub initial_delay: Option<Seconds>,
    /// The deviation of usage from the target that causes no change, as a fraction.
    pub tolerance: f64,
    /// The stabilization window for scaling down of autoscalers that don't set one.
    pub downscale_stabilization: Seconds,
    /// For this time after a pod's start, a CPU sample of the pod counts only if the pod is ready
    /// and was ready during the sample's whole window.
    pub cpu_initialization_period: Seconds,
    /// A pod that became unready within this time after its start counts as never having been
    /// ready.
    pub initial_readiness_delay: Seconds,
}

impl Default for ControllerSettings {
    fn default() -> Self {
        let settings = Settings::default();
        let seconds = |span: SignedDuration| Seconds::new(span.as_secs_f64());
        Self {
            sync_period: Seconds::new(15.0),
            initial_delay: None,
            tolerance: settings.tolerance,
            downscale_stabilization: seconds(settings.downscale_stabilization),
            cpu_initialization_period: seconds(settings.cpu_initialization_period),
            initial_readiness_delay: seconds(settings.initial_readiness_delay),
        }
    }
}

impl ControllerSettings {
    /// The settings for decisions. Those that a scenario doesn't have get their defaults.
    pub fn decision_settings(&self) -> Settings {
        Settings::default().with(|settings| {
            settings.tolerance = self.tolerance;
            settings.downscale_stabilization = self.downscale_stabilization.to_duration();
            settings.cpu_initialization_period = self.cpu_initialization_period.to_duration();
            settings.initial_readiness_delay = self.initial_readiness_delay.to_duration();
        })
    }

    /// The time from the start until the first reconcile, in seconds.
    pub(crate) fn first_reconcile(&self, seed: u64) -> f64 {
        let mut rng = random::rng(seed, random::hash(&["initial delay"]), 0);
        let random_delay = rng.f64() * self.sync_period.get();
        self.initial_delay.map_or(random_delay, Seconds::get)
    }
}

/// A change of the scenario.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct VariantSpec {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    /// A JSON merge patch (RFC 7386) of the scenario, for example
    /// `{autoscaler: {spec: {maxReplicas: 20}}}`.
    #[schemars(schema_with = "patch_schema")]
    pub(super) patch: Value,
}

fn default_duration() -> Seconds {
    Seconds::new(3600.0)
}

/// 2026-01-05T00:00:00Z, a Monday.
fn default_start() -> Timestamp {
    Timestamp::constant(1_767_571_200, 0)
}

fn default_load_unit() -> String {
    "units per second".to_owned()
}

fn default_true() -> bool {
    true
}

fn autoscaler_schema(generator: &mut SchemaGenerator) -> Schema {
    let manifest = generator.subschema_for::<HorizontalPodAutoscaler>();
    json_schema!({ "anyOf": [{ "type": "string" }, manifest] })
}

fn patch_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object" })
}

/// The JSON Schema of scenario files, for editors.
pub fn json_schema() -> Value {
    schemars::schema_for!(Document).to_value()
}
