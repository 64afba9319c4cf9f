//! Validation of scenarios beyond their schema.

use std::collections::BTreeSet;

use super::{
    error::{FieldError, ScenarioError},
    spec::{MetricValue, Scenario, WorkloadSpec},
};

/// Adds the path of the field to the error of a result.
fn with_path<E: Into<FieldError>>(
    field: impl Into<String>,
    result: Result<(), E>,
) -> Result<(), ScenarioError> {
    result
        .map_err(|error| ScenarioError::InvalidField { field: field.into(), source: error.into() })
}

fn ensure(is_valid: bool, error: FieldError) -> Result<(), FieldError> {
    if is_valid { Ok(()) } else { Err(error) }
}

impl Scenario {
    /// Validates a scenario that was built in code. [`Scenario::parse`] and [`Scenario::load`] do
    /// this already.
    pub fn validate(&self) -> Result<(), ScenarioError> {
        with_path("defaultProfile", self.default_profile.validate())?;
        with_path("duration", ensure(self.duration.get() > 0.0, FieldError::NotPositive))?;
        self.validate_workloads()?;
        self.validate_queues()?;
        self.validate_metrics()?;
        for (index, incident) in self.incidents.iter().enumerate() {
            let path = format!("incidents[{index}]");
            if let Err((field, error)) = incident.validate() {
                with_path(format!("{path}.{field}"), Err(error))?;
            }
            if let Some(workload) = &incident.workload {
                with_path(format!("{path}.workload"), self.check_workload(workload))?;
            }
        }
        for (index, manifest) in self.manifests.iter().enumerate() {
            for field in ["apiVersion", "kind", "metadata"] {
                let is_set = manifest.get(field).is_some();
                let path = format!("manifests[{index}].{field}");
                with_path(path, ensure(is_set, FieldError::Required))?;
            }
        }
        Ok(())
    }

    /// The workload that `name` or `namespace/name` refers to.
    pub fn workload(&self, reference: &str) -> Option<&WorkloadSpec> {
        let is_referenced = |workload: &&WorkloadSpec| match reference.split_once('/') {
            Some((namespace, name)) => workload.namespace == namespace && workload.name == name,
            None => workload.name == reference,
        };
        self.workloads.iter().find(is_referenced)
    }

    fn check_workload(&self, reference: &str) -> Result<(), FieldError> {
        let exists = self.workload(reference).is_some();
        ensure(exists, FieldError::UnknownWorkload(reference.to_owned()))
    }

    fn validate_workloads(&self) -> Result<(), ScenarioError> {
        let mut ids = BTreeSet::new();
        for (index, workload) in self.workloads.iter().enumerate() {
            let path = format!("workloads[{index}]");
            let WorkloadSpec { namespace, kind, name, .. } = workload;
            with_path(format!("{path}.name"), ensure(!name.is_empty(), FieldError::Required))?;
            let is_new = ids.insert((namespace, kind, name));
            with_path(format!("{path}.name"), ensure(is_new, FieldError::Duplicate))?;
            let has_version = workload.api_version().is_some();
            let error = FieldError::RequiredForKind(kind.clone());
            with_path(format!("{path}.apiVersion"), ensure(has_version, error))?;
            if let Some(profile) = &workload.profile {
                with_path(format!("{path}.profile"), profile.validate())?;
            }
            with_path(format!("{path}.load"), workload.load.validate())?;
            if let Some(past) = &workload.past {
                with_path(format!("{path}.past"), past.validate())?;
            }
        }
        Ok(())
    }

    fn validate_queues(&self) -> Result<(), ScenarioError> {
        let mut names = BTreeSet::new();
        for (index, queue) in self.queues.iter().enumerate() {
            let path = format!("queues[{index}]");
            let is_new = names.insert(&queue.name);
            with_path(format!("{path}.name"), ensure(is_new, FieldError::Duplicate))?;
            with_path(format!("{path}.workload"), self.check_workload(&queue.workload))?;
            with_path(format!("{path}.arrivals"), queue.arrivals.validate())?;
            let numbers = [("backlog", Some(queue.backlog)), ("drainPerPod", queue.drain_per_pod)];
            for (field, number) in numbers {
                let is_valid = number.is_none_or(|number| number.is_finite() && number >= 0.0);
                with_path(format!("{path}.{field}"), ensure(is_valid, FieldError::Negative))?;
            }
        }
        Ok(())
    }

    fn validate_metrics(&self) -> Result<(), ScenarioError> {
        let sources = [
            ("resource", &self.metrics.resource),
            ("pods", &self.metrics.pods),
            ("object", &self.metrics.object),
            ("external", &self.metrics.external),
        ];
        for (name, settings) in sources {
            with_path(format!("metrics.{name}"), settings.validate())?;
        }
        for (index, metric) in self.object_metrics.iter().enumerate() {
            with_path(format!("objectMetrics[{index}].value"), self.check_value(&metric.value))?;
        }
        for (index, metric) in self.external_metrics.iter().enumerate() {
            with_path(format!("externalMetrics[{index}].value"), self.check_value(&metric.value))?;
        }
        Ok(())
    }

    fn check_value(&self, value: &MetricValue) -> Result<(), FieldError> {
        match value {
            MetricValue::Load(workload)
            | MetricValue::LoadPerPod(workload)
            | MetricValue::Served(workload) => self.check_workload(workload),
            MetricValue::Backlog(name) => {
                let exists = self.queues.iter().any(|queue| queue.name == *name);
                ensure(exists, FieldError::UnknownQueue(name.clone()))
            }
            MetricValue::Curve(load) => Ok(load.validate()?),
        }
    }
}

impl WorkloadSpec {
    /// The `apiVersion` of the object: as given, or that of a built-in kind.
    pub fn api_version(&self) -> Option<&str> {
        let built_in = match self.kind.as_str() {
            "Deployment" | "ReplicaSet" | "StatefulSet" => Some("apps/v1"),
            "ReplicationController" => Some("v1"),
            _ => None,
        };
        self.api_version.as_deref().or(built_in)
    }
}
