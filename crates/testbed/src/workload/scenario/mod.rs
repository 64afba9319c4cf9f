//! Scenarios: what a simulation consists of, as a file describes it.

mod error;
mod incident;
mod parse;
mod spec;
mod validate;

pub use self::{
    error::ScenarioError,
    incident::{Incident, IncidentKind, MetricsSource},
    spec::{
        ExternalMetricSpec, MetricValue, MetricsSettings, ObjectMetricSpec, ObjectRef,
        PodMetricSpec, QueueSpec, Scenario, WorkloadSpec,
    },
};
