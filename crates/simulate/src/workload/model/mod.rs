//! The simulated cluster as pure state: no I/O, and no clock other than the seconds passed in.
//!
//! All times are simulated seconds since the start of the scenario. A warm start begins before 0.

mod backlog;
mod cluster;
mod lifecycle;
mod metrics;
mod observation;
mod pod;
mod pods;
mod workload;

pub use self::{
    backlog::Backlog,
    cluster::{ClusterModel, WARM_READY_SECONDS},
    lifecycle::{Delays, Lifecycle, PodState},
    metrics::{Metric, MetricSources, ObjectMetric},
    observation::{Observation, QueueObservation, WorkloadObservation},
    pod::{Container, Pod, UsageSample},
    pods::Pods,
    workload::{Queue, Totals, Workload, WorkloadId},
};
