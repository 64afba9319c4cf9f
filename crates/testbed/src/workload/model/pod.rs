//! One pod: what it does and uses.

use super::{HOUR, Lifecycle, PodProfile, Series, State, Times, UsageSample, UseOfLoad, random};

/// A container and what it used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Container {
    pub(crate) name: String,
    /// Whether it is the one that does the work.
    pub(crate) is_main: bool,
    /// The CPU and memory of one that does not: always the same.
    pub(crate) constant: (f64, f64),
    /// CPU time used so far, in seconds.
    pub(crate) cpu_seconds: f64,
    /// The CPU time at the last look.
    pub(crate) seen_cpu_seconds: f64,
    /// Memory now, in bytes.
    pub(crate) memory: f64,
}

/// A pod.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// The UID of the object that keeps it.
    pub(crate) owner: String,
    /// Of which template it is.
    pub(crate) revision: String,
    pub(crate) node: String,
    pub(crate) address: String,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) containers: Vec<Container>,
    /// Chance goes by it.
    pub(crate) thing: u64,
    /// Its part of the load against that of others.
    pub(crate) weight: f64,
    /// What it serves now, in units a second, queues included.
    pub(crate) load: f64,
    /// The units it served so far, and how many at the last look.
    pub(crate) served: f64,
    pub(crate) seen_served: f64,
    /// Since when the running container is looked at for usage, and the pod for its own metrics.
    pub(crate) usage_since: f64,
    pub(crate) rate_since: f64,
    /// Since when the container runs that was looked at.
    pub(crate) seen_running: Option<f64>,
    /// No metrics are seen of it until then.
    pub(crate) silent_until: f64,
    pub(crate) usage: Series<UsageSample>,
    pub(crate) rate: Series<f64>,
    /// Whether its object is behind.
    pub(crate) changed: bool,
}

impl Pod {
    /// A pod with nothing behind it; [`super::Model::add_pod`] gives it its times.
    pub(crate) fn new(namespace: &str, name: &str, owner: &str, revision: &str) -> Self {
        let times = Times { scheduling: 0.0, starting: 0.0, readiness: 0.0, termination: 0.0 };
        let thing = random::hash(&[namespace, name]);
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: String::new(),
            owner: owner.to_owned(),
            revision: revision.to_owned(),
            node: format!("node-{}", thing % 3 + 1),
            address: format!("10.244.{}.{}", thing / 256 % 256, thing % 254 + 1),
            lifecycle: Lifecycle::new(0.0, times),
            containers: Vec::new(),
            thing,
            weight: 1.0,
            load: 0.0,
            served: 0.0,
            seen_served: 0.0,
            usage_since: 0.0,
            rate_since: 0.0,
            seen_running: None,
            silent_until: 0.0,
            usage: Series::default(),
            rate: Series::default(),
            changed: false,
        }
    }

    /// Whether it takes up a place in the cluster.
    pub(crate) fn is_placed(&self) -> bool {
        !matches!(self.lifecycle.state, State::Pending { .. } | State::Evicted { .. })
            && self.lifecycle.scheduled.is_some()
    }

    /// Lets it flap, crash or be evicted as likely as its profile says.
    pub(super) fn meet_chance(&mut self, profile: &PodProfile, seed: u64, now: f64, span: f64) {
        let rates = [profile.flaps_per_hour, profile.crashes_per_hour, profile.evictions_per_hour];
        let has_started = now > 0.0;
        if !has_started || rates.iter().all(|rate| *rate <= 0.0) || !self.lifecycle.is_running() {
            return;
        }
        let mut rng = random::numbers(seed ^ 3, self.thing, now.to_bits());
        let [flaps, crashes, is_evicted] = rates.map(|rate| rng.f64() < rate * span / HOUR);
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
        self.changed |= self.lifecycle.state != before;
    }

    /// Uses CPU and memory for a span under its load.
    pub(super) fn work(&mut self, costs: &UseOfLoad, now: f64, span: f64) {
        self.follow_container();
        if !self.lifecycle.is_running() {
            return;
        }
        let is_warming = matches!(self.lifecycle.state, State::Warming { .. });
        let cpu = if is_warming { costs.startup_cpu } else { costs.cpu(self.load) };
        let memory = costs.memory(self.load);
        for container in &mut self.containers {
            let (cpu, memory) = if container.is_main { (cpu, memory) } else { container.constant };
            container.cpu_seconds += cpu * span;
            container.memory = memory;
        }
        self.served += self.load * span;
        if memory > costs.memory_limit {
            self.lifecycle.crash(now);
            self.changed = true;
        }
    }

    /// Starts to look anew when another container runs than before.
    fn follow_container(&mut self) {
        if self.lifecycle.running == self.seen_running {
            return;
        }
        self.seen_running = self.lifecycle.running;
        let Some(since) = self.lifecycle.running else { return };
        self.usage_since = since;
        self.rate_since = since;
        self.seen_served = self.served;
        for container in &mut self.containers {
            container.seen_cpu_seconds = container.cpu_seconds;
        }
    }
}
