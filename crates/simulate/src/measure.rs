//! The measurements of a run, which are taken each second, and their result.

use std::collections::VecDeque;

use serde::Serialize;

use crate::{
    cluster::ClusterState,
    file::{Cost, Objective},
    workload::{model::Backlog, number, seconds::HOUR},
};

/// Scalings in opposite directions within this many seconds count as a reversal.
const REVERSAL_SECONDS: f64 = 600.0;
/// Above this utilization, a request is assumed to take 100 times as long as on an idle pod.
const MAX_UTILIZATION: f64 = 0.99;
/// The percentile of latencies, waits and risks in results.
pub(crate) const PERCENTILE: f64 = 0.99;
/// A 99th percentile of the latency up to this is accepted, as a multiple of the latency on an idle
/// pod. 10 is the latency at a utilization of 90 %.
pub(crate) const ACCEPTED_LATENCY: f64 = 10.0;
/// Differences of rates below this are rounding errors.
const EPSILON: f64 = 1e-9;

/// The measurements of a run so far.
#[derive(Default)]
pub(crate) struct Measurements {
    objective: Objective,
    cost: Cost,
    duration: f64,
    pod_seconds: f64,
    /// The load of requests, and the work that arrived in queues.
    load: f64,
    /// The part of `load` beyond the capacity, or that waited too long in a queue.
    overloaded: f64,
    overload_seconds: f64,
    /// The latency as a multiple of that on an idle pod, weighted by the load.
    slowdown: WeightedHistogram,
    queues: Vec<QueueMeasurements>,
    /// The largest backlog of all queues together.
    max_backlog: f64,
    replicas: Replicas,
    replica_seconds: f64,
    rescales: Rescales,
    /// The time of the last rescale, and whether it was a scale-up.
    last_rescale: Option<(f64, bool)>,
    /// The start of the current shortage, if there is one.
    shortage_since: Option<f64>,
    /// The durations of the shortages that have ended.
    shortages: Vec<f64>,
}

struct QueueMeasurements {
    /// Arrival time and amount of the waiting work, oldest first.
    waiting: VecDeque<(f64, f64)>,
    /// The totals of the queue at the last second.
    arrived: f64,
    drained: f64,
    /// The waits of the drained work, in seconds, weighted by the amount.
    waits: WeightedHistogram,
}

/// A histogram of values with weights. The error of the percentile `v` is at most 2 % of
/// `1 + v`.
#[derive(Default)]
struct WeightedHistogram {
    bins: Vec<f64>,
    sum: f64,
    weight: f64,
    max: f64,
}

impl WeightedHistogram {
    const GROWTH: f64 = 1.02;

    fn add(&mut self, value: f64, weight: f64) {
        let bin = number::ceil(value.max(0.0).ln_1p() / Self::GROWTH.ln()) as usize;
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0.0);
        }
        if let Some(total) = self.bins.get_mut(bin) {
            *total += weight;
        }
        self.sum += value * weight;
        self.weight += weight;
        self.max = self.max.max(value);
    }

    fn mean(&self) -> f64 {
        if self.weight > 0.0 { self.sum / self.weight } else { 0.0 }
    }

    fn percentile(&self, share: f64) -> f64 {
        let mut rest = self.weight * share;
        for (bin, weight) in self.bins.iter().enumerate() {
            rest -= weight;
            if rest <= EPSILON {
                return (Self::GROWTH.powf(bin as f64) - 1.0).min(self.max);
            }
        }
        self.max
    }
}

impl Measurements {
    pub(crate) fn new(objective: Objective, cost: Cost, start: &ClusterState<'_>) -> Self {
        let queues = start.queues.iter().map(|queue| {
            let Backlog { waiting, arrived, drained } = queue.backlog;
            let waiting = (waiting > 0.0).then_some((0.0, waiting)).into_iter().collect();
            QueueMeasurements { waiting, arrived, drained, waits: WeightedHistogram::default() }
        });
        let desired = start.replicas;
        Self {
            objective,
            cost,
            queues: queues.collect(),
            replicas: Replicas { min: desired, max: desired, ..Replicas::default() },
            ..Self::default()
        }
    }

