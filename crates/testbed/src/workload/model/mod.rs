//! The simulated cluster as pure state: no I/O, and no clock other than the seconds passed in.
//!
//! All times are simulated seconds since the start of the scenario. A warm start begins before 0.

mod backlog;
mod cluster;
mod lifecycle;
mod metrics;
mod observation;
mod pod;
mod workload;

pub(crate) use self::{
    cluster::{ClusterModel, WARM_READY_SECONDS},
    lifecycle::PodState,
    metrics::ObjectMetric,
    pod::{Container, Pod},
};
pub use self::{
    observation::{Observation, QueueObservation, WorkloadObservation},
    workload::WorkloadId,
};
