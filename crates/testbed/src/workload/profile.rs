//! What a pod of a workload is like.

use hpa_calc::quantity::{Format, MilliValue, Quantity};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::seconds::Seconds;
use crate::json;

/// What a pod asks for, how long it takes to get ready, what it can do and what that costs, and how often it fails.
///
/// CPU is in cores, memory in bytes, both as quantities; load is in units per second of whatever the workload's load
/// counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PodProfile {
    /// The container that does the work.
    pub container: String,
    /// Its CPU request.
    pub cpu_request: Option<Quantity>,
    /// Its memory request.
    pub memory_request: Option<Quantity>,
    /// Its CPU limit: it uses no more, and with that serves no more.
    pub cpu_limit: Option<Quantity>,
    /// Its memory limit: beyond it the container is killed and starts again.
    pub memory_limit: Option<Quantity>,
    /// The containers beside it.
    pub sidecars: Vec<Sidecar>,
    /// How long until it has a node.
    pub scheduling: Seconds,
    /// How long from then until its containers run (the pull of the images).
    pub starting: Seconds,
    /// How long from then until it is ready.
    pub readiness: Seconds,
    /// How long it is on its way out.
    pub termination: Seconds,
    /// By which part of them the times above differ from pod to pod, up and down: 0.2 is ±20 %.
    pub jitter: f64,
    /// CPU while it gets ready.
    pub startup_cpu: Quantity,
    /// CPU without load.
    pub idle_cpu: Quantity,
    /// CPU for a unit of load a second.
    pub cpu_per_unit: Quantity,
    /// Memory without load.
    pub idle_memory: Quantity,
    /// Memory for a unit of load a second.
    pub memory_per_unit: Quantity,
    /// The most it serves, in units of load a second.
    pub capacity: f64,
    /// What an operator would have it serve, in units of load a second; its capacity unless it says so. Only the
    /// observation goes by it: how many pods the load needs.
    pub target_load: Option<f64>,
    /// By which part its share of the load differs from pod to pod, up and down.
    pub imbalance: f64,
    /// How often a ready pod becomes unready, per hour.
    pub flaps_per_hour: f64,
    /// For how long it then is.
    pub flap_duration: Seconds,
    /// How often a running container crashes, per hour.
    pub crashes_per_hour: f64,
    /// How often a running pod is evicted, per hour.
    pub evictions_per_hour: f64,
}

/// A container beside the one that does the work: it uses always the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sidecar {
    /// The container.
    pub name: String,
    /// Its CPU request.
    #[serde(default)]
    pub cpu_request: Option<Quantity>,
    /// Its memory request.
    #[serde(default)]
    pub memory_request: Option<Quantity>,
    /// The CPU it uses.
    #[serde(default)]
    pub cpu: Quantity,
    /// The memory it uses.
    #[serde(default)]
    pub memory: Quantity,
}

/// What a profile's quantities are as numbers: CPU in cores, memory in bytes, infinite where there is no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ResourceUsage {
    pub(crate) capacity: f64,
    pub(crate) startup_cpu: f64,
    idle_cpu: f64,
    cpu_per_unit: f64,
    cpu_limit: f64,
    idle_memory: f64,
    memory_per_unit: f64,
    pub(crate) memory_limit: f64,
}

impl ResourceUsage {
    /// The container's CPU at a load.
    pub(crate) fn cpu(&self, load: f64) -> f64 {
        (self.idle_cpu + load * self.cpu_per_unit).min(self.cpu_limit)
    }

    /// The container's memory at a load.
    pub(crate) fn memory(&self, load: f64) -> f64 {
        self.idle_memory + load * self.memory_per_unit
    }
}

impl Default for PodProfile {
    /// A pod that requests 100m CPU and uses 1m for each request a second, of which it serves up to 200.
    fn default() -> Self {
        Self {
            container: "app".to_owned(),
            cpu_request: Some(milli(100)),
            memory_request: Some(mebi(128)),
            cpu_limit: None,
            memory_limit: None,
            sidecars: Vec::new(),
            scheduling: Seconds::new(1.0),
            starting: Seconds::new(3.0),
            readiness: Seconds::new(6.0),
            termination: Seconds::new(5.0),
            jitter: 0.0,
            startup_cpu: milli(100),
            idle_cpu: milli(2),
            cpu_per_unit: milli(1),
            idle_memory: mebi(40),
            memory_per_unit: Quantity::default(),
            capacity: 200.0,
            target_load: None,
            imbalance: 0.0,
            flaps_per_hour: 0.0,
            flap_duration: Seconds::new(20.0),
            crashes_per_hour: 0.0,
            evictions_per_hour: 0.0,
        }
    }
}

