//! A workload: its pods, and the distribution of load and queued work over them.

use std::{collections::BTreeMap, slice, sync::Arc};

use super::pod::Pod;
use crate::workload::{
    load::Load,
    number,
    profile::{PodProfile, ResourceUsage},
    random,
    scenario::{PodMetricSpec, QueueSpec, WorkloadSpec},
    series::Series,
};

/// Identifies a workload: an object that has pods and is not controlled by another object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadId {
    pub namespace: String,
    pub kind: String,
    pub name: String,
}

impl WorkloadId {
    pub fn new(
        namespace: impl Into<String>,
        kind: impl Into<String>,
        name: impl Into<String>,
    ) -> Self {
        Self { namespace: namespace.into(), kind: kind.into(), name: name.into() }
    }

    /// The key of the random numbers of the workload's pod with this creation index.
    pub(super) fn pod_key(&self, creation_index: u64) -> u64 {
        random::hash(&[&self.namespace, &self.kind, &self.name, &creation_index.to_string()])
    }

    /// The identity of a workload of a scenario.
    pub fn for_spec(spec: &WorkloadSpec) -> Self {
        Self::new(&spec.namespace, &spec.kind, &spec.name)
    }
}

/// Counters of a workload, in units of load and in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    pub offered: f64,
    pub served: f64,
    /// The sum of the pods' lifetimes.
    pub pod_seconds: f64,
    /// The time in which less than the offered load was served.
    pub underserved_seconds: f64,
}

/// A workload's load and pods. Rates are in units per second.
#[derive(Debug, Default)]
pub struct Workload {
    pub profile: Arc<PodProfile>,
    /// The resource usage from `profile`, as numbers.
    pub usage: ResourceUsage,
    pub load: Load,
    pub pod_metrics: Vec<PodMetricSpec>,
    pub pods: Pods,
    /// `spec.replicas` of the object.
    pub desired: u32,
    pub offered: f64,
    /// The part of `offered` that the pods serve.
    pub served: f64,
    /// Work taken from queues.
    pub drained: f64,
    /// Work arriving in the queues that this workload drains.
    pub arriving: f64,
    /// Counters that include the warm-up. Metrics are rates of these.
    pub counters: Totals,
    /// Counters since second 0.
    pub totals: Totals,
    /// Whether the scenario lists the workload. If so, it is kept when its object is deleted.
    pub(super) in_scenario: bool,
}

impl Workload {
    pub(super) fn new(
        profile: Arc<PodProfile>,
        load: Load,
        pod_metrics: Vec<PodMetricSpec>,
        in_scenario: bool,
    ) -> Self {
        Self {
            usage: profile.resource_usage(),
            profile,
            load,
            pod_metrics,
            in_scenario,
            ..Self::default()
        }
    }

    /// Pods needed for the load and the queues' arrivals, at the profile's target load.
    pub fn needed(&self) -> u32 {
        let target = self.profile.target_load.unwrap_or(self.usage.effective_capacity);
        number::pods_for(self.offered + self.arriving, target)
    }

    pub(super) fn ready_pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values().filter(|pod| pod.lifecycle.is_ready())
    }

    /// Terminates active pods of an owner until at most `desired` remain. Returns the number of
    /// missing pods, which the caller creates.
    pub fn terminate_surplus(&mut self, owner_uid: &str, desired: u32, now: f64) -> u32 {
        let is_owned = |pod: &&mut Pod| pod.owner_uid == owner_uid && pod.lifecycle.is_active();
        let mut owned: Vec<&mut Pod> = self.pods.values_mut().filter(is_owned).collect();
        let existing = number::count(owned.len());
        let surplus = existing.saturating_sub(desired) as usize;
        if surplus > 0 {
            owned.sort_by(|one, other| one.deletion_rank().total_cmp(&other.deletion_rank()));
            owned.into_iter().take(surplus).for_each(|pod| pod.terminate(now));
        }
        desired.saturating_sub(existing)
    }

    /// Spreads the load over the ready pods by weight. Load beyond a pod's capacity is lost.
    pub(super) fn serve(&mut self, now: f64) {
        self.offered = self.load.at(now);
        let capacity = self.usage.effective_capacity;
        let weights: f64 = self.ready_pods().map(|pod| pod.weight).sum();
        for pod in self.pods.values_mut() {
            // If all weights are 0, the share is NaN and the pod gets no load.
            let share = if pod.lifecycle.is_ready() { pod.weight / weights } else { 0.0 };
            pod.load = if share > 0.0 { (self.offered * share).min(capacity) } else { 0.0 };
        }
        self.served = self.pods.values().map(|pod| pod.load).sum();
        self.drained = 0.0;
    }

    /// The rate at which the ready pods can drain a queue.
    fn drain_capacity(&self, max_per_pod: Option<f64>) -> f64 {
        let capacity = self.usage.effective_capacity;
        self.ready_pods().map(|pod| spare_capacity(pod, capacity, max_per_pod)).sum()
    }

    /// Distributes work from a queue over the ready pods, in proportion to their spare capacities.
    /// `spare` is the sum of these.
    fn add_drained(&mut self, rate: f64, spare: f64, max_per_pod: Option<f64>) {
        if spare <= 0.0 {
            return;
        }
        let capacity = self.usage.effective_capacity;
        for pod in self.pods.values_mut().filter(|pod| pod.lifecycle.is_ready()) {
            pod.load += rate * spare_capacity(pod, capacity, max_per_pod) / spare;
        }
        self.drained += rate;
    }

    /// Adds the last `seconds` to the counters, and to the totals if `has_started`.
    pub(super) fn update_counters(&mut self, seconds: f64, has_started: bool) {
        let active = self.pods.values().filter(|pod| pod.lifecycle.is_active()).count();
        let is_underserved = self.served < self.offered * (1.0 - 1e-9);
        let add = |totals: &mut Totals| {
            totals.offered += self.offered * seconds;
            totals.served += self.served * seconds;
            totals.pod_seconds += active as f64 * seconds;
            totals.underserved_seconds += if is_underserved { seconds } else { 0.0 };
        };
        add(&mut self.counters);
        if has_started {
            add(&mut self.totals);
        }
    }
}

