//! What happens at a given time.

use serde::{Deserialize, Serialize};

use crate::workload::seconds::Seconds;

/// For how long something lasts that does not say so.
const DEFAULT_DURATION: Seconds = Seconds::new(60.0);

/// Something that happens at a given time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Incident {
    /// When, after the start.
    pub at: Seconds,
    /// What.
    pub kind: IncidentKind,
    /// To which workload (`name` or `namespace/name`); all but a metrics outage need one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// To how many of its pods, which chance chooses; all unless it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<u32>,
    /// For how long, where that makes sense; a minute unless it says so.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub duration: Option<Seconds>,
    /// Which metrics an outage is about; all unless it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<MetricsSource>,
    /// To how many replicas it is scaled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum IncidentKind {
    /// The template changes, as by `kubectl rollout restart`.
    Rollout,
    /// Containers crash and start again.
    Crash,
    /// The kubelet evicts pods.
    Evict,
    /// Pods are deleted, as by `kubectl delete pod`.
    DeletePods,
    /// Pods are unready `for` a while.
    Flap,
    /// Pods have no metrics `for` a while.
    MissingSamples,
    /// A metrics API answers 503 `for` a while.
    MetricsOutage,
    /// Somebody scales the workload to `replicas`.
    ManualScale,
}

/// Which metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MetricsSource {
    /// CPU and memory: the metrics server.
    Resource,
    /// Custom metrics of pods.
    Pods,
    /// Custom metrics of other objects.
    Object,
    /// External metrics.
    External,
}

impl Incident {
    /// An incident with nothing but its time and kind.
    pub const fn new(at: Seconds, kind: IncidentKind) -> Self {
        Self { at, kind, workload: None, pods: None, duration: None, source: None, replicas: None }
    }

    /// For how long it lasts, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.duration.unwrap_or(DEFAULT_DURATION).get()
    }

    /// The member that is missing or has no place here, and why.
    pub(super) fn problem(&self) -> Option<(&'static str, &'static str)> {
        use IncidentKind::{
            Crash, DeletePods, Evict, Flap, ManualScale, MetricsOutage, MissingSamples,
        };
        let kind = self.kind;
        let about_pods = [Crash, Evict, DeletePods, Flap, MissingSamples].contains(&kind);
        let lasts = [Flap, MissingSamples, MetricsOutage].contains(&kind);
        let out_of_place = "has no meaning for this kind of incident";
        let checks = [
            (self.workload.is_none() && kind != MetricsOutage, "workload", "is required"),
            (self.workload.is_some() && kind == MetricsOutage, "workload", out_of_place),
            (self.replicas.is_none() && kind == ManualScale, "replicas", "is required"),
            (self.replicas.is_some() && kind != ManualScale, "replicas", out_of_place),
            (self.pods.is_some() && !about_pods, "pods", out_of_place),
            (self.duration.is_some() && !lasts, "for", out_of_place),
            (self.source.is_some() && kind != MetricsOutage, "source", out_of_place),
        ];
        checks
            .into_iter()
            .find_map(|(is_wrong, field, problem)| is_wrong.then_some((field, problem)))
    }
}
