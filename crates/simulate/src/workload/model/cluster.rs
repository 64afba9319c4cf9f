//! The modelled cluster: workloads, pods, queues and metric sources, which advance together.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use super::{
    lifecycle::{Delays, Lifecycle},
    metrics::MetricSources,
    pod::Pod,
    workload::{Backlog, Queue, Totals, Workload, WorkloadId, drain_queues},
};
use crate::workload::{
    load::Load,
    number,
    profile::PodProfile,
    random,
    scenario::{Incident, IncidentKind, QueueSpec, Scenario, WorkloadSpec},
    seconds::Seconds,
    series::Series,
};

/// The time for which the pods of a warm start have been ready, in seconds.
const WARM_READY_SECONDS: f64 = 600.0;

/// Seconds from one step of the model to the next.
const STEP: f64 = 1.0;

/// Name, labels and samples of an external metric.
type ExternalSeries<'a> = (&'a str, &'a BTreeMap<String, String>, &'a Series<f64>);

/// The state of the cluster at one simulated second.
#[derive(Debug)]
pub struct ClusterModel {
    pub seed: u64,
    /// Seconds since the start. Negative during the warm-up.
    pub now: f64,
    pub workloads: BTreeMap<WorkloadId, Workload>,
    /// The workload and the creation index of each pod, by the pod's namespace and name.
    workload_by_pod: BTreeMap<(String, String), (WorkloadId, u64)>,
    pub queues: Vec<Queue>,
    pub metrics: MetricSources,
    default_profile: Arc<PodProfile>,
    max_pods: Option<u32>,
    /// The number of generated names, which makes each of them different.
    generated_names: u64,
}

impl ClusterModel {
    /// The cluster of a scenario, without pods.
    pub fn new(scenario: &Scenario) -> Self {
        let default_profile = Arc::new(scenario.default_profile.clone());
        let workload = |spec: &WorkloadSpec| {
            let profile = spec.profile.clone().map_or_else(|| default_profile.clone(), Arc::new);
            let (load, pod_metrics) = (spec.load.clone(), spec.pod_metrics.clone());
            (WorkloadId::for_spec(spec), Workload::new(profile, load, pod_metrics, true))
        };
        let workloads = scenario.workloads.iter().map(workload).collect();
        let queue = |spec: &QueueSpec| {
            let workload = WorkloadId::for_spec(scenario.workload(&spec.workload)?);
            let backlog = Backlog { waiting: spec.backlog, ..Backlog::default() };
            Some(Queue { spec: spec.clone(), workload, backlog, series: Series::default() })
        };
        Self {
            seed: scenario.seed,
            now: 0.0,
            workloads,
            workload_by_pod: BTreeMap::new(),
            queues: scenario.queues.iter().filter_map(queue).collect(),
            metrics: MetricSources::new(scenario),
            default_profile,
            max_pods: scenario.max_pods,
            generated_names: 0,
        }
    }

    /// Advances pods, load, queues and metric sources to `now`.
    pub fn step(&mut self, now: f64) {
        let seconds = now - self.now;
        if seconds <= 0.0 {
            return;
        }
        let previous = std::mem::replace(&mut self.now, now);
        self.advance_pods(seconds);
        self.serve_load(seconds);
        self.metrics.scrape(&mut self.workloads, &mut self.queues, self.seed, previous, now);
    }

    /// Advances the pods' lifecycles, with random failures, and schedules pending pods.
    fn advance_pods(&mut self, seconds: f64) {
        let (now, seed) = (self.now, self.seed);
        let scheduled = number::count(self.pods().filter(|pod| pod.is_scheduled()).count());
        let mut free = self.max_pods.map_or(u32::MAX, |max| max.saturating_sub(scheduled));
        for workload in self.workloads.values_mut() {
            let profile = Arc::clone(&workload.profile);
            for pod in workload.pods.values_mut() {
                pod.fail_at_random(&profile, seed, now, seconds);
                let was_scheduled = pod.is_scheduled();
                let has_changed = pod.lifecycle.advance(now, free > 0);
                pod.is_dirty |= has_changed;
                if pod.is_scheduled() && !was_scheduled {
                    free = free.saturating_sub(1);
                }
            }
        }
    }

