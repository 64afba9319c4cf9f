//! Scenario files: the workloads, queues, metrics and incidents of a simulation.

mod error;
mod incident;
mod spec;
mod validate;

pub(crate) use self::validate::check_pods;
pub use self::{
    error::{ScenarioError, SyntaxProblem},
    incident::{Incident, IncidentKind, OutageScope},
    spec::{
        ExternalMetricSpec, MetricsSettings, ObjectMetricSpec, ObjectRef, PAST_MINUTES,
        PAST_SECONDS, PodMetricSpec, QueueSpec, Scenario, ValueSource, WorkloadSpec,
    },
    validate::MAX_PODS,
};
