//! Errors of metrics without a proposal. Where the reference controller has an error, the text is
//! the same.

use jiff::SignedDuration;

use crate::{
    api::MetricSourceType, explain::MetricFailure, readings::ReadError, replicas::CalculationError,
    selector::SelectorError, settings::duration_text,
};

/// A metric spec that can't be queried or computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MetricSpecError {
    #[error("unknown metric source type {0:?}")]
    UnknownType(Box<str>),
    #[error(
        "invalid metric source: type is {source_type} but {} is not set",
        source_type.member().unwrap_or_default()
    )]
    MissingSource { source_type: MetricSourceType },
    #[error(transparent)]
    Selector(#[from] SelectorError),
    #[error(
        "invalid object metric source: neither a value target nor an average value target was set"
    )]
    ObjectTarget,
    #[error("invalid pods metric source: no average value target was set")]
    PodsTarget,
    #[error(
        "invalid resource metric source: neither an average utilization target nor an average \
            value (usage) target was set"
    )]
    ResourceTarget,
    #[error(
        "invalid external metric source: neither a value target nor an average value target was set"
    )]
    ExternalTarget,
}

/// A metric without a usable reading.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReadingError {
    /// The caller gave no reading, or one that doesn't answer the query.
    #[error("no value of it was given")]
    NotRead,
    /// Even the newest sample is older than `max-sample-age` allows. The text has a rounded age, so
    /// that it doesn't change with each reconcile.
    #[error(
        "the newest sample is more than {} old, max-sample-age is {}",
        coarse_duration_text(*age),
        duration_text(*limit)
    )]
    TooOld { age: SignedDuration, limit: SignedDuration },
    #[error(transparent)]
    Api(#[from] ReadError),
}

/// A duration, rounded down to hours, minutes or seconds: the largest of these units that fits.
fn coarse_duration_text(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let unit = match seconds {
        ..60 => 1,
        60..3600 => 60,
        _ => 3600,
    };
    duration_text(SignedDuration::from_secs(seconds - seconds % unit))
}

/// An error of the evaluation of a metric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum EvaluateError {
    #[error(transparent)]
    Spec(#[from] MetricSpecError),
    /// The metric has no usable reading. The text before the cause names the metric.
    #[error("unable to get {metric}: {error}")]
    Reading { metric: String, error: ReadingError },
    #[error(transparent)]
    Calculation(#[from] CalculationError),
    /// Resource metrics name the resource and the kind of target before the cause.
    #[error("failed to get {resource} {target}: {error}")]
    Resource { resource: String, target: &'static str, error: Box<Self> },
}

impl EvaluateError {
    pub(super) fn kind(&self) -> MetricFailure {
        match self {
            Self::Spec(_) => MetricFailure::InvalidSpec,
            Self::Resource { error, .. } => error.kind(),
            Self::Reading { error: ReadingError::NotRead, .. } => MetricFailure::NotRead,
            Self::Reading { error: ReadingError::TooOld { .. }, .. } => MetricFailure::TooOld,
            Self::Reading { error: ReadingError::Api(error), .. } => match error {
                ReadError::Fetch { .. } => MetricFailure::Fetch,
                ReadError::Empty(_) => MetricFailure::Empty,
                ReadError::NotRead(_) => MetricFailure::NotRead,
            },
            Self::Calculation(error) => match error {
                CalculationError::NoPods | CalculationError::NoPodsForValue => {
                    MetricFailure::NoPods
                }
                CalculationError::NoSamples => MetricFailure::NoSamples,
                CalculationError::NoContainer { .. } => MetricFailure::NoContainer,
                CalculationError::NothingRequested
                | CalculationError::MissingAmount(_)
                | CalculationError::UnreadableAmount(_) => MetricFailure::MissingRequest,
            },
        }
    }

    /// The innermost cause, without the texts that are put before it.
    pub(super) fn root(&self) -> String {
        match self {
            Self::Resource { error, .. } => error.root(),
            Self::Reading {
                error: ReadingError::Api(ReadError::Fetch { message, .. }), ..
            } => message.clone(),
            Self::Reading { error, .. } => error.to_string(),
            Self::Spec(_) | Self::Calculation(_) => self.to_string(),
        }
    }

    /// Returns a function for `map_err` that adds the name of the metric to the error.
    pub(super) fn with_metric(
        metric: impl FnOnce() -> String,
    ) -> impl FnOnce(ReadingError) -> Self {
        |error| Self::Reading { metric: metric(), error }
    }
}
