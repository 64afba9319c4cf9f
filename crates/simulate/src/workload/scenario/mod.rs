//! Scenario files: the workloads, queues, metrics and incidents of a simulation.

mod error;
mod incident;
mod spec;
mod validate;

pub(crate) use self::validate::{built_in_api_version, check_pods};
pub use self::{
    error::ScenarioError,
    incident::{Incident, IncidentKind, OutageScope},
    spec::{
        ExternalMetricSpec, MetricsSettings, ObjectMetricSpec, ObjectRef, PAST_MINUTES,
        PAST_SECONDS, PodMetricSpec, QueueSpec, ReadFile, Scenario, ValueSource, WorkloadSpec,
    },
    validate::MAX_PODS,
};