fn spare_capacity(pod: &Pod, capacity: f64, max_per_pod: Option<f64>) -> f64 {
    let spare = (capacity - pod.load).max(0.0);
    max_per_pod.map_or(spare, |max| spare.min(max))
}

/// A queue, its backlog and the metric of the backlog.
#[derive(Debug)]
pub struct Queue {
    pub spec: QueueSpec,
    pub workload: WorkloadId,
    pub backlog: Backlog,
    pub series: Series<f64>,
}

/// Adds the arrivals of the last `seconds` to the queues. Pods with spare capacity then drain them.
/// Nothing arrives before second 0.
pub(super) fn drain_queues(
    queues: &mut [Queue],
    workloads: &mut BTreeMap<WorkloadId, Workload>,
    now: f64,
    seconds: f64,
) {
    if now <= 0.0 {
        return;
    }
    let mut arriving = BTreeMap::<WorkloadId, f64>::new();
    for queue in queues {
        let rate = queue.spec.arrivals.at(now);
        *arriving.entry(queue.workload.clone()).or_default() += rate;
        let Some(workload) = workloads.get_mut(&queue.workload) else { continue };
        let spare = workload.drain_capacity(queue.spec.drain_per_pod);
        let drained = queue.backlog.advance(rate * seconds, spare * seconds) / seconds;
        workload.add_drained(drained, spare, queue.spec.drain_per_pod);
    }
    for (id, rate) in arriving {
        if let Some(workload) = workloads.get_mut(&id) {
            workload.arriving = rate;
        }
    }
}

/// The waiting work of a queue, and the totals of arrived and drained work, in units of load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Backlog {
    pub waiting: f64,
    pub arrived: f64,
    pub drained: f64,
}

impl Backlog {
    /// Adds arriving work, then drains up to `capacity`. Returns the drained work.
    pub fn advance(&mut self, arriving: f64, capacity: f64) -> f64 {
        let drained = capacity.min(self.waiting + arriving).max(0.0);
        self.arrived += arriving;
        self.drained += drained;
        self.waiting = (self.waiting + arriving - drained).max(0.0);
        drained
    }
}

/// Pods in the order of their creation. A vector, because they are iterated several times per
/// simulated second.
#[derive(Debug, Default)]
pub struct Pods {
    /// Sorted by creation index.
    pods: Vec<Pod>,
    created: u64,
}

impl Pods {
    pub(super) fn next_creation_index(&self) -> u64 {
        self.created
    }

    /// Adds a pod and sets its creation index, which it returns.
    pub(super) fn push(&mut self, mut pod: Pod) -> u64 {
        let creation_index = self.created;
        pod.creation_index = creation_index;
        self.created += 1;
        self.pods.push(pod);
        creation_index
    }

    /// The pod with this creation index, if it still exists.
    pub fn get(&self, creation_index: u64) -> Option<&Pod> {
        let position =
            self.pods.binary_search_by_key(&creation_index, |pod| pod.creation_index).ok()?;
        self.pods.get(position)
    }

    pub fn values(&self) -> slice::Iter<'_, Pod> {
        self.pods.iter()
    }

    pub fn values_mut(&mut self) -> slice::IterMut<'_, Pod> {
        self.pods.iter_mut()
    }

    pub fn len(&self) -> usize {
        self.pods.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&Pod) -> bool) {
        self.pods.retain(keep);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp, reason = "sums of small whole numbers are exact")]
    use super::*;

    #[test]
    fn arrived_work_is_drained_or_waiting() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut backlog = Backlog { waiting: 50.0, ..Backlog::default() };
        for _ in 0..1000 {
            let (arriving, capacity) = (f64::from(rng.u32(0..100)), f64::from(rng.u32(0..120)));
            let drained = backlog.advance(arriving, capacity);
            assert!(drained <= capacity && backlog.waiting >= 0.0);
            assert_eq!(50.0 + backlog.arrived, backlog.drained + backlog.waiting);
        }
    }

    #[test]
    fn backlog_only_grows_without_capacity() {
        let mut backlog = Backlog::default();
        let waiting = [3.0, 0.0, 4.0].map(|arriving| {
            backlog.advance(arriving, 0.0);
            backlog.waiting
        });
        assert_eq!(waiting, [3.0, 3.0, 7.0]);
    }
}
