//! The profile of simulated pods: requests, delays, capacity, resource usage and failures.

use std::collections::BTreeSet;

use hpa_calc::{
    crd::FieldError,
    quantity::{Format, MilliValue, Quantity},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    field::{check_fraction, check_not_negative, check_positive, ensure},
    seconds::Seconds,
};

/// Resource requests, startup times, capacity, resource usage and failure rates of a pod.
///
/// CPU is in cores and memory in bytes, both as quantities. Load is in units per second. The unit
/// is that of the workload's load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PodProfile {
    /// Name of the main container, which serves the load.
    pub container: String,
    /// CPU request of the main container.
    pub cpu_request: Option<Quantity>,
    /// Memory request of the main container.
    pub memory_request: Option<Quantity>,
    /// CPU limit of the main container. It also limits the load that the pod serves.
    pub cpu_limit: Option<Quantity>,
    /// Memory limit of the main container, which is killed and restarted above it.
    pub memory_limit: Option<Quantity>,
    pub sidecars: Vec<Sidecar>,
    /// Time from creation until the pod has a node.
    pub scheduling: Seconds,
    /// Time from scheduling until the containers run, for example to pull images.
    pub starting: Seconds,
    /// Time from the start of the containers until the pod is ready.
    pub readiness: Seconds,
    /// Time from deletion until the pod is gone.
    pub termination: Seconds,
    /// Relative variation of the times above between pods: 0.2 is ±20 %.
    pub jitter: f64,
    /// CPU usage before the pod is ready.
    pub startup_cpu: Quantity,
    /// CPU usage without load.
    pub idle_cpu: Quantity,
    /// CPU usage per unit of load per second.
    pub cpu_per_unit: Quantity,
    /// Memory usage without load.
    pub idle_memory: Quantity,
    /// Memory usage per unit of load per second.
    pub memory_per_unit: Quantity,
    /// The maximum load served by a pod, in units per second.
    pub capacity: f64,
    /// The load per pod that the workload is sized for, by default the capacity of a pod. It
    /// determines the number of needed pods in results, and whether `hpa recommend` tries
    /// forecasts.
    pub target_load: Option<f64>,
    /// Relative variation of the load between pods: 0.2 is ±20 %.
    pub imbalance: f64,
    /// Failures of the readiness probe of a ready pod per hour.
    pub flaps_per_hour: f64,
    /// Time until the probe succeeds again.
    pub flap_duration: Seconds,
    /// Crashes of a running container per hour.
    pub crashes_per_hour: f64,
    /// Evictions of a running pod per hour.
    pub evictions_per_hour: f64,
}

/// A sidecar container with constant resource usage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sidecar {
    pub name: String,
    #[serde(default)]
    pub cpu_request: Option<Quantity>,
    #[serde(default)]
    pub memory_request: Option<Quantity>,
    /// CPU usage.
    #[serde(default)]
    pub cpu: Quantity,
    /// Memory usage.
    #[serde(default)]
    pub memory: Quantity,
}

impl Sidecar {
    /// CPU usage in cores, and memory usage in bytes.
    pub fn usage(&self) -> (f64, f64) {
        (self.cpu.as_f64(), self.memory.as_f64())
    }
}

/// Resource usage by load, as numbers: CPU in cores, memory in bytes. A missing limit is infinite.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResourceUsage {
    /// See [`PodProfile::effective_capacity`].
    pub effective_capacity: f64,
    pub startup_cpu: f64,
    idle_cpu: f64,
    cpu_per_unit: f64,
    cpu_limit: f64,
    idle_memory: f64,
    memory_per_unit: f64,
    pub memory_limit: f64,
}

impl ResourceUsage {
    /// CPU usage of the main container under a load.
    pub fn cpu(&self, load: f64) -> f64 {
        (self.idle_cpu + load * self.cpu_per_unit).min(self.cpu_limit)
    }

