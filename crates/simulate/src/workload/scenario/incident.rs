//! Incidents: events at given times.

use hpa_calc::crd::FieldError;
use serde::{Deserialize, Serialize};

use crate::workload::{field::field_error, seconds::Seconds};

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
    /// `hpa simulate` defaults to the autoscaler's target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// The number of affected pods, chosen at random. By default all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<u32>,
    /// The duration, for kinds that have one. By default a minute.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub duration: Option<Seconds>,
    /// The source that is down. By default all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<OutageScope>,
    /// The replicas to scale to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum IncidentKind {
    /// The pod template changes, as by `kubectl rollout restart`.
    Rollout,
    /// Containers crash and restart. Takes `pods`.
    Crash,
    /// Pods are evicted, as by the kubelet. Takes `pods`.
    Evict,
    /// Pods are deleted, as by `kubectl delete pod`. Takes `pods`.
    DeletePods,
    /// Pods are unready. Takes `pods` and `for`.
    Flap,
    /// Pods have no metrics. Takes `pods` and `for`.
    MissingSamples,
    /// A metrics API returns 503. Takes `source` and `for`, and no `workload`.
    MetricsOutage,
    /// A user scales the workload. Takes `replicas`.
    ManualScale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OutageScope {
    /// CPU and memory from metrics-server.
    Resource,
    /// Custom metrics of pods.
    Pods,
    /// Custom metrics of other objects.
    Object,
    External,
}

impl Incident {
    /// The duration in seconds, by default a minute.
    pub fn duration_seconds(&self) -> f64 {
        self.duration.unwrap_or(DEFAULT_DURATION).get()
    }

    /// Checks that the required fields of the kind are set, and none that it doesn't use.
    pub(super) fn validate(&self, path: &str) -> Result<(), FieldError> {
        let IncidentFields { required, optional, .. } = self.kind.fields();
        let fields = [
            ("workload", self.workload.is_some()),
            ("replicas", self.replicas.is_some()),
            ("pods", self.pods.is_some()),
            ("for", self.duration.is_some()),
            ("source", self.source.is_some()),
        ];
        for (field, is_set) in fields {
            let problem = match (is_set, required.contains(&field), optional.contains(&field)) {
                (false, true, _) => "is required",
                (true, false, false) => "has no meaning here",
                _ => continue,
            };
            let message = format!("{problem}: {}", self.kind.usage());
            return Err(field_error(format!("{path}.{field}"), message));
        }
        Ok(())
    }
}

/// The fields of a kind of incident, without `at` and `kind`, which all kinds have.
struct IncidentFields {
    kind: &'static str,
    required: &'static [&'static str],
    optional: &'static [&'static str],
}

impl IncidentKind {
    const fn fields(self) -> IncidentFields {
        let (kind, required, optional): (_, &[_], &[_]) = match self {
            Self::Rollout => ("rollout", &["workload"], &[]),
            Self::Crash => ("crash", &["workload"], &["pods"]),
            Self::Evict => ("evict", &["workload"], &["pods"]),
            Self::DeletePods => ("deletePods", &["workload"], &["pods"]),
            Self::Flap => ("flap", &["workload"], &["pods", "for"]),
            Self::MissingSamples => ("missingSamples", &["workload"], &["pods", "for"]),
            Self::MetricsOutage => ("metricsOutage", &[], &["for", "source"]),
            Self::ManualScale => ("manualScale", &["workload", "replicas"], &[]),
        };
        IncidentFields { kind, required, optional }
    }

    /// The fields of the kind: `flap takes at, workload, pods (optional), for (optional)`.
    fn usage(self) -> String {
        let IncidentFields { kind, required, optional } = self.fields();
        let required = required.iter().map(|field| (*field).to_owned());
        let optional = optional.iter().map(|field| format!("{field} (optional)"));
        let fields = ["at".to_owned()].into_iter().chain(required).chain(optional);
        format!("{kind} takes {}", fields.collect::<Vec<_>>().join(", "))
    }
}
