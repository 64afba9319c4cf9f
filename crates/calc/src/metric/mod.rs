//! One metric of a spec: its query, its proposal, and its texts, which equal the reference's.

mod average;
mod context;
mod effects;
mod error;
mod source;
mod status;
mod value;

use crate::{
    api::{ConditionReason, MetricSourceType, MetricSpec},
    explain::MetricFailure,
    readings::{MetricQuery, ReadError, Reading},
};

use average::{Resource, pods};
pub(crate) use context::{Context, EvaluatedMetric};
pub(crate) use effects::MISSING_REQUESTS;
use error::EvaluateError;
pub(crate) use error::MetricSpecError;
pub(crate) use source::query;
use source::{Source, is_object_average, source};
pub(crate) use status::status_without_value;
use value::{external, object};

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