fn milli(cpu: i64) -> Quantity {
    MilliValue::from_milli(cpu).into()
}

fn mebi(memory: i64) -> Quantity {
    Quantity::from_milli(MilliValue::from_units(memory << 20), Format::BinarySI)
}

impl PodProfile {
    /// The most a pod serves, in units of load a second, under its CPU limit too.
    pub fn effective_capacity(&self) -> f64 {
        self.resource_usage().capacity
    }

    /// What load costs, as numbers to reckon with.
    pub(crate) fn resource_usage(&self) -> ResourceUsage {
        let cpu_limit = self.cpu_limit.as_ref().map_or(f64::INFINITY, Quantity::as_f64);
        let (idle_cpu, cpu_per_unit) = (self.idle_cpu.as_f64(), self.cpu_per_unit.as_f64());
        let by_cpu = if cpu_per_unit > 0.0 {
            (cpu_limit - idle_cpu).max(0.0) / cpu_per_unit
        } else {
            f64::INFINITY
        };
        ResourceUsage {
            capacity: self.capacity.min(by_cpu),
            startup_cpu: self.startup_cpu.as_f64(),
            idle_cpu,
            cpu_per_unit,
            cpu_limit,
            idle_memory: self.idle_memory.as_f64(),
            memory_per_unit: self.memory_per_unit.as_f64(),
            memory_limit: self.memory_limit.as_ref().map_or(f64::INFINITY, Quantity::as_f64),
        }
    }

    /// What a pod should serve, in units of load a second.
    pub fn target(&self) -> f64 {
        self.target_load.unwrap_or_else(|| self.effective_capacity())
    }

    /// The containers of a pod of this profile, as its spec has them.
    pub(crate) fn containers(&self, image: &str) -> Vec<Value> {
        let mut main = json!({
            "name": self.container, "image": image,
            "resources": { "requests": requests(self.cpu_request.as_ref(), self.memory_request.as_ref()) },
        });
        let limits = requests(self.cpu_limit.as_ref(), self.memory_limit.as_ref());
        if limits.as_object().is_some_and(|limits| !limits.is_empty()) {
            json::set(&mut main, &["resources", "limits"], limits);
        }
        let sidecar = |one: &Sidecar| {
            let requests = requests(one.cpu_request.as_ref(), one.memory_request.as_ref());
            json!({ "name": one.name, "image": "sidecar:1", "resources": { "requests": requests } })
        };
        [main].into_iter().chain(self.sidecars.iter().map(sidecar)).collect()
    }

    /// What is wrong with it: the member, and why.
    pub(crate) fn problem(&self) -> Option<String> {
        let rates = [
            ("capacity", Some(self.capacity)),
            ("targetLoad", self.target_load),
            ("flapsPerHour", Some(self.flaps_per_hour)),
            ("crashesPerHour", Some(self.crashes_per_hour)),
            ("evictionsPerHour", Some(self.evictions_per_hour)),
        ];
        let parts = [("jitter", self.jitter), ("imbalance", self.imbalance)];
        let mut rates = rates.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
        if let Some((name, value)) = rates.find(|(_, value)| !value.is_finite() || *value < 0.0) {
            return Some(format!("{name}: must not be negative: {value}"));
        }
        if let Some((name, value)) = parts.iter().find(|(_, value)| !(0.0..=1.0).contains(value)) {
            return Some(format!("{name}: must be between 0 and 1: {value}"));
        }
        if self.target() <= 0.0 {
            return Some("capacity: a pod must be able to serve more than nothing".to_owned());
        }
        self.duplicate_container()
            .map(|name| format!("sidecars: the container \"{name}\" is there twice"))
    }

    fn duplicate_container(&self) -> Option<&str> {
        let mut names: Vec<&str> =
            self.sidecars.iter().map(|sidecar| sidecar.name.as_str()).collect();
        names.push(&self.container);
        names.sort_unstable();
        names.windows(2).find_map(|pair| match pair {
            [one, next] if one == next => Some(*one),
            _ => None,
        })
    }
}

fn requests(cpu: Option<&Quantity>, memory: Option<&Quantity>) -> Value {
    let mut requests = json!({});
    for (name, quantity) in [("cpu", cpu), ("memory", memory)] {
        if let Some(quantity) = quantity {
            json::set(&mut requests, &[name], quantity.to_string());
        }
    }
    requests
}
