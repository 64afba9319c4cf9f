//! Scenario files: the workloads, queues, metrics and incidents of a simulation.

mod decode;
mod incident;
mod spec;
mod validate;

pub use self::{
    decode::ScenarioFileError,
    incident::{Incident, IncidentKind, OutageScope},
    spec::{
        ExternalMetricSpec, MetricsSettings, ObjectMetricSpec, ObjectRef, PAST_MINUTES,
        PAST_SECONDS, PodMetricSpec, QueueSpec, ReadFile, Scenario, ValueSource, WorkloadSpec,
    },
    validate::MAX_PODS,
};
pub(crate) use self::{
    decode::{decode, positions, read_yaml},
    validate::{built_in_api_version, check_pods},
};
