//! Scenarios: what a simulation consists of, as a file describes it.

mod error;
mod incident;
mod parse;
mod spec;
mod validate;

pub use self::{
    error::{FieldError, ScenarioError},
    incident::{Incident, IncidentError, IncidentKind, MetricsSource},
    spec::{
        ExternalMetricSpec, MetricValue, MetricsSettings, ObjectMetricSpec, ObjectRef,
        PodMetricSpec, QueueSpec, Scenario, WorkloadSpec,
    },
};