    /// Memory usage of the main container under a load.
    pub fn memory(&self, load: f64) -> f64 {
        self.idle_memory + load * self.memory_per_unit
    }
}

impl Default for PodProfile {
    /// A pod that requests 100m CPU, uses 1m per request per second, and serves up to 200 per
    /// second.
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
    /// The maximum load served by a pod, in units per second. The CPU limit may lower it.
    pub fn effective_capacity(&self) -> f64 {
        self.resource_usage().effective_capacity
    }

    pub fn resource_usage(&self) -> ResourceUsage {
        let cpu_limit = self.cpu_limit.as_ref().map_or(f64::INFINITY, Quantity::as_f64);
        let (idle_cpu, cpu_per_unit) = (self.idle_cpu.as_f64(), self.cpu_per_unit.as_f64());
        let cpu_capacity = if cpu_per_unit > 0.0 {
            (cpu_limit - idle_cpu).max(0.0) / cpu_per_unit
        } else {
            f64::INFINITY
        };
        ResourceUsage {
            effective_capacity: self.capacity.min(cpu_capacity),
            startup_cpu: self.startup_cpu.as_f64(),
            idle_cpu,
            cpu_per_unit,
            cpu_limit,
            idle_memory: self.idle_memory.as_f64(),
            memory_per_unit: self.memory_per_unit.as_f64(),
            memory_limit: self.memory_limit.as_ref().map_or(f64::INFINITY, Quantity::as_f64),
        }
    }

    /// The load per pod that the workload is sized for, in units per second: `target_load`, or else
    /// the effective capacity.
    pub fn effective_target_load(&self) -> f64 {
        self.target_load.unwrap_or_else(|| self.effective_capacity())
    }

    /// The containers of the pod's spec as JSON, with `image` for the main container.
    pub fn containers(&self, image: &str) -> Vec<Value> {
        let limits = resources(self.cpu_limit.as_ref(), self.memory_limit.as_ref());
        let requests = resources(self.cpu_request.as_ref(), self.memory_request.as_ref());
        let mut main = json!({
            "name": self.container, "image": image,
            "resources": { "requests": requests },
        });
        if let Some(resources) = main.get_mut("resources").and_then(Value::as_object_mut)
            && limits.as_object().is_some_and(|limits| !limits.is_empty())
        {
            resources.insert("limits".to_owned(), limits);
        }
        let sidecar = |one: &Sidecar| {
            let requests = resources(one.cpu_request.as_ref(), one.memory_request.as_ref());
            json!({ "name": one.name, "image": "sidecar:1", "resources": { "requests": requests } })
        };
        [main].into_iter().chain(self.sidecars.iter().map(sidecar)).collect()
    }

    pub fn validate(&self) -> Result<(), FieldError> {
        check_positive("capacity", self.capacity)?;
        check_not_negative("flapsPerHour", self.flaps_per_hour)?;
        check_not_negative("crashesPerHour", self.crashes_per_hour)?;
        check_not_negative("evictionsPerHour", self.evictions_per_hour)?;
        check_fraction("jitter", self.jitter)?;
        check_fraction("imbalance", self.imbalance)?;
        // A pod that uses all of its limit without load serves nothing.
        ensure(self.effective_capacity() > 0.0, "cpuLimit", "must be more than idleCpu")?;
        check_positive("targetLoad", self.effective_target_load())?;
        let mut names = BTreeSet::from([&self.container]);
        for Sidecar { name, .. } in &self.sidecars {
            ensure(names.insert(name), "sidecars", format!("duplicate container \"{name}\""))?;
        }
        Ok(())
    }
}

fn resources(cpu: Option<&Quantity>, memory: Option<&Quantity>) -> Value {
    let quantities = [("cpu", cpu), ("memory", memory)].into_iter();
    quantities.filter_map(|(name, quantity)| Some((name, quantity?.to_string()))).collect()
}
