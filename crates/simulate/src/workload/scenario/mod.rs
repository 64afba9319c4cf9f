//! Scenarios: what a simulation consists of, as a file describes it.

mod incident;
mod spec;
mod validate;

pub use self::{
    incident::{Incident, IncidentError, IncidentKind, MetricsSource},
    spec::{
        ExternalMetricSpec, MetricValue, MetricsSettings, ObjectMetricSpec, ObjectRef,
        PodMetricSpec, QueueSpec, Scenario, WorkloadSpec,
    },
    validate::{FieldError, ScenarioError},
};
