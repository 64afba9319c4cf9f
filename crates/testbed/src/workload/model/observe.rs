//! What an onlooker knows that no metric tells.

use jiff::Timestamp;

use super::{Model, Queue, Workload, WorkloadId};
use crate::workload::number;

/// The simulated cluster at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The simulated time.
    pub time: Timestamp,
    /// The same in seconds since the start.
    pub second: f64,
    /// The workloads, by namespace, kind and name.
    pub workloads: Vec<WorkloadObservation>,
    /// The queues, in the order of the scenario.
    pub queues: Vec<QueueObservation>,
}

/// A workload at a moment. Loads are in units a second.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadObservation {
    /// Which.
    pub id: WorkloadId,
    /// The load on it.
    pub offered: f64,
    /// What of that its pods serve; the rest finds no capacity.
    pub served: f64,
    /// What its pods take from queues.
    pub drained: f64,
    /// How many pods would serve the load, and what arrives in the queues, at their target load.
    pub needed: u32,
    /// How many replicas its object asks for.
    pub desired: u32,
    /// How many pods count as its own: neither failed nor on their way out.
    pub pods: u32,
    /// How many of them are ready.
    pub ready: u32,
    /// The CPU that its containers use under this load, in cores.
    pub cpu: f64,
    /// All load since the start, in units.
    pub offered_total: f64,
    /// What of that was served.
    pub served_total: f64,
    /// For how many seconds not all load was served.
    pub short_seconds: f64,
    /// How long its pods were there, added up, in seconds.
    pub pod_seconds: f64,
}

/// A queue at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueObservation {
    /// Which.
    pub name: String,
    /// What waits in it, in units.
    pub backlog: f64,
    /// What arrived since the start.
    pub arrived: f64,
    /// What was drained since the start.
    pub drained: f64,
}

impl WorkloadObservation {
    /// Which part of the load is served: 1 if there is none.
    pub fn served_share(&self) -> f64 {
        if self.offered > 0.0 { self.served / self.offered } else { 1.0 }
    }
}

impl Model {
    pub(crate) fn observe(&self, time: Timestamp) -> Observation {
        Observation {
            time,
            second: self.now,
            workloads: self.workloads.iter().map(|(id, one)| workload(id, one)).collect(),
            queues: self.queues.iter().map(queue).collect(),
        }
    }
}

fn workload(id: &WorkloadId, one: &Workload) -> WorkloadObservation {
    let profile = &one.profile;
    let active = one.pods.values().filter(|pod| pod.lifecycle.is_active());
    let running = one.pods.values().filter(|pod| pod.lifecycle.is_running());
    WorkloadObservation {
        id: id.clone(),
        offered: one.offered,
        served: one.served,
        drained: one.drained,
        needed: number::ceil((one.offered + one.arriving) / profile.target()),
        desired: one.desired,
        pods: number::count(active.count()),
        ready: number::count(one.ready().count()),
        cpu: running.map(|pod| one.costs.cpu(pod.load)).sum(),
        offered_total: one.totals.offered,
        served_total: one.totals.served,
        short_seconds: one.totals.short_seconds,
        pod_seconds: one.totals.pod_seconds,
    }
}

fn queue(queue: &Queue) -> QueueObservation {
    QueueObservation {
        name: queue.spec.name.clone(),
        backlog: queue.backlog.waiting,
        arrived: queue.backlog.arrived,
        drained: queue.backlog.drained,
    }
}
