//! One metric of a spec: its query, its proposal, and its texts, which are those of the reference.

mod average;
mod context;
mod effects;
mod error;
mod source;
mod status;
mod value;

use crate::{
    api::MetricSpec,
    explain::MetricFailure,
    readings::{MetricQuery, ReadError, Reading},
};

use average::{ResourceMetric, evaluate_pods};
pub(crate) use context::{EvaluatedMetric, MetricContext};
pub(crate) use effects::MISSING_REQUESTS;
use error::EvaluateError;
pub(crate) use error::MetricSpecError;
pub(crate) use source::query;
use source::{Source, is_object_average, source};
pub(crate) use status::metric_status;
use value::{evaluate_external, evaluate_object};

/// A metric without a proposal. The reference has two texts for the error: `cause` and `wrapped`.
pub(crate) struct FailedMetric {
    pub(crate) kind: MetricFailure,
    /// The innermost cause, for the explanation.
    pub(crate) root: String,
    /// The text of the metric's event and of the condition.
    pub(crate) cause: String,
    /// The cause after the texts that the error of the whole decision puts before it.
    pub(crate) wrapped: String,
}

/// Computes the proposal of a metric from its reading.
pub(crate) fn evaluate(
    spec: &MetricSpec,
    query: &Result<MetricQuery, MetricSpecError>,
    reading: Option<Result<Reading, ReadError>>,
    context: &MetricContext<'_>,
) -> Result<EvaluatedMetric, FailedMetric> {
    let source = source(spec).map_err(|error| {
        let cause = error.to_string();
        let kind = MetricFailure::InvalidSpec;
        FailedMetric { kind, root: cause.clone(), wrapped: cause.clone(), cause }
    })?;
    let (error, prefix) = match query {
        Ok(_) => match source.evaluate(reading, context) {
            Ok(evaluated) => return Ok(evaluated),
            Err(error @ EvaluateError::Spec(_)) => (error, String::new()),
            Err(error) => (error, source.read_prefix()),
        },
        // The reference parses only the selector of an External metric while it reads the metric.
        Err(error) => {
            let is_external = matches!(source, Source::External(_));
            let prefix = if is_external { source.read_prefix() } else { String::new() };
            (EvaluateError::Spec(error.clone()), prefix)
        }
    };
    let (kind, root, cause) = (error.kind(), error.root(), error.to_string());
    let wrapped = format!("{}{prefix}{cause}", source.error_prefix());
    Err(FailedMetric { kind, root, cause, wrapped })
}

impl Source<'_> {
    /// The start of the decision's error.
    fn error_prefix(&self) -> String {
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

    /// The text after [`Source::error_prefix`] if the metric could not be read or computed.
    fn read_prefix(&self) -> String {
        match self {
            Self::Object(source) if is_object_average(&source.target) => {
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
        context: &MetricContext<'_>,
    ) -> Result<EvaluatedMetric, EvaluateError> {
        match self {
            Self::Object(source) => evaluate_object(source, reading, context),
            Self::Pods(source) => evaluate_pods(source, reading, context),
            Self::Resource(source) => {
                let (name, target) = (&source.name, &source.target);
                ResourceMetric { name, container: None, target }.evaluate(reading, context)
            }
            Self::ContainerResource(source) => {
                let (name, target) = (&source.name, &source.target);
                let container = Some(source.container.as_str());
                ResourceMetric { name, container, target }.evaluate(reading, context)
            }
            Self::External(source) => evaluate_external(source, reading, context),
        }
    }
}
