//! The inputs and the result of the evaluation of a metric.

use std::sync::Arc;

use jiff::Timestamp;

use super::{error::ReadingError, source::is_object_average};
use crate::{
    api::{MetricSourceType, MetricSpec, MetricValueStatus, Pod, Scale},
    explain::{SettingEffect, TargetValue},
    quantity::MilliValue,
    readings::{ReadError, Reading, Sample},
    replicas::{AverageRules, AverageTarget, Proposal},
    settings::{MetricSettings, ReadinessRules, Settings, Tolerances},
};

/// The inputs of a metric's proposal, other than its spec and reading.
#[derive(Clone, Copy)]
pub(crate) struct MetricContext<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) scale: &'a Scale,
    pub(crate) pods: &'a [Arc<Pod>],
    pub(crate) tolerances: Tolerances,
    pub(crate) readiness: ReadinessRules,
    pub(crate) settings: &'a Settings,
    pub(crate) metric_settings: &'a MetricSettings,
}

impl MetricContext<'_> {
    /// The value of a sample, or an error if it is older than the settings of the metric allow.
    pub(super) fn value_if_fresh<T>(&self, sample: Sample<T>) -> Result<T, ReadingError> {
        match sample.timestamp {
            Some(timestamp) if self.metric_settings.is_too_old(timestamp, self.readiness.now) => {
                Err(self.too_old_error(timestamp))
            }
            _ => Ok(sample.value),
        }
    }

    pub(super) fn too_old_error(&self, newest: Timestamp) -> ReadingError {
        let age = self.readiness.now.duration_since(newest);
        ReadingError::TooOld { age, limit: self.metric_settings.max_sample_age.unwrap_or_default() }
    }

    /// The context of the metric at an index of `spec.metrics`. With `exact_schedules`, an average
    /// of a scaling schedule has no tolerance.
    pub(crate) fn for_metric(&self, index: usize, spec: &MetricSpec) -> Self {
        let is_exact = self.settings.exact_schedules
            && spec.source_type == MetricSourceType::Object
            && spec.object.as_ref().is_some_and(|object| {
                is_object_average(&object.target) && object.described_object.is_scaling_schedule()
            });
        let tolerances = if is_exact { Tolerances::NONE } else { self.tolerances };
        let metric_settings = self.settings.metric(index);
        Self { tolerances, metric_settings, ..*self }
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().map(AsRef::as_ref)
    }

    pub(super) fn average_target(&self, target: MilliValue, is_cpu: bool) -> AverageTarget {
        let current_replicas = self.scale.spec_replicas;
        AverageTarget { current_replicas, target, is_cpu, tolerances: self.tolerances }
    }

    pub(super) fn rules(&self) -> AverageRules<'_> {
        AverageRules { settings: self.metric_settings, rollout: self.settings.rollout }
    }
}

/// The result for a metric that could be read and computed.
pub(crate) struct EvaluatedMetric {
    pub(crate) proposal: Proposal,
    /// The name in conditions and events.
    pub(crate) name: String,
    pub(crate) target: TargetValue,
    /// The value for the status.
    pub(crate) current: MetricValueStatus,
    pub(crate) effects: Vec<SettingEffect>,
}

/// The content of a reading. `expected` returns `None` for a reading of another kind. Such a
/// reading counts as absent.
pub(super) fn expect_reading<T>(
    reading: Option<Result<Reading, ReadError>>,
    expected: impl FnOnce(Reading) -> Option<T>,
) -> Result<T, ReadingError> {
    reading.transpose()?.and_then(expected).ok_or(ReadingError::NotRead)
}
