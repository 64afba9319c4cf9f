//! What a scenario must be like beyond its form.

use std::collections::BTreeSet;

use super::{
    error::ScenarioError,
    spec::{MetricValue, Scenario, WorkloadSpec},
};
use crate::workload::{load::Load, profile::PodProfile};

type Check = Result<(), ScenarioError>;

fn invalid(field: String, problem: impl Into<String>) -> ScenarioError {
    ScenarioError::Invalid { field, problem: problem.into() }
}

/// The error of a member, if it has one.
fn require(field: String, problem: Option<String>) -> Check {
    match problem {
        Some(problem) => Err(invalid(field, problem)),
        None => Ok(()),
    }
}

impl Scenario {
    /// Checks what the form alone does not tell. The error names the member. A scenario that was parsed was checked.
    pub fn validate(&self) -> Check {
        require("defaultProfile".to_owned(), self.default_profile.problem())?;
        if self.duration.get() <= 0.0 {
            return Err(invalid("duration".to_owned(), "must be more than 0"));
        }
        self.validate_workloads()?;
        self.validate_queues()?;
        self.validate_metrics()?;
        for (index, incident) in self.incidents.iter().enumerate() {
            let field = format!("incidents[{index}]");
            if let Some((member, problem)) = incident.problem() {
                return Err(invalid(format!("{field}.{member}"), problem));
            }
            if let Some(workload) = &incident.workload {
                self.require_workload(&format!("{field}.workload"), workload)?;
            }
        }
        for (index, manifest) in self.manifests.iter().enumerate() {
            for member in ["apiVersion", "kind", "metadata"] {
                let missing = manifest.get(member).is_none().then(|| "is required".to_owned());
                require(format!("manifests[{index}].{member}"), missing)?;
            }
        }
        Ok(())
    }

    /// The workload of a name, or of a namespace and a name.
    pub(crate) fn workload(&self, reference: &str) -> Option<&WorkloadSpec> {
        let is_it = |one: &&WorkloadSpec| match reference.split_once('/') {
            Some((namespace, name)) => one.namespace == namespace && one.name == name,
            None => one.name == reference,
        };
        self.workloads.iter().find(is_it)
    }

    fn require_workload(&self, field: &str, reference: &str) -> Check {
        let missing = self.workload(reference).is_none();
        require(field.to_owned(), missing.then(|| format!("there is no workload \"{reference}\"")))
    }

    fn validate_workloads(&self) -> Check {
        let mut seen = BTreeSet::new();
        for (index, workload) in self.workloads.iter().enumerate() {
            let field = format!("workloads[{index}]");
            if workload.name.is_empty() {
                return Err(invalid(format!("{field}.name"), "is required"));
            }
            if !seen.insert((&workload.namespace, &workload.kind, &workload.name)) {
                return Err(invalid(format!("{field}.name"), "is there twice"));
            }
            if workload.api_version().is_none() {
                let problem = format!("is required for the kind \"{}\"", workload.kind);
                return Err(invalid(format!("{field}.apiVersion"), problem));
            }
            let profile = workload.profile.as_ref().and_then(PodProfile::problem);
            require(format!("{field}.profile"), profile)?;
            check_load(&format!("{field}.load"), &workload.load)?;
        }
        Ok(())
    }

    fn validate_queues(&self) -> Check {
        let mut seen = BTreeSet::new();
        for (index, queue) in self.queues.iter().enumerate() {
            let field = format!("queues[{index}]");
            if !seen.insert(&queue.name) {
                return Err(invalid(format!("{field}.name"), "is there twice"));
            }
            self.require_workload(&format!("{field}.workload"), &queue.workload)?;
            check_load(&format!("{field}.arrivals"), &queue.arrivals)?;
            let numbers = [("backlog", Some(queue.backlog)), ("drainPerPod", queue.drain_per_pod)];
            for (member, number) in numbers {
                let is_wrong = number.is_some_and(|number| !number.is_finite() || number < 0.0);
                let problem = is_wrong.then(|| "must not be negative".to_owned());
                require(format!("{field}.{member}"), problem)?;
            }
        }
        Ok(())
    }

    fn validate_metrics(&self) -> Check {
        let sources = [
            ("resource", &self.metrics.resource),
            ("pods", &self.metrics.pods),
            ("object", &self.metrics.object),
            ("external", &self.metrics.external),
        ];
        for (name, settings) in sources {
            require(format!("metrics.{name}"), settings.problem())?;
        }
        let objects = self.object_metrics.iter().map(|one| &one.value).enumerate();
        for (index, value) in objects {
            self.validate_value(&format!("objectMetrics[{index}].value"), value)?;
        }
        for (index, metric) in self.external_metrics.iter().enumerate() {
            self.validate_value(&format!("externalMetrics[{index}].value"), &metric.value)?;
        }
        Ok(())
    }

    fn validate_value(&self, field: &str, value: &MetricValue) -> Check {
        match value {
            MetricValue::Load(workload) | MetricValue::Served(workload) => {
                self.require_workload(field, workload)
            }
            MetricValue::Backlog(name) => {
                let missing = !self.queues.iter().any(|queue| queue.name == *name);
                require(field.to_owned(), missing.then(|| format!("there is no queue \"{name}\"")))
            }
            MetricValue::Curve(load) => check_load(field, load),
        }
    }
}

fn check_load(field: &str, load: &Load) -> Check {
    require(field.to_owned(), load.problem())
}

impl WorkloadSpec {
    /// The group and version of its kind, unless that is not known.
    pub(crate) fn api_version(&self) -> Option<&str> {
        let known = match self.kind.as_str() {
            "Deployment" | "ReplicaSet" | "StatefulSet" => Some("apps/v1"),
            "ReplicationController" => Some("v1"),
            _ => None,
        };
        self.api_version.as_deref().or(known)
    }
}
