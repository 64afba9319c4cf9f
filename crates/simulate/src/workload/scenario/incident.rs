//! Incidents: events at given times.

use serde::{Deserialize, Serialize};

use crate::workload::seconds::Seconds;

/// The duration of incidents without one.
const DEFAULT_DURATION: Seconds = Seconds::new(60.0);

/// An event at a given time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Incident {
    /// Time after the start.
    pub at: Seconds,
    pub kind: IncidentKind,
    /// The affected workload (`name` or `namespace/name`). Required except for metrics outages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// How many of its pods are affected, chosen at random. By default all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<u32>,
    /// The duration, for kinds that have one. By default a minute.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub duration: Option<Seconds>,
    /// The source that is down. By default all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<MetricsSource>,
    /// The replicas to scale to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum IncidentKind {
    /// The pod template changes, as by `kubectl rollout restart`.
    Rollout,
    /// Containers crash and restart.
    Crash,
    Evict,
    /// Pods are deleted, as by `kubectl delete pod`.
    DeletePods,
    /// Pods are unready for a while.
    Flap,
    /// Pods have no metrics for a while.
    MissingSamples,
    /// A metrics API returns 503 for a while.
    MetricsOutage,
    /// A user scales the workload.
    ManualScale,
}

/// A source of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MetricsSource {
    /// CPU and memory from metrics-server.
    Resource,
    /// Custom metrics of pods.
    Pods,
    /// Custom metrics of other objects.
    Object,
    /// External metrics.
    External,
}

impl Incident {
    /// An incident without optional fields.
    pub const fn new(at: Seconds, kind: IncidentKind) -> Self {
        Self { at, kind, workload: None, pods: None, duration: None, source: None, replicas: None }
    }

    /// The duration in seconds.
    pub fn seconds(&self) -> f64 {
        self.duration.unwrap_or(DEFAULT_DURATION).get()
    }

    /// Checks that exactly the fields that the kind uses are set. Returns the field and the error.
    pub(super) fn validate(&self) -> Result<(), (&'static str, IncidentError)> {
        use IncidentKind::{
            Crash, DeletePods, Evict, Flap, ManualScale, MetricsOutage, MissingSamples,
        };
        let kind = self.kind;
        let affects_pods = [Crash, Evict, DeletePods, Flap, MissingSamples].contains(&kind);
        let has_duration = [Flap, MissingSamples, MetricsOutage].contains(&kind);
        let (required, unused) = (IncidentError::Required, IncidentError::Unused);
        let checks = [
            (self.workload.is_none() && kind != MetricsOutage, "workload", required),
            (self.workload.is_some() && kind == MetricsOutage, "workload", unused),
            (self.replicas.is_none() && kind == ManualScale, "replicas", required),
            (self.replicas.is_some() && kind != ManualScale, "replicas", unused),
            (self.pods.is_some() && !affects_pods, "pods", unused),
            (self.duration.is_some() && !has_duration, "for", unused),
            (self.source.is_some() && kind != MetricsOutage, "source", unused),
        ];
        let invalid = checks.into_iter().find(|(is_invalid, ..)| *is_invalid);
        invalid.map_or(Ok(()), |(_, field, error)| Err((field, error)))
    }
}

/// Why a field of an incident is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IncidentError {
    #[error("is required")]
    Required,
    #[error("has no meaning for this kind of incident")]
    Unused,
}
