//! The inputs and the result of the evaluation of a metric.

use std::sync::Arc;

use jiff::Timestamp;

use super::{error::ReadingError, source::is_object_average};
use crate::{
    api::{MetricSourceType, MetricSpec, MetricStatus, Pod, Scale},
    explain::{SettingEffect, TargetValue},
    quantity::MilliValue,
    readings::{ReadError, Reading, Sample},
    replicas::{AverageRules, AverageTarget, Proposal, ValueTarget, average_without_surge},
    settings::{MetricSettings, Readiness, Rollout, Settings, Tolerances},
};

/// The inputs of a proposal other than the metric.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) scale: &'a Scale,
    pub(crate) pods: &'a [Arc<Pod>],
    pub(crate) tolerances: Tolerances,
    pub(crate) readiness: Readiness,
    pub(crate) settings: &'a Settings,
    /// The settings of the metric.
    pub(crate) metric: &'a MetricSettings,
}

impl Context<'_> {
    /// Fails if a value is older than the settings of the metric allow.
    pub(super) fn check_age<T>(&self, sample: Sample<T>) -> Result<T, ReadingError> {
        match sample.timestamp {
            Some(timestamp) if self.metric.is_too_old(timestamp, self.readiness.now) => {
                Err(self.too_old(timestamp))
            }
            _ => Ok(sample.value),
        }
    }

    pub(super) fn too_old(&self, newest: Timestamp) -> ReadingError {
        let age = self.readiness.now.duration_since(newest);
        ReadingError::TooOld { age, limit: self.metric.max_sample_age.unwrap_or_default() }
    }

    /// The context of the metric at an index of `spec.metrics`.
    pub(crate) fn for_metric(&self, index: usize, spec: &MetricSpec) -> Self {
        let is_exact = self.settings.exact_schedules
            && spec.source_type == MetricSourceType::Object
            && spec.object.as_ref().is_some_and(|object| {
                is_object_average(&object.target) && object.described_object.is_scaling_schedule()
            });
        let tolerances = if is_exact { Tolerances::NONE } else { self.tolerances };
        Self { tolerances, metric: self.settings.metric(index), ..*self }
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().map(AsRef::as_ref)
    }

    pub(super) fn average_target(&self, target: MilliValue, is_cpu: bool) -> AverageTarget {
        let current_replicas = self.scale.spec_replicas;
        AverageTarget { current_replicas, target, is_cpu, tolerances: self.tolerances }
    }

    /// The target for a `value`.
    pub(super) fn value_target(&self, target: MilliValue) -> ValueTarget {
        let replicas = self.scale.spec_replicas;
        ValueTarget { replicas, target, tolerances: self.tolerances }
    }

    /// The target for an `averageValue` by replica. If the surge is ignored, the replicas are
    /// `spec.replicas`: the value measures the whole load, regardless of the number of pods.
    pub(super) fn average_by_replica_target(
        &self,
        target: MilliValue,
        rollout: Rollout,
    ) -> ValueTarget {
        let replicas = match rollout {
            Rollout::CountSurge => self.scale.status_replicas,
            Rollout::IgnoreSurge => self.scale.spec_replicas,
        };
        ValueTarget { replicas, target, tolerances: self.tolerances }
    }

    /// The proposal of an average by replica, without the effect of the surge if it is ignored.
    pub(super) fn without_surge(
        &self,
        proposal: Proposal,
        target: &ValueTarget,
        rollout: Rollout,
    ) -> Proposal {
        match rollout {
            Rollout::CountSurge => proposal,
            Rollout::IgnoreSurge => average_without_surge(proposal, target, self.pods()),
        }
    }

    pub(super) fn rules(&self) -> AverageRules<'_> {
        AverageRules { metric: self.metric, rollout: self.settings.rollout }
    }
}

/// A metric with a proposal.
pub(crate) struct EvaluatedMetric {
    pub(crate) proposal: Proposal,
    /// The name in conditions and events.
    pub(crate) name: String,
    pub(crate) target: TargetValue,
    pub(crate) status: MetricStatus,
    pub(crate) effects: Vec<SettingEffect>,
}

/// The reading, if it is of the expected kind.
pub(super) fn expect_reading<T>(
    reading: Option<Result<Reading, ReadError>>,
    expected: impl FnOnce(Reading) -> Option<T>,
) -> Result<T, ReadingError> {
    reading.transpose()?.and_then(expected).ok_or(ReadingError::NotRead)
}