    fn serve_load(&mut self, seconds: f64) {
        let now = self.now;
        for workload in self.workloads.values_mut() {
            workload.serve(now.max(0.0));
        }
        drain_queues(&mut self.queues, &mut self.workloads, now, seconds);
        for workload in self.workloads.values_mut() {
            workload.update_counters(seconds, now > 0.0);
            let usage = workload.usage;
            for pod in workload.pods.values_mut() {
                pod.use_resources(&usage, now, seconds);
            }
        }
    }

    /// The time for which a query of metrics at `second` is answered. It is `second`, unless the
    /// model lags behind. Then it is just before the model's next step, because the samples would
    /// be stale at `second`.
    pub fn query_time(&self, second: f64) -> f64 {
        second.min((self.now + STEP).next_down())
    }

    /// Name, labels and series of the external metrics, those of queues first.
    pub fn external_metrics(&self) -> impl Iterator<Item = ExternalSeries<'_>> {
        let queues = self.queues.iter();
        let queues = queues.map(|one| (&*one.spec.metric, &one.spec.labels, &one.series));
        let others = self.metrics.externals.iter();
        queues.chain(others.map(|one| (&*one.name, &one.labels, &one.series)))
    }

    /// All pods, by workload, in the order of their creation.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.workloads.values().flat_map(|workload| workload.pods.values())
    }

    pub fn pods_mut(&mut self) -> impl Iterator<Item = &mut Pod> {
        self.workloads.values_mut().flat_map(|workload| workload.pods.values_mut())
    }

    /// The pod with this namespace and name, and its workload.
    pub fn pod(&self, id: &(String, String)) -> Option<(&Workload, &Pod)> {
        let (workload, index) = self.workload_by_pod.get(id)?;
        let workload = self.workloads.get(workload)?;
        Some((workload, workload.pods.get(*index)?))
    }

    /// The workload with this identity. If it is new, it gets the default profile and no load.
    pub fn workload_or_insert(&mut self, id: &WorkloadId) -> &mut Workload {
        let profile = &self.default_profile;
        self.workloads
            .entry(id.clone())
            .or_insert_with(|| Workload::new(profile.clone(), Load::default(), Vec::new(), false))
    }

    /// A name with a random suffix, as from `generateName`.
    pub fn generate_name(&mut self, owner: &str) -> String {
        self.generated_names += 1;
        let mut rng = random::rng(self.seed, random::hash(&[owner]), self.generated_names);
        format!("{owner}-{}", random::suffix(&mut rng, 5))
    }

    /// Adds a pod that starts its lifecycle now. Its random numbers depend on how many pods the
    /// workload had before, not on its name.
    pub fn add_pod(&mut self, id: &WorkloadId, mut pod: Pod) {
        let (seed, now) = (self.seed, self.now);
        let workload = self.workload_or_insert(id);
        pod.random_key = id.pod_key(workload.pods.next_creation_index());
        let mut rng = random::rng(seed, pod.random_key, 0);
        pod.weight = 1.0 + workload.profile.imbalance * (2.0 * rng.f64() - 1.0);
        pod.lifecycle = Lifecycle::new(now, delays(&workload.profile, &mut rng));
        let key = (pod.namespace.clone(), pod.name.clone());
        let index = workload.pods.push(pod);
        self.workload_by_pod.insert(key, (id.clone(), index));
    }

    /// Removes the pods for which `keep` returns false.
    pub fn retain_pods(&mut self, keep: impl Fn(&Pod) -> bool) {
        let workload_by_pod = &mut self.workload_by_pod;
        for workload in self.workloads.values_mut() {
            workload.pods.retain(|pod| {
                let is_kept = keep(pod);
                if !is_kept {
                    workload_by_pod.remove(&(pod.namespace.clone(), pod.name.clone()));
                }
                is_kept
            });
        }
    }

    /// Removes workloads that have neither an object, nor pods, nor an entry in the scenario. The
    /// remaining ones without an object get 0 desired replicas.
    pub fn retain_workloads(&mut self, has_object: impl Fn(&WorkloadId) -> bool) {
        self.workloads.retain(|id, workload| {
            let exists = has_object(id);
            workload.desired = if exists { workload.desired } else { 0 };
            exists || workload.in_scenario || !workload.pods.is_empty()
        });
    }

    /// Makes all pods as old as if they had been ready for ten minutes, and runs the metric sources
    /// up to second 0.
    pub fn warm_up(&mut self) {
        for pod in self.pods_mut() {
            pod.lifecycle.set_ready_for(WARM_READY_SECONDS);
            pod.is_dirty = true;
        }
        let mut second = -self.metrics.warm_up_seconds();
        self.now = second;
        while second < 0.0 {
            second += STEP;
            self.step(second);
        }
    }

    /// Applies an incident to all active pods of a workload, or to as many as the incident states,
    /// chosen at random.
    pub fn affect_pods(&mut self, id: &WorkloadId, incident: &Incident) {
        let (now, seed) = (self.now, self.seed);
        let Some(workload) = self.workloads.get_mut(id) else { return };
        let mut pods: Vec<&mut Pod> =
            workload.pods.values_mut().filter(|pod| pod.lifecycle.is_active()).collect();
        let mut rng = random::rng(seed, random::hash(&["incident"]), now.to_bits());
        rng.shuffle(&mut pods);
        let max = incident.pods.unwrap_or(number::count(pods.len()));
        for pod in pods.into_iter().take(max as usize) {
            pod.is_dirty = true;
            match incident.kind {
                IncidentKind::Crash => pod.lifecycle.crash(now),
                IncidentKind::Evict => pod.lifecycle.evict(now),
                IncidentKind::DeletePods => pod.lifecycle.terminate(now),
                IncidentKind::Flap => pod.lifecycle.flap(now, incident.duration_seconds()),
                IncidentKind::MissingSamples => {
                    pod.no_metrics_until = now + incident.duration_seconds();
                }
                // The caller applies these.
                IncidentKind::Rollout | IncidentKind::MetricsOutage | IncidentKind::ManualScale => {
                }
            }
        }
    }

    /// The state of the workloads and queues, without the delay and the noise of metrics.
    pub fn observe(&self, time: Timestamp) -> Observation {
        let queue = |queue: &Queue| QueueObservation {
            name: queue.spec.name.clone(),
            workload: queue.workload.clone(),
            backlog: queue.backlog,
        };
        let workloads = self.workloads.iter();
        Observation {
            time,
            second: self.now,
            workloads: workloads.map(|(id, one)| WorkloadObservation::new(id, one)).collect(),
            queues: self.queues.iter().map(queue).collect(),
        }
    }
}

