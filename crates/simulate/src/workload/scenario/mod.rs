//! Scenario files: the workloads, queues, metrics and incidents of a simulation.

mod incident;
mod position;
mod spec;
mod validate;

pub use self::{
    incident::{Incident, IncidentKind, OutageScope},
    position::ScenarioFileError,
    spec::{
        ExternalMetricSpec, MetricsSettings, ObjectMetricSpec, ObjectRef, PAST_MINUTES,
        PAST_SECONDS, PodMetricSpec, QueueSpec, ReadFile, Scenario, ValueSource, WorkloadSpec,
    },
    validate::MAX_PODS,
};
pub(crate) use self::{
    position::{decode, positions, read_yaml},
    validate::{built_in_api_version, check_pods},
};
