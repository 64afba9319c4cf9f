//! One metric of a spec: its query, its proposal, and its texts, which equal the reference's.

mod average;
mod effects;
mod error;
mod status;
mod value;

use std::sync::Arc;

use jiff::Timestamp;

use crate::{
    api::{
        ConditionReason, ContainerResourceMetricSource, ExternalMetricSource, MetricIdentifier,
        MetricSourceType, MetricSpec, MetricStatus, ObjectMetricSource, Pod, PodsMetricSource,
        ResourceMetricSource, Scale,
    },
    explain::{MetricFailure, SettingEffect, TargetValue},
    quantity::MilliValue,
    readings::{MetricQuery, ReadError, Reading, Sample},
    replicas::{AverageRules, AverageTarget, Proposal, ValueTarget, average_without_surge},
    selector::Selector,
    settings::{MetricSettings, Readiness, Rollout, Settings, Tolerances},
};

use average::{Resource, pods};
pub(crate) use effects::MISSING_REQUESTS;
pub(crate) use error::MetricSpecError;
use error::{EvaluateError, ReadingError};
pub(crate) use status::status_without_value;
use value::{external, is_object_average, object};

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

/// A metric with a proposal.
pub(crate) struct EvaluatedMetric {
    pub(crate) proposal: Proposal,
    /// The name in conditions and events.
    pub(crate) name: String,
    pub(crate) target: TargetValue,
    pub(crate) status: MetricStatus,
    pub(crate) effects: Vec<SettingEffect>,
}

/// A metric without a proposal, with the two texts that the reference has for the error.
pub(crate) struct FailedMetric {
    pub(crate) reason: ConditionReason,
    pub(crate) kind: MetricFailure,
    /// The innermost cause, for the explanation.
    pub(crate) root: String,
    /// For the metric's own event and for the condition.
    pub(crate) cause: String,
    /// For the error of the whole decision.
    pub(crate) wrapped: String,
}

/// The query of a metric.
pub(crate) fn query(spec: &MetricSpec) -> Result<MetricQuery, MetricSpecError> {
    let identify = |metric: &MetricIdentifier| -> Result<(String, Selector), MetricSpecError> {
        // `None` becomes the selector of nothing. Its string is empty, so the metrics API selects
        // every series for it.
        let selector = Selector::from_label_selector(metric.selector.as_ref())?;
        Ok((metric.name.clone(), selector))
    };
    match source(spec)? {
        Source::Resource(source) => {
            Ok(MetricQuery::Resource { resource: source.name.as_str().into(), container: None })
        }
        Source::ContainerResource(source) => Ok(MetricQuery::Resource {
            resource: source.name.as_str().into(),
            container: Some(source.container.clone()),
        }),
        Source::Pods(source) => {
            let (metric, metric_selector) = identify(&source.metric)?;
            Ok(MetricQuery::Pods { metric, metric_selector })
        }
        Source::Object(source) => {
            let (metric, metric_selector) = identify(&source.metric)?;
            let object = source.described_object.clone();
            Ok(MetricQuery::Object { object, metric, metric_selector })
        }
        Source::External(source) => {
            let (metric, metric_selector) = identify(&source.metric)?;
            Ok(MetricQuery::External { metric, metric_selector })
        }
    }
}