/// The delays of one pod: the profile's, with jitter.
fn delays(profile: &PodProfile, rng: &mut random::Rng) -> Delays {
    let mut with_jitter =
        |time: Seconds| time.get() * (1.0 + profile.jitter * (2.0 * rng.f64() - 1.0));
    Delays {
        scheduling: with_jitter(profile.scheduling),
        starting: with_jitter(profile.starting),
        readiness: with_jitter(profile.readiness),
        termination: with_jitter(profile.termination),
    }
}

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
    /// Counters since the start.
    pub totals: Totals,
}

/// A queue at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueObservation {
    pub name: String,
    /// The workload that drains the queue.
    pub workload: WorkloadId,
    pub backlog: Backlog,
}

impl WorkloadObservation {
    fn new(id: &WorkloadId, workload: &Workload) -> Self {
        let pods = || workload.pods.values();
        Self {
            id: id.clone(),
            offered: workload.offered,
            served: workload.served,
            drained: workload.drained,
            needed: workload.needed(),
            desired: workload.desired,
            pods: number::count(pods().filter(|pod| pod.lifecycle.is_active()).count()),
            ready: number::count(workload.ready_pods().count()),
            cpu: pods()
                .filter(|pod| pod.lifecycle.is_running())
                .map(|pod| workload.usage.cpu(pod.load))
                .sum(),
            totals: workload.totals,
        }
    }
}
