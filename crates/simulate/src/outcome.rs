//! What a run cost, and how well the replicas followed the load.

use serde::Serialize;

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Sum of the pods' lifetimes, in hours.
    pub pod_hours: f64,
    /// Pod-hours times the price of one.
    pub cost: f64,
    pub overload: Overload,
    /// `None` without load other than that of queues.
    pub latency: Option<Latency>,
    /// `None` without queues.
    pub queue: Option<QueueWait>,
    pub replicas: Replicas,
    pub rescales: Rescales,
    pub reaction: Reaction,
}

/// Load that the ready pods had no capacity for, and queued work that waited too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overload {
    /// Seconds with load beyond the capacity, or with a wait that is too long.
    pub seconds: f64,
    /// The same as a share of the duration.
    pub share_of_time: f64,
    /// The affected share of the load.
    pub share_of_load: f64,
}

/// The time that a request takes, as a multiple of its time on an idle pod. It is computed from the
/// utilization of each second, by the formula for a single queue (M/M/1) per pod, and is at most
/// 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// The mean over all requests.
    pub mean: f64,
    /// 99 % of the requests are at most this slow.
    pub p99: f64,
}

/// How long work waits in queues, in seconds. First in, first out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueWait {
    /// The mean over all work.
    pub mean_seconds: f64,
    /// 99 % of the work waits at most this long.
    pub p99_seconds: f64,
    pub max_seconds: f64,
    /// The most work that waited at a time.
    pub max_backlog: f64,
}

/// The replicas of the workload (`spec.replicas`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replicas {
    pub min: u32,
    /// Over time.
    pub mean: f64,
    pub max: u32,
    /// The replicas that the largest load needs.
    pub needed_max: u32,
}

/// The scalings of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rescales {
    pub up: u32,
    pub down: u32,
    /// Scalings against the direction of the previous one within ten minutes.
    pub reversals: u32,
}

impl Rescales {
    pub fn total(&self) -> u32 {
        self.up + self.down
    }
}

/// How long it takes from when the load needs more ready pods than there are until there are
/// enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reaction {
    /// How often there were too few ready pods.
    pub shortages: u32,
    pub mean_seconds: f64,
    pub max_seconds: f64,
}
