//! A pod: its lifecycle, the load it serves and the resources it uses.

use super::lifecycle::{Lifecycle, PodState};
use crate::workload::{
    profile::{PodProfile, ResourceUsage},
    random,
    seconds::HOUR,
    series::Series,
};

/// Time from the eviction of a pod until its object is deleted, in seconds.
const EVICTED_POD_TTL: f64 = 300.0;

/// The name of each container, its CPU in cores and its memory in bytes.
pub type UsageSample = Vec<(String, f64, f64)>;

/// A container and its resource usage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Container {
    pub name: String,
    /// The constant CPU (in cores) and memory (in bytes) of a sidecar. `None` for the main
    /// container, which serves the load.
    sidecar_usage: Option<(f64, f64)>,
    /// CPU time used so far, in seconds.
    pub cpu_seconds: f64,
    /// CPU time at the last scrape.
    pub scraped_cpu_seconds: f64,
    /// Memory now, in bytes.
    pub memory: f64,
}

impl Container {
    /// A container that has used nothing yet. The main container has no `sidecar_usage`.
    pub fn new(name: &str, sidecar_usage: Option<(f64, f64)>) -> Self {
        Self { name: name.to_owned(), sidecar_usage, ..Self::default() }
    }

    pub fn is_main(&self) -> bool {
        self.sidecar_usage.is_none()
    }
}

/// A pod of a workload. Times are simulated seconds since the start.
#[derive(Clone, Debug, Default)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub owner_uid: String,
    /// The template that the pod was created from.
    pub revision: String,
    pub node: String,
    pub ip: String,
    pub lifecycle: Lifecycle,
    pub containers: Vec<Container>,
    /// The key of the pod's random numbers.
    pub random_key: u64,
    /// See [`Pod::creation_index`]. [`Pods`](super::Pods) sets it.
    pub(super) creation_index: u64,
    /// Share of the load, relative to the workload's other pods.
    pub weight: f64,
    /// Load served now, queued work included, in units per second.
    pub load: f64,
    /// Units served so far.
    pub served: f64,
    /// Units served up to the last scrape.
    pub scraped_served: f64,
    /// Last scrape of the resource usage, or the container's start if it is later.
    pub usage_scraped_at: f64,
    /// Last scrape of the pod metrics, or the container's start if it is later.
    pub rate_scraped_at: f64,
    /// Start of the container to which these scrapes belong.
    pub scraped_container_start: Option<f64>,
    /// The end of the last incident that suppresses the pod's metrics.
    pub no_metrics_until: f64,
    pub usage: Series<UsageSample>,
    pub rate: Series<f64>,
    /// Whether the pod has changed. Its object in the testbed, or the controller's view of it in
    /// the simulation, is outdated then.
    pub is_dirty: bool,
}

impl Pod {
    /// A pod without a lifecycle, a weight and random numbers. [`ClusterModel::add_pod`] sets them.
    ///
    /// [`ClusterModel::add_pod`]: super::ClusterModel::add_pod
    pub fn new(namespace: &str, name: &str, owner_uid: &str, revision: &str) -> Self {
        let key = random::hash(&[namespace, name]);
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            owner_uid: owner_uid.to_owned(),
            revision: revision.to_owned(),
            node: format!("node-{}", key % 3 + 1),
            ip: format!("10.244.{}.{}", key / 256 % 256, key % 254 + 1),
            ..Self::default()
        }
    }

    /// The order in which surplus pods are deleted, lowest rank first: pending, creating, otherwise
    /// unready, and ready pods, each newest first.
    pub(super) fn deletion_rank(&self) -> f64 {
        const STATE_STEP: f64 = 1e12;
        let lifecycle = &self.lifecycle;
        match lifecycle.state {
            PodState::Pending { .. } => -4.0 * STATE_STEP - lifecycle.created_at,
            PodState::Creating { .. } => -3.0 * STATE_STEP - lifecycle.created_at,
            PodState::Ready => -lifecycle.ready_transition,
            _ => -2.0 * STATE_STEP - lifecycle.created_at,
        }
    }

    /// Starts the graceful termination, unless it has started.
    pub fn terminate(&mut self, now: f64) {
        if !matches!(self.lifecycle.state, PodState::Terminating { .. }) {
            self.lifecycle.terminate(now);
            self.is_dirty = true;
        }
    }

    /// Whether the object of the pod is removed at `now`: after the termination, or five minutes
    /// after an eviction.
    pub fn is_finished(&self, now: f64) -> bool {
        match self.lifecycle.state {
            PodState::Terminating { until } => until <= now,
            PodState::Evicted { since } => now - since >= EVICTED_POD_TTL,
            _ => false,
        }
    }

    /// The number of pods that the workload created before this one, deleted ones included.
    pub fn creation_index(&self) -> u64 {
        self.creation_index
    }

    /// Whether the pod counts against the cluster's `maxPods`.
    pub fn is_scheduled(&self) -> bool {
        !matches!(self.lifecycle.state, PodState::Pending { .. } | PodState::Evicted { .. })
            && self.lifecycle.scheduled_at.is_some()
    }

    /// Flaps, crashes or evicts the pod with the probability that its profile gives, if it runs and
    /// the simulation has started.
    pub(super) fn fail_at_random(
        &mut self,
        profile: &PodProfile,
        seed: u64,
        now: f64,
        seconds: f64,
    ) {
        let rates = [profile.flaps_per_hour, profile.crashes_per_hour, profile.evictions_per_hour];
        let has_started = now > 0.0;
        if !has_started || rates.iter().all(|rate| *rate <= 0.0) || !self.lifecycle.is_running() {
            return;
        }
        let mut rng = random::rng(seed ^ random::POD_FAILURES, self.random_key, now.to_bits());
        let [flaps, crashes, is_evicted] = rates.map(|rate| rng.f64() < rate * seconds / HOUR);
        let before = self.lifecycle.state;
        if flaps {
            self.lifecycle.flap(now, profile.flap_duration.get());
        }
        if crashes {
            self.lifecycle.crash(now);
        }
        if is_evicted {
            self.lifecycle.evict(now);
        }
        self.is_dirty |= self.lifecycle.state != before;
    }

    /// Adds the CPU time of the last `seconds`. Exceeding the memory limit crashes the container.
    pub(super) fn use_resources(&mut self, usage: &ResourceUsage, now: f64, seconds: f64) {
        self.reset_scrapes_after_restart();
        if !self.lifecycle.is_running() {
            return;
        }
        let is_warming = matches!(self.lifecycle.state, PodState::Warming { .. });
        let cpu = if is_warming { usage.startup_cpu } else { usage.cpu(self.load) };
        let memory = usage.memory(self.load);
        for container in &mut self.containers {
            let (cpu, memory) = container.sidecar_usage.unwrap_or((cpu, memory));
            container.cpu_seconds += cpu * seconds;
            container.memory = memory;
        }
        self.served += self.load * seconds;
        if memory > usage.memory_limit {
            self.lifecycle.crash(now);
            self.is_dirty = true;
        }
    }

    /// A new container has new counters, so rates are measured from its start.
    fn reset_scrapes_after_restart(&mut self) {
        if self.lifecycle.running_since == self.scraped_container_start {
            return;
        }
        self.scraped_container_start = self.lifecycle.running_since;
        let Some(since) = self.lifecycle.running_since else { return };
        self.usage_scraped_at = since;
        self.rate_scraped_at = since;
        self.scraped_served = self.served;
        for container in &mut self.containers {
            container.scraped_cpu_seconds = container.cpu_seconds;
        }
    }
}
