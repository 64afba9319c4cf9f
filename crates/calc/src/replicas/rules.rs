//! The effects of settings on an average over pods.

use std::sync::Arc;

use super::{CalculationError, Proposal};
use crate::{
    api::Pod,
    pods::PodClass,
    settings::{DEFAULT_METRIC, MetricSettings, Rollout},
};

/// The settings that an average over pods depends on. The default is that of the reference.
#[derive(Clone, Copy)]
pub(crate) struct AverageRules<'a> {
    pub(crate) metric: &'a MetricSettings,
    pub(crate) rollout: Rollout,
}

impl Default for AverageRules<'_> {
    fn default() -> Self {
        Self { metric: &DEFAULT_METRIC, rollout: Rollout::CountSurge }
    }
}

/// The proposal of an average over pods.
pub(crate) struct PodAverage {
    pub(crate) proposal: Proposal,
    pub(crate) changes: RuleChanges,
}

/// The changes that settings made to an average over pods.
#[derive(Default)]
pub(crate) struct RuleChanges {
    /// The number of pods whose actual request differs from that of the spec.
    pub(crate) resized: usize,
    pub(crate) skipped: SkippedPods,
    /// The aggregate divided by the mean, if they differ.
    pub(crate) aggregate_by_mean: Option<f64>,
    /// The number of values from which the aggregate was selected.
    pub(crate) aggregated: usize,
    /// The proposed replicas if the surge counts, if they differ.
    pub(crate) with_surge: Option<i32>,
}

impl RuleChanges {
    pub(super) fn set_aggregate(&mut self, values: usize, value: f64, mean: f64) {
        self.aggregated = values;
        self.aggregate_by_mean = (value.total_cmp(&mean).is_ne()).then_some(value / mean);
    }

    /// `with_surge` is the proposal in which the surge counts.
    pub(super) fn set_surge(&mut self, proposal: &Proposal, with_surge: Option<&Proposal>) {
        let with_surge = with_surge.map(|with_surge| with_surge.replicas);
        self.with_surge = with_surge.filter(|replicas| *replicas != proposal.replicas);
    }
}

/// Pods that are left out because they lack the request.
#[derive(Default)]
pub(crate) struct SkippedPods {
    /// The names of the first pods, up to [`MAX_NAMES`].
    pub(crate) names: Vec<Arc<str>>,
    pub(crate) count: usize,
    ready: usize,
    missing: usize,
    /// The reason for which the first pod is left out.
    pub(super) error: Option<CalculationError>,
}

/// The maximum number of skipped pods whose names are stored.
const MAX_NAMES: usize = 5;

impl SkippedPods {
    pub(super) fn add(&mut self, pod: &Pod, class: PodClass, error: CalculationError) {
        self.count += 1;
        self.ready += usize::from(class == PodClass::Ready);
        self.missing += usize::from(class == PodClass::Missing);
        if self.names.len() < MAX_NAMES {
            self.names.push(Arc::clone(&pod.name));
        }
        self.error.get_or_insert(error);
    }

    /// The number of pods that the ratio is multiplied by, including skipped pods up to the number
    /// of replicas. They count as if they used as much as the others: otherwise, the replicas would
    /// be halved if half of the pods had no request. Skipped pods beyond the replicas belong to
    /// another workload with the same labels.
    pub(super) fn included(&self, counted: usize, ratio: f64, current_replicas: i32) -> usize {
        if self.count == 0 {
            return counted;
        }
        // For a scale-up, a pod without a sample has no usage.
        let skipped = if ratio < 1.0 { self.ready + self.missing } else { self.ready };
        let replicas = usize::try_from(current_replicas).unwrap_or(0);
        counted.max((counted + skipped).min(replicas))
    }
}