/// The member of a metric spec that its type names.
enum Source<'a> {
    Object(&'a ObjectMetricSource),
    Pods(&'a PodsMetricSource),
    Resource(&'a ResourceMetricSource),
    ContainerResource(&'a ContainerResourceMetricSource),
    External(&'a ExternalMetricSource),
}

fn source(spec: &MetricSpec) -> Result<Source<'_>, MetricSpecError> {
    let (source, member) = match &spec.source_type {
        MetricSourceType::Object => (spec.object.as_deref().map(Source::Object), "object"),
        MetricSourceType::Pods => (spec.pods.as_deref().map(Source::Pods), "pods"),
        MetricSourceType::Resource => (spec.resource.as_deref().map(Source::Resource), "resource"),
        MetricSourceType::ContainerResource => {
            (spec.container_resource.as_deref().map(Source::ContainerResource), "containerResource")
        }
        MetricSourceType::External => (spec.external.as_deref().map(Source::External), "external"),
        MetricSourceType::Other(name) => return Err(MetricSpecError::UnknownType(name.clone())),
    };
    source.ok_or_else(|| MetricSpecError::MissingSource {
        source_type: spec.source_type.clone(),
        member,
    })
}

/// Computes the proposal of a metric from its reading.
pub(crate) fn evaluate(
    spec: &MetricSpec,
    query: &Result<MetricQuery, MetricSpecError>,
    reading: Option<Result<Reading, ReadError>>,
    context: &Context<'_>,
) -> Result<EvaluatedMetric, FailedMetric> {
    let reason = || failure_reason(&spec.source_type);
    let source = source(spec).map_err(|error| {
        let cause = error.to_string();
        let kind = MetricFailure::InvalidSpec;
        FailedMetric { reason: reason(), kind, root: cause.clone(), wrapped: cause.clone(), cause }
    })?;
    let (error, prefix) = match query {
        Ok(_) => match source.evaluate(reading, context) {
            Ok(evaluated) => return Ok(evaluated),
            Err(error @ EvaluateError::Spec(_)) => (error, String::new()),
            Err(error) => (error, source.read_prefix(false)),
        },
        Err(error) => (EvaluateError::Spec(error.clone()), source.read_prefix(true)),
    };
    let (kind, root, cause) = (error.kind(), error.root(), error.to_string());
    let wrapped = format!("{}{prefix}{cause}", source.prefix());
    Err(FailedMetric { reason: reason(), kind, root, cause, wrapped })
}

fn failure_reason(source_type: &MetricSourceType) -> ConditionReason {
    match source_type {
        MetricSourceType::Object => ConditionReason::FailedGetObjectMetric,
        MetricSourceType::Pods => ConditionReason::FailedGetPodsMetric,
        MetricSourceType::Resource => ConditionReason::FailedGetResourceMetric,
        MetricSourceType::ContainerResource => ConditionReason::FailedGetContainerResourceMetric,
        MetricSourceType::External => ConditionReason::FailedGetExternalMetric,
        MetricSourceType::Other(_) => ConditionReason::InvalidMetricSourceType,
    }
}

impl Source<'_> {
    /// The beginning of the decision's error.
    fn prefix(&self) -> String {
        match self {
            Self::Object(_) => "failed to get object metric value: ".to_owned(),
            Self::Pods(_) => "failed to get pods metric value: ".to_owned(),
            Self::Resource(source) => {
                format!("failed to get {} resource metric value: ", source.name)
            }
            Self::ContainerResource(source) => {
                format!("failed to get {} container metric value: ", source.container)
            }
            Self::External(source) => {
                format!("failed to get {} external metric value: ", source.metric.name)
            }
        }
    }

    /// The text after [`Source::prefix`] if the metric could not be read or computed. The reference
    /// parses the selector of an External metric later than those of other metrics, so only
    /// errors of its selector have the prefix.
    fn read_prefix(&self, is_selector_error: bool) -> String {
        match self {
            Self::Object(source) if is_object_average(&source.target) && !is_selector_error => {
                format!("failed to get {} object metric: ", source.metric.name)
            }
            Self::External(source) if source.target.average_value.is_some() => {
                format!("failed to get {} external metric: ", source.metric.name)
            }
            Self::External(source) if source.target.value.is_some() => {
                format!("failed to get external metric {}: ", source.metric.name)
            }
            _ => String::new(),
        }
    }

    fn evaluate(
        &self,
        reading: Option<Result<Reading, ReadError>>,
        context: &Context<'_>,
    ) -> Result<EvaluatedMetric, EvaluateError> {
        match self {
            Self::Object(source) => object(source, reading, context),
            Self::Pods(source) => pods(source, reading, context),
            Self::Resource(source) => {
                let resource =
                    Resource { name: &source.name, container: None, target: &source.target };
                resource.evaluate(reading, context)
            }
            Self::ContainerResource(source) => {
                let container = Some(source.container.as_str());
                let resource = Resource { name: &source.name, container, target: &source.target };
                resource.evaluate(reading, context)
            }
            Self::External(source) => external(source, reading, context),
        }
    }
}

/// The reading, if it is of the expected kind.
fn expect_reading<T>(
    reading: Option<Result<Reading, ReadError>>,
    expected: impl FnOnce(Reading) -> Option<T>,
) -> Result<T, ReadingError> {
    reading.transpose()?.and_then(expected).ok_or(ReadingError::NotRead)
}

impl Context<'_> {
    /// Fails if a value is older than the settings of the metric allow.
    fn check_age<T>(&self, sample: Sample<T>) -> Result<T, ReadingError> {
        match sample.timestamp {
            Some(timestamp) if self.metric.is_too_old(timestamp, self.readiness.now) => {
                Err(self.too_old(timestamp))
            }
            _ => Ok(sample.value),
        }
    }

    fn too_old(&self, newest: Timestamp) -> ReadingError {
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

    fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().map(AsRef::as_ref)
    }

    fn average_target(&self, target: MilliValue, is_cpu: bool) -> AverageTarget {
        let current_replicas = self.scale.spec_replicas;
        AverageTarget { current_replicas, target, is_cpu, tolerances: self.tolerances }
    }

    /// The target for a `value`.
    fn value_target(&self, target: MilliValue) -> ValueTarget {
        let replicas = self.scale.spec_replicas;
        ValueTarget { replicas, target, tolerances: self.tolerances }
    }

    /// The target for an `averageValue` by replica. If the surge is ignored, the replicas are
    /// `spec.replicas`: the value measures the whole load, regardless of the number of pods.
    fn average_by_replica_target(&self, target: MilliValue, rollout: Rollout) -> ValueTarget {
        let replicas = match rollout {
            Rollout::CountSurge => self.scale.status_replicas,
            Rollout::IgnoreSurge => self.scale.spec_replicas,
        };
        ValueTarget { replicas, target, tolerances: self.tolerances }
    }

    /// The proposal of an average by replica, without the effect of the surge if it is ignored.
    fn without_surge(
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

    fn rules(&self) -> AverageRules<'_> {
        AverageRules { metric: self.metric, rollout: self.settings.rollout }
    }
}
