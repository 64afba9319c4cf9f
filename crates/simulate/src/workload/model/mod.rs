//! The simulated cluster as pure state: no I/O, and no clock other than the seconds passed in.
//!
//! All times are simulated seconds since the start of the scenario. A warm start begins before 0.

mod cluster;
mod lifecycle;
mod metrics;
mod pod;
mod workload;

pub use self::{
    cluster::{ClusterModel, Observation, QueueObservation, WorkloadObservation},
    lifecycle::{Delays, Lifecycle, PodState},
    metrics::{Metric, MetricSources, ObjectMetric},
    pod::{Container, Pod, UsageSample},
    workload::{Backlog, Pods, Queue, Totals, Workload, WorkloadId},
};
