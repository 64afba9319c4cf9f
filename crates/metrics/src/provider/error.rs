//! Why a request has no answer.

use std::{error::Error, sync::Arc};

use crate::provider::value::NoValue;

use crate::{provider::objects::ListError, resource::GroupResource};

/// Why a request has no answer. The variants determine the status of the reference.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// There is no such metric. The reference answers 404, "the server could not find the metric M
    /// for pods".
    #[error("no such metric: {0}")]
    UnknownMetric(#[source] NotFound),
    /// The metric exists, but the named object has no value. The reference answers 404, "the
    /// server could not find the metric M for pods NAME".
    #[error("no value for the object: {0}")]
    NoValueForObject(#[source] NotFound),
    /// The objects of a selector can't be listed. The reference answers 500, "Internal error
    /// occurred: unable to list matching resources".
    #[error("unable to list matching resources")]
    List(#[source] ListError),
    /// The query of an external metric can't be built. The reference answers 500, "Internal error
    /// occurred: unable to generate a query for the metric".
    #[error("unable to generate a query for the metric")]
    NoQuery(#[source] Arc<dyn Error + Send + Sync>),
    /// The query failed, or its result has a type that a custom metric can't have. The reference
    /// answers 500, "Internal error occurred: unable to fetch metrics".
    #[error("unable to fetch metrics")]
    Fetch(#[source] Arc<dyn Error + Send + Sync>),
    /// The result can't be converted. The reference answers 500 with the text of the source and
    /// without a reason.
    #[error("unable to convert the result")]
    Convert(#[source] Arc<dyn Error + Send + Sync>),
}

/// Why there is no such metric, or no value of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotFound {
    /// The provider has not read its metrics yet.
    #[error("the metrics have not been discovered yet")]
    NotDiscovered,
    /// No rule has the custom metric.
    #[error("metric {metric} is not registered for {resource}")]
    Custom {
        /// The resource.
        resource: GroupResource,
        /// The name of the metric.
        metric: String,
    },
    /// No rule has the external metric.
    #[error("external metric {0} is not registered")]
    External(String),
    /// The query has no result.
    #[error("the query {query} has no result")]
    NoResult {
        /// The query.
        query: String,
    },
    /// The query has results, but none is for the object.
    #[error(
        "the query {query} has {results} results, but none has the label {label} with the \
         object's name"
    )]
    OtherObjects {
        /// The query.
        query: String,
        /// The number of results.
        results: usize,
        /// The label with the object's name.
        label: String,
    },
    /// The label of the objects' names can't be found any more.
    #[error("the results of the query {query} can't be assigned to objects: {message}")]
    NoLabel {
        /// The query.
        query: String,
        /// What is missing.
        message: String,
    },
    /// The sample of the object is no value.
    #[error("the query {query} has no value for the object: {reason}")]
    NoValue {
        /// The query.
        query: String,
        /// Why the sample is no value.
        reason: NoValue,
    },
    /// The provider has no such metrics at all.
    #[error("no rules are configured for this API")]
    NotConfigured,
    /// Another reason.
    #[error("{0}")]
    Other(String),
}

impl ProviderError {
    /// Wraps the error of a failed query.
    pub fn fetch(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Fetch(Arc::new(error))
    }

    /// Wraps the reason why there is no query.
    pub fn no_query(error: impl Error + Send + Sync + 'static) -> Self {
        Self::NoQuery(Arc::new(error))
    }

    /// Wraps the reason why the result can't be converted.
    pub fn convert(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Convert(Arc::new(error))
    }

    /// Whether the metric, or a value of it, doesn't exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::UnknownMetric(_) | Self::NoValueForObject(_))
    }

    /// The error with all its causes.
    pub fn describe(&self) -> String {
        describe(self)
    }
}

/// An error with its causes, without those that the text before contains.
pub fn describe(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = error.source();
    }
    text
}