    /// Adds the second that ends at `now`. `capacity` is that of the ready pods, in units per
    /// second.
    pub(crate) fn add_second(&mut self, now: f64, state: &ClusterState<'_>, capacity: f64) {
        self.duration = now;
        self.pod_seconds += f64::from(state.pods);
        self.replica_seconds += f64::from(state.replicas);
        let replicas = &mut self.replicas;
        replicas.min = replicas.min.min(state.replicas);
        replicas.max = replicas.max.max(state.replicas);
        replicas.needed_max = replicas.needed_max.max(state.needed);
        let lost = (state.offered - state.served).max(0.0);
        let lost = if lost > state.offered * EPSILON { lost } else { 0.0 };
        self.load += state.offered;
        self.overloaded += lost;
        if state.offered > 0.0 {
            let utilization = if lost > 0.0 { 1.0 } else { state.offered / capacity };
            let slowdown = 1.0 / (1.0 - utilization.min(MAX_UTILIZATION));
            self.slowdown.add(slowdown, state.offered);
        }
        let is_late = self.add_queues(now, state);
        if lost > 0.0 || is_late {
            self.overload_seconds += 1.0;
        }
        if state.ready < state.needed {
            self.shortage_since.get_or_insert(now);
        } else if let Some(since) = self.shortage_since.take() {
            self.shortages.push(now - since);
        }
    }

    /// Adds the arrived and drained work of the last second. Returns whether drained work or the
    /// oldest waiting work has waited longer than the objective permits.
    fn add_queues(&mut self, now: f64, state: &ClusterState<'_>) -> bool {
        let limit = self.objective.max_wait.get();
        let mut is_late = false;
        let mut backlog = 0.0;
        for (measurements, queue) in self.queues.iter_mut().zip(state.queues) {
            let Backlog { waiting, arrived: total_arrived, drained: total_drained } = queue.backlog;
            let arrived = total_arrived - measurements.arrived;
            if arrived > 0.0 {
                measurements.waiting.push_back((now, arrived));
                self.load += arrived;
            }
            let mut drained = total_drained - measurements.drained;
            (measurements.arrived, measurements.drained) = (total_arrived, total_drained);
            while let Some((since, work)) = measurements.waiting.front_mut() {
                let done = work.min(drained);
                let wait = now - *since;
                is_late |= wait > limit && (done > 0.0 || *work > EPSILON);
                if done > 0.0 {
                    measurements.waits.add(wait, done);
                    self.overloaded += if wait > limit { done } else { 0.0 };
                }
                *work -= done;
                drained -= done;
                if *work > EPSILON {
                    break;
                }
                measurements.waiting.pop_front();
            }
            backlog += waiting;
        }
        self.max_backlog = self.max_backlog.max(backlog);
        is_late
    }

    pub(crate) fn add_rescale(&mut self, now: f64, from: u32, to: u32) {
        let is_up = to > from;
        if is_up {
            self.rescales.up += 1;
        } else {
            self.rescales.down += 1;
        }
        if let Some((then, was_up)) = self.last_rescale
            && was_up != is_up
            && now - then <= REVERSAL_SECONDS
        {
            self.rescales.reversals += 1;
        }
        self.last_rescale = Some((now, is_up));
        self.replicas.min = self.replicas.min.min(to);
        self.replicas.max = self.replicas.max.max(to);
    }

    pub(crate) fn finish(mut self) -> Outcome {
        let now = self.duration;
        self.shortages.extend(self.shortage_since.map(|since| now - since));
        let limit = self.objective.max_wait.get();
        for queue in &mut self.queues {
            for (since, work) in &queue.waiting {
                queue.waits.add(now - since, *work);
                self.overloaded += if now - since > limit { *work } else { 0.0 };
            }
        }
        let seconds = now.max(1.0);
        let share = if self.load > 0.0 { self.overloaded / self.load } else { 0.0 };
        let pod_hours = self.pod_seconds / HOUR;
        let has_requests = self.slowdown.weight > 0.0;
        let shortages = number::count(self.shortages.len());
        // `sum` of no values is -0.0.
        let total_shortage = self.shortages.iter().fold(0.0, |total, seconds| total + seconds);
        Outcome {
            pod_hours,
            cost: pod_hours * self.cost.per_pod_hour,
            overload: Overload {
                seconds: self.overload_seconds,
                share_of_time: self.overload_seconds / seconds,
                share_of_load: share.min(1.0),
            },
            latency: has_requests.then(|| Latency {
                mean: self.slowdown.mean(),
                p99: self.slowdown.percentile(PERCENTILE),
            }),
            queue: self.queue_wait(),
            replicas: Replicas { mean: self.replica_seconds / seconds, ..self.replicas },
            rescales: self.rescales,
            reaction: Reaction {
                shortages,
                mean_seconds: total_shortage / f64::from(shortages.max(1)),
                max_seconds: self.shortages.iter().copied().fold(0.0, f64::max),
            },
        }
    }

