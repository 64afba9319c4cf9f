//! Validation of scenarios beyond their schema.

use std::collections::BTreeSet;

use hpa_calc::crd::FieldError;

use super::spec::{PAST_SECONDS, Scenario, ValueSource, WorkloadSpec};
use crate::workload::{
    field::{check_not_negative, check_positive, ensure, field_error, within},
    seconds::Seconds,
};

/// The maximum number of pods of a workload, and the maximum total of `otherPods`.
pub const MAX_PODS: u32 = 10_000;

/// Fails if a number of pods is above [`MAX_PODS`].
pub(crate) fn check_pods(field: impl Into<String>, pods: u32) -> Result<(), FieldError> {
    ensure(pods <= MAX_PODS, field, format!("is {pods}, but must be at most {MAX_PODS}"))
}

impl Scenario {
    /// Validates a scenario that was built in code. [`Scenario::parse`] does this already.
    pub fn validate(&self) -> Result<(), FieldError> {
        within("defaultProfile", self.default_profile.validate())?;
        check_positive("duration", self.duration.get())?;
        self.validate_workloads()?;
        self.validate_queues()?;
        self.validate_metrics()?;
        for (index, incident) in self.incidents.iter().enumerate() {
            let path = format!("incidents[{index}]");
            incident.validate(&path)?;
            let message = format!("is {}, but the run ends at {}", incident.at, self.duration);
            ensure(incident.at <= self.duration, format!("{path}.at"), message)?;
            check_pods(format!("{path}.replicas"), incident.replicas.unwrap_or_default())?;
            if let Some(workload) = &incident.workload {
                self.check_workload(format!("{path}.workload"), workload)?;
            }
        }
        for (index, manifest) in self.manifests.iter().enumerate() {
            for field in ["apiVersion", "kind", "metadata"] {
                let is_set = manifest.get(field).is_some();
                ensure(is_set, format!("manifests[{index}].{field}"), "is required")?;
            }
            // An autoscaler would scale to `minReplicas`, regardless of the metrics.
            for field in ["replicas", "minReplicas"] {
                let number = manifest.get("spec").and_then(|spec| spec.get(field)?.as_u64());
                let pods = number.map_or(0, |number| number.try_into().unwrap_or(u32::MAX));
                check_pods(format!("manifests[{index}].spec.{field}"), pods)?;
            }
        }
        Ok(())
    }

    /// The workload that `name` or `namespace/name` refers to. `None` if there is none, or if there
    /// are several.
    pub fn workload(&self, reference: &str) -> Option<&WorkloadSpec> {
        let mut referenced = self.referenced_workloads(reference);
        referenced.next().filter(|_| referenced.next().is_none())
    }

    fn referenced_workloads(&self, reference: &str) -> impl Iterator<Item = &WorkloadSpec> {
        let is_referenced = move |workload: &&WorkloadSpec| match reference.split_once('/') {
            Some((namespace, name)) => workload.namespace == namespace && workload.name == name,
            None => workload.name == reference,
        };
        self.workloads.iter().filter(is_referenced)
    }

    fn check_workload(&self, path: String, reference: &str) -> Result<(), FieldError> {
        let message = match self.referenced_workloads(reference).count() {
            0 => format!("there is no workload \"{reference}\""),
            1 => return Ok(()),
            _ => format!("\"{reference}\" is ambiguous: use namespace/name"),
        };
        Err(field_error(path, message))
    }

    fn validate_workloads(&self) -> Result<(), FieldError> {
        let mut ids = BTreeSet::new();
        for (index, workload) in self.workloads.iter().enumerate() {
            let path = |field: &str| format!("workloads[{index}].{field}");
            let WorkloadSpec { namespace, kind, name, .. } = workload;
            ensure(!name.is_empty(), path("name"), "is required")?;
            // The kind doesn't count: references don't name it, and the pods' labels don't either.
            let is_new = ids.insert((namespace, name));
            ensure(is_new, path("name"), "is a duplicate")?;
            let message = format!("is required for the kind \"{kind}\"");
            ensure(workload.api_version().is_some(), path("apiVersion"), message)?;
            check_pods(path("replicas"), workload.replicas)?;
            if let Some(profile) = &workload.profile {
                within(path("profile"), profile.validate())?;
            }
            within(path("load"), workload.load.validate(self.duration))?;
            if let Some(past) = &workload.past {
                within(path("past"), past.validate(Seconds::new(PAST_SECONDS)))?;
            }
        }
        Ok(())
    }

    fn validate_queues(&self) -> Result<(), FieldError> {
        let mut names = BTreeSet::new();
        for (index, queue) in self.queues.iter().enumerate() {
            let path = |field: &str| format!("queues[{index}].{field}");
            ensure(names.insert(&queue.name), path("name"), "is a duplicate")?;
            self.check_workload(path("workload"), &queue.workload)?;
            within(path("arrivals"), queue.arrivals.validate(self.duration))?;
            check_not_negative(path("backlog"), queue.backlog)?;
            check_not_negative(path("drainPerPod"), queue.drain_per_pod.unwrap_or_default())?;
        }
        Ok(())
    }

    fn validate_metrics(&self) -> Result<(), FieldError> {
        let sources = [
            ("resource", &self.metrics.resource),
            ("pods", &self.metrics.pods),
            ("object", &self.metrics.object),
            ("external", &self.metrics.external),
        ];
        for (name, settings) in sources {
            within(format!("metrics.{name}"), settings.validate())?;
        }
        for (index, metric) in self.object_metrics.iter().enumerate() {
            self.check_value(format!("objectMetrics[{index}].value"), &metric.value)?;
        }
        for (index, metric) in self.external_metrics.iter().enumerate() {
            self.check_value(format!("externalMetrics[{index}].value"), &metric.value)?;
        }
        Ok(())
    }

    fn check_value(&self, path: String, value: &ValueSource) -> Result<(), FieldError> {
        match value {
            ValueSource::Load(workload)
            | ValueSource::LoadPerPod(workload)
            | ValueSource::Served(workload) => self.check_workload(path, workload),
            ValueSource::Backlog(name) => {
                let exists = self.queues.iter().any(|queue| queue.name == *name);
                ensure(exists, path, format!("there is no queue \"{name}\""))
            }
            ValueSource::Curve(load) => within(path, load.validate(self.duration)),
        }
    }
}

/// The `apiVersion` of a built-in kind, whose controller is modelled.
pub(crate) fn built_in_api_version(kind: &str) -> Option<&'static str> {
    match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" => Some("apps/v1"),
        "ReplicationController" => Some("v1"),
        _ => None,
    }
}

impl WorkloadSpec {
    /// The `apiVersion` of the object: as given, or that of a built-in kind.
    pub fn api_version(&self) -> Option<&str> {
        self.api_version.as_deref().or_else(|| built_in_api_version(&self.kind))
    }
}
