//! The effects of settings on an average over pods.

use std::sync::Arc;

use super::{CalculationError, Proposal, pod_count};
use crate::{
    api::Pod,
    pods::PodClass,
    settings::{DEFAULT_METRIC_SETTINGS, MetricSettings, Rollout},
};

/// The settings that an average over pods depends on. With the default, the average is that of the
/// reference.
#[derive(Clone, Copy)]
pub(crate) struct AverageRules<'a> {
    pub(crate) settings: &'a MetricSettings,
    pub(crate) rollout: Rollout,
}

impl Default for AverageRules<'_> {
    fn default() -> Self {
        Self { settings: &DEFAULT_METRIC_SETTINGS, rollout: Rollout::CountSurge }
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
    /// The number of pods whose applied request or limit differs from that of the spec.
    pub(crate) resized_pod_count: usize,
    pub(crate) skipped: SkippedPods,
    /// The aggregate divided by the mean, if they differ.
    pub(crate) aggregate_to_mean: Option<f64>,
    /// The number of pods from whose values the aggregate was selected.
    pub(crate) aggregated_pod_count: usize,
    /// The replicas that would be proposed if the surge pods of a rollout counted. `None` if they
    /// count.
    pub(crate) replicas_with_surge: Option<i32>,
}

impl RuleChanges {
    /// `value` is the aggregate, and `mean` the mean, of one value for each of `pod_count` pods.
    pub(super) fn set_aggregate(&mut self, pod_count: usize, value: f64, mean: f64) {
        self.aggregated_pod_count = pod_count;
        self.aggregate_to_mean = (value.total_cmp(&mean).is_ne()).then_some(value / mean);
    }
}

/// Pods that are left out because they lack the request, limit or container.
#[derive(Default)]
pub(crate) struct SkippedPods {
    /// The names of the first pods, up to [`MAX_NAMES`].
    pub(crate) names: Vec<Arc<str>>,
    pub(crate) count: usize,
    ready: usize,
    missing: usize,
    /// The reason why the first pod is left out.
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

    /// The number of pods that the ratio is multiplied by: the counted pods, and skipped pods up to
    /// `current_replicas` in total. Skipped pods are assumed to use as much as the others.
    /// Otherwise, the replicas would be halved if half of the pods had no request. Skipped pods in
    /// excess of the replicas are assumed to belong to another workload with the same labels.
    pub(super) fn count_with_skipped(
        &self,
        counted: usize,
        is_scale_down: bool,
        current_replicas: i32,
    ) -> usize {
        if self.count == 0 {
            return counted;
        }
        // For a scale-up, a pod without a sample has no usage.
        let skipped = if is_scale_down { self.ready + self.missing } else { self.ready };
        counted.max((counted + skipped).min(pod_count(current_replicas)))
    }
}
