//! The true state of the cluster, which metrics show only late and with noise.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::workload::{Queue, Workload, WorkloadId};
use crate::workload::number;

/// The simulated cluster at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Simulated time.
    pub time: Timestamp,
    /// The same time, in seconds since the start.
    pub second: f64,
    /// By namespace, kind and name.
    pub workloads: Vec<WorkloadObservation>,
    /// In the order of the scenario.
    pub queues: Vec<QueueObservation>,
}

/// A workload at one time. Rates are in units per second.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadObservation {
    pub id: WorkloadId,
    /// Load on the workload.
    pub offered: f64,
    /// The part of `offered` that the pods have capacity for.
    pub served: f64,
    /// Work that the pods take from queues.
    pub drained: f64,
    /// Pods needed for the load and the queues' arrivals, at the profile's target load.
    pub needed: u32,
    /// `spec.replicas` of the object.
    pub desired: u32,
    /// Pods that are neither failed nor terminating.
    pub pods: u32,
    pub ready: u32,
    /// CPU usage of the main containers under this load, in cores.
    pub cpu: f64,
    /// Units offered since the start.
    pub offered_total: f64,
    /// Units served since the start.
    pub served_total: f64,
    /// Seconds since the start in which less than the offered load was served.
    pub underserved_seconds: f64,
    /// Sum of the pods' lifetimes since the start, in seconds.
    pub pod_seconds: f64,
}

/// A queue at one time, in units of work.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueObservation {
    pub name: String,
    pub backlog: f64,
    /// Since the start.
    pub arrived: f64,
    /// Since the start.
    pub drained: f64,
}

impl WorkloadObservation {
    /// The fraction of the load that is served: 1 if there is no load.
    pub fn served_share(&self) -> f64 {
        if self.offered > 0.0 { self.served / self.offered } else { 1.0 }
    }

    fn new(id: &WorkloadId, workload: &Workload) -> Self {
        let pods = || workload.pods.values();
        let target = workload.profile.target();
        Self {
            id: id.clone(),
            offered: workload.offered,
            served: workload.served,
            drained: workload.drained,
            needed: number::ceil((workload.offered + workload.arriving) / target),
            desired: workload.desired,
            pods: number::count(pods().filter(|pod| pod.lifecycle.is_active()).count()),
            ready: number::count(workload.ready_pods().count()),
            cpu: pods()
                .filter(|pod| pod.lifecycle.is_running())
                .map(|pod| workload.usage.cpu(pod.load))
                .sum(),
            offered_total: workload.totals.offered,
            served_total: workload.totals.served,
            underserved_seconds: workload.totals.underserved_seconds,
            pod_seconds: workload.totals.pod_seconds,
        }
    }
}

impl Observation {
    pub(super) fn new(
        time: Timestamp,
        second: f64,
        workloads: &BTreeMap<WorkloadId, Workload>,
        queues: &[Queue],
    ) -> Self {
        let queue = |queue: &Queue| QueueObservation {
            name: queue.spec.name.clone(),
            backlog: queue.backlog.waiting,
            arrived: queue.backlog.arrived,
            drained: queue.backlog.drained,
        };
        Self {
            time,
            second,
            workloads: workloads
                .iter()
                .map(|(id, workload)| WorkloadObservation::new(id, workload))
                .collect(),
            queues: queues.iter().map(queue).collect(),
        }
    }
}
