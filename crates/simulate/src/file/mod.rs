//! The scenario file: an autoscaler, a workload, a load, and variants of all of them.

mod autoscaler;
mod decode;
mod error;
mod position;
mod spec;
#[cfg(test)]
mod tests;

use crate::workload::scenario::{Scenario, WorkloadSpec};
use hpa_calc::HorizontalPodAutoscaler;
use serde_json::Value;

pub use self::{
    error::StudyError,
    position::Position,
    spec::{Cost, Objective, json_schema},
};
use crate::controller::ControllerSettings;

/// The name of the variant that the file describes without a patch.
pub const BASE: &str = "base";

/// A scenario file.
#[derive(Clone, Debug)]
pub struct Study {
    pub name: String,
    pub description: String,
    /// The base, then the variants of the file in their order.
    pub variants: Vec<Variant>,
}

/// A complete scenario: what one run simulates.
#[derive(Clone, Debug)]
pub struct Variant {
    pub name: String,
    pub description: String,
    /// With the defaults of the API server.
    pub autoscaler: HorizontalPodAutoscaler,
    /// The manifest as given.
    pub manifest: Value,
    pub controller: ControllerSettings,
    pub objective: Objective,
    pub cost: Cost,
    /// What the load is measured in.
    pub load_unit: String,
    /// The only workload of `cluster`.
    pub workload: WorkloadSpec,
    pub cluster: Scenario,
}

/// The autoscaler of a manifest, if the API server accepts it.
pub(crate) fn decode_autoscaler(manifest: &Value) -> Option<HorizontalPodAutoscaler> {
    autoscaler::decode(manifest).ok()
}

impl Variant {
    /// The most load that a ready pod serves, in units per second. For a workload that only drains
    /// queues, the most that it drains.
    pub fn pod_capacity(&self) -> f64 {
        let profile = self.workload.profile.as_ref().unwrap_or(&self.cluster.default_profile);
        let drained = self.cluster.queues.iter().filter_map(|queue| queue.drain_per_pod);
        let drained = drained.fold(0.0, f64::max);
        let capacity = profile.effective_capacity();
        if drained > 0.0 { capacity.min(drained) } else { capacity }
    }

    /// Multiplies the load and the arrivals of queues.
    pub(crate) fn scale_load(&mut self, factor: f64) {
        self.workload.load.scale(factor);
        self.cluster.workloads.iter_mut().for_each(|workload| workload.load.scale(factor));
        self.cluster.queues.iter_mut().for_each(|queue| queue.arrivals.scale(factor));
    }

    /// The variant with another seed.
    #[must_use]
    pub fn with_seed(&self, seed: u64) -> Self {
        let mut other = self.clone();
        other.cluster.seed = seed;
        other
    }

    /// The scenario of the same run for the testbed: the autoscaler is one of its manifests.
    pub fn testbed_scenario(&self) -> Scenario {
        let mut manifest = self.manifest.clone();
        if let Some(fields) = manifest.as_object_mut() {
            fields.insert("apiVersion".to_owned(), "autoscaling/v2".into());
            fields.insert("kind".to_owned(), "HorizontalPodAutoscaler".into());
            let metadata = serde_json::to_value(&self.autoscaler.metadata).unwrap_or_default();
            fields.insert("metadata".to_owned(), metadata);
        }
        Scenario { manifests: vec![manifest], ..self.cluster.clone() }
    }
}