    /// The waits in the queue with the largest 99th percentile.
    fn queue_wait(&self) -> Option<QueueWait> {
        let waits = self.queues.iter().map(|queue| &queue.waits);
        let waits = waits.max_by(|one, other| {
            one.percentile(PERCENTILE).total_cmp(&other.percentile(PERCENTILE))
        })?;
        Some(QueueWait {
            mean_seconds: waits.mean(),
            p99_seconds: waits.percentile(PERCENTILE),
            max_seconds: waits.max,
            max_backlog: self.max_backlog,
        })
    }
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Sum of the pods' lifetimes, in hours.
    pub pod_hours: f64,
    /// Pod-hours times the price of a pod-hour.
    pub cost: f64,
    pub overload: Overload,
    /// `None` if there is no load except work in queues.
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
    /// Seconds with load beyond the capacity or with late work in queues.
    pub seconds: f64,
    /// `seconds` divided by the duration of the run.
    pub share_of_time: f64,
    /// The overloaded load divided by all load.
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

/// The waits in the queue with the largest 99th percentile, in seconds. Queues are first in, first
/// out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueWait {
    /// The mean over all work in the queue.
    pub mean_seconds: f64,
    /// 99 % of the work waits at most this long.
    pub p99_seconds: f64,
    pub max_seconds: f64,
    /// The largest amount of waiting work in all queues together.
    pub max_backlog: f64,
}

/// The replicas of the workload (`spec.replicas`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replicas {
    pub min: u32,
    /// The mean over time.
    pub mean: f64,
    pub max: u32,
    /// The number of pods that the largest load needs, at the target load of the profile.
    pub needed_max: u32,
}

/// The scalings of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rescales {
    pub up: u32,
    pub down: u32,
    /// Scalings in the opposite direction of the previous scaling, within ten minutes.
    pub reversals: u32,
}

impl Rescales {
    pub fn total(&self) -> u32 {
        self.up + self.down
    }
}

/// Shortages: the periods in which fewer pods are ready than the load needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reaction {
    /// The number of shortages.
    pub shortages: u32,
    pub mean_seconds: f64,
    pub max_seconds: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_by_weight_and_within_two_percent() {
        let mut values = WeightedHistogram::default();
        values.add(1.0, 98.0);
        values.add(50.0, 2.0);
        assert!((values.mean() - 1.98).abs() < 1e-9);
        let p99 = values.percentile(0.99);
        assert!((49.0..=51.0).contains(&p99), "{p99}");
        let median = values.percentile(0.5);
        assert!((0.95..=1.05).contains(&median), "{median}");
        assert!(WeightedHistogram::default().percentile(0.99).abs() < f64::EPSILON);
    }

    #[test]
    fn outcome_without_shortages_has_no_minus_sign() {
        let scenario = "
duration: 5m
autoscaler:
  metadata: {name: web}
  spec:
    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
    minReplicas: 2
    maxReplicas: 20
workload:
  replicas: 8
  profile: {cpuRequest: 100m, cpuPerUnit: 1m, capacity: 100, readiness: 5s}
  load: {constant: 100}
";
        let scenario_file = crate::ScenarioFile::parse_alone(scenario).unwrap();
        let outcome = scenario_file.variants[0].run().outcome;
        assert_eq!(outcome.reaction.shortages, 0);
        let json = serde_json::to_string(&outcome).unwrap();
        assert!(!json.contains(":-"), "{json}");
    }
}
