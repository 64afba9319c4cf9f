//! Errors of queries.

mod connection;

use std::{error::Error, io, sync::Arc, time::Duration};

use hpa_calc::{
    explain::counted,
    go_text::Quoted,
    readings::{MetricsApi, ReadError},
    report::error_texts,
};
use kube::runtime::watcher;

pub use self::connection::{
    TlsSettingNames, connection_cause, innermost, is_client_certificate_refused,
    is_connection_failure, url_origin,
};
use crate::{ListError, ObjectKey, resource::GroupResource, values::NoValue, wire::WireError};

/// The error of a query. Every caller that waited for the request gets a copy.
///
/// The texts appear in conditions of autoscalers. For custom and external metrics, an aggregated
/// API server answers with the status that prometheus-adapter has for the variant, if it has one.
///
/// The field `request` names a request to a metrics API as the reference's client does, for example
/// `get pods.metrics.k8s.io`.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricError {
    /// The server responded with an HTTP error.
    #[error("{message}")]
    Status {
        /// The HTTP status code.
        code: u16,
        /// The message of the server's Status object, or the reference client's text for the code
        /// if there is none.
        message: Box<str>,
    },
    /// The response was not complete in time.
    #[error(
        "{}: {}{limit:?} ({request})",
        error_texts::DEADLINE_EXCEEDED,
        error_texts::NO_RESPONSE_WITHIN
    )]
    Timeout {
        /// The time limit.
        limit: Duration,
        /// The request.
        request: Box<str>,
    },
    /// The API has not responded to any request for a while, and another request of the namespace
    /// is being tried. Nothing was sent.
    #[error(
        "{} does not respond: its last requests timed out, and another request of the namespace is \
         being tried",
        .0.group()
    )]
    Unresponsive(MetricsApi),
    /// The response is larger than the limit.
    #[error("the response is larger than {limit} bytes ({request})")]
    TooLarge {
        /// The limit in bytes, after decompression.
        limit: usize,
        /// The request.
        request: Box<str>,
    },
    /// Together, the responses that are being read are larger than the limit.
    #[error("the responses that are being read exceed {limit} bytes in total ({request})")]
    OverBudget {
        /// The limit in bytes, after decompression.
        limit: usize,
        /// The request.
        request: Box<str>,
    },
    /// The response could not be decoded.
    #[error("unexpected response ({request})")]
    Decode {
        /// The request.
        request: Box<str>,
        /// The cause.
        source: Arc<WireError>,
    },
    /// The request could not be sent, or the connection failed.
    #[error("request failed ({request})")]
    Transport {
        /// The request.
        request: Box<str>,
        /// The cause.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The server does not have the custom metrics API.
    #[error("{}", error_texts::NO_CUSTOM_API)]
    NoCustomApi,
    /// The server has the API, but no version that this crate supports.
    #[error("{}", error_texts::NO_KNOWN_VERSION)]
    NoKnownVersion,
    /// The resource of an object's kind could not be determined.
    #[error("{}{kind} to resource", error_texts::UNMAPPED_KIND)]
    UnknownKind {
        /// `Kind` or `Kind.group`.
        kind: Box<str>,
        /// The cause.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// A name can't be part of a path.
    #[error("invalid {part} {}: [{reasons}]", Quoted(name))]
    InvalidName {
        /// The part of the path.
        part: &'static str,
        /// The name.
        name: Box<str>,
        /// The reasons, separated by spaces.
        reasons: Box<str>,
    },
    /// A [`MetricSource`](crate::MetricSource) returned the wrong variant of
    /// [`Values`](crate::Values).
    #[error("the metric source returned values of the wrong kind")]
    UnexpectedValues,
    /// There is no such metric, as far as the source knows. prometheus-adapter answers 404, "the
    /// server could not find the metric M for pods".
    #[error("no such metric: {0}")]
    UnknownMetric(#[source] NotFound),
    /// The metric exists, but the named object has no value. prometheus-adapter answers 404, "the
    /// server could not find the metric M for pods NAME".
    #[error("no value for the object: {0}")]
    NoValueForObject(#[source] NotFound),
    /// The metric exists, but has no value. Only for external metrics, metrics of pods and their
    /// usage, from sources in this process: a metrics API returns an empty list instead.
    #[error("{}", error_texts::NO_VALUE)]
    NoValue(#[source] NotFound),
    /// The sources in this process don't have the metric, and the metrics API failed.
    #[error("{}", absence_text(absence, api_error))]
    Absent {
        /// The reason why these sources don't have it.
        absence: Box<str>,
        /// The error of the metrics API.
        #[source]
        api_error: Box<MetricError>,
    },
    /// The pod or node doesn't exist, or the pod isn't running.
    #[error("{0} not found")]
    NoSuchObject(ObjectKey),
    /// Objects of the cluster can't be listed or looked up. prometheus-adapter answers 500,
    /// "Internal error occurred: unable to list matching resources".
    #[error("unable to list matching resources")]
    List(#[source] ListError),
    /// The query of a metric can't be built. prometheus-adapter answers 500, "Internal error
    /// occurred: unable to fetch metrics".
    #[error("unable to generate a query for the metric")]
    NoQuery(#[source] Arc<dyn Error + Send + Sync>),
    /// The query failed, or its result has a type that the metric can't have.
    /// prometheus-adapter answers 500, "Internal error occurred: unable to fetch metrics".
    #[error("unable to fetch metrics")]
    Fetch(#[source] Arc<dyn Error + Send + Sync>),
    /// The result can't be converted. prometheus-adapter answers 500 with the text of the source
    /// and without a reason.
    #[error("unable to convert the result")]
    Convert(#[source] Arc<dyn Error + Send + Sync>),
}

/// The reason why a metric or its value doesn't exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotFound {
    /// The source has not read its metrics yet.
    #[error("the metrics have not been discovered yet")]
    NotDiscovered,
    /// The series of a rule that may have the metric were never read, and no other rule has it.
    #[error("the series of the rules that may have {metric} have not been read yet: {problems}")]
    Unread {
        /// The name of the metric.
        metric: String,
        /// The reasons, with the servers.
        problems: String,
    },
    /// The source doesn't have the custom metric.
    #[error("metric {metric} is not registered for {resource}")]
    Custom {
        /// The resource.
        resource: GroupResource,
        /// The name of the metric.
        metric: String,
    },
    /// The source doesn't have the external metric.
    #[error("external metric {0} is not registered")]
    External(String),
    /// The query has no result.
    #[error("the query {query} has no result")]
    NoResult {
        /// The query.
        query: String,
    },
    /// The query has no result for any of the selected pods.
    #[error("the query {query} has no result for these pods")]
    NoResultForPods {
        /// The start of the query, which may have the names of all pods.
        query: String,
    },
    /// The query has results, but none is for the object.
    #[error(
        "the query {query} has {}, but none has the label {label} with the object's name",
        counted(*.results, "result")
    )]
    OtherObjects {
        /// The query.
        query: String,
        /// The number of results.
        results: usize,
        /// The label with the object's name.
        label: String,
    },
    /// The query has a sample for the object, but it is not a value.
    #[error("the query {query} has no usable value: {reason}")]
    UnusableSample {
        /// The query.
        query: String,
        /// The reason why the sample is not a value.
        reason: NoValue,
    },
    /// No source has metrics of the API, or the source has no rules or server for them.
    #[error("no rules are configured for this API")]
    NotConfigured,
    /// Another reason.
    #[error("{0}")]
    Other(String),
}

impl MetricError {
    /// Wraps the error of a failed query.
    pub fn from_fetch_error(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Fetch(Arc::new(error))
    }

    /// Wraps the error of building a query.
    pub fn from_query_build_error(error: impl Error + Send + Sync + 'static) -> Self {
        Self::NoQuery(Arc::new(error))
    }

    /// Wraps the error of converting a result.
    pub fn from_conversion_error(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Convert(Arc::new(error))
    }

    /// Whether the metric, its value or the object doesn't exist, as far as the source knows.
    pub fn is_not_found(&self) -> bool {
        matches!(
            self,
            Self::UnknownMetric(_)
                | Self::NoValueForObject(_)
                | Self::NoValue(_)
                | Self::NoSuchObject(_)
        )
    }

    /// Converts to the error of a reading, with the text of [`describe`].
    pub fn into_read_error(self, api: MetricsApi) -> ReadError {
        ReadError::Fetch { api, message: describe(&self) }
    }

    /// Whether the request failed because of the size or the content of the response. A request for
    /// fewer items may then succeed.
    pub fn is_caused_by_content(&self) -> bool {
        match self {
            Self::TooLarge { .. } | Self::OverBudget { .. } | Self::Decode { .. } => true,
            Self::Absent { api_error, .. } => api_error.is_caused_by_content(),
            _ => false,
        }
    }
}

/// The text of [`MetricError::Absent`]. If the metrics API doesn't have the metric either, the
/// absence comes first. Otherwise the cause is the failure of the API, which may have the metric.
fn absence_text(absence: &str, api_error: &MetricError) -> String {
    let api_error = with_causes(api_error);
    if error_texts::is_metric_missing(&api_error) {
        format!("{absence}{}", error_texts::ALSO_NOT_BY_API)
    } else {
        format!("{api_error}; {absence}")
    }
}

/// The maximum length of a description. A metrics server may return a whole HTML page, which is too
/// long for a condition or an event.
const MAX_DESCRIPTION_BYTES: usize = 4096;

/// Formats an error and its causes in at most 4096 bytes, without credentials of URLs, for logs and
/// conditions.
pub fn describe(error: &(dyn Error + 'static)) -> String {
    let mut text = without_credentials(&with_causes(error));
    text.truncate(text.floor_char_boundary(MAX_DESCRIPTION_BYTES));
    text
}

/// Joins an error and its causes with `: `. A cause is left out if the text so far contains it, as
/// in errors of the kube crate.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = message(error);
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = message(error);
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

/// The message of an error without its cause. Leaves out what kube adds: the debug form of the
/// `Status` in an error of the API server, and a prefix in an error of a connection.
fn message(error: &(dyn Error + 'static)) -> String {
    if let Some(shared) = error.downcast_ref::<Arc<dyn Error + Send + Sync>>() {
        return message(&**shared);
    }
    if let Some(shared) = error.downcast_ref::<Arc<io::Error>>() {
        return message(&**shared);
    }
    // An I/O error prints the error that it wraps, but doesn't return it as its cause.
    if let Some(wrapped) = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        return message(wrapped);
    }
    if let Some(error) = error.downcast_ref::<watcher::Error>() {
        // The text of a watcher error includes that of its cause.
        return match error {
            watcher::Error::InitialListFailed(_) => "unable to list the objects".to_owned(),
            watcher::Error::WatchStartFailed(_) => "unable to start the watch".to_owned(),
            watcher::Error::WatchFailed(_) => "the watch has failed".to_owned(),
            error => error.to_string(),
        };
    }
    match error.downcast_ref::<kube::Error>() {
        // kube returns this error for an event of a watch that it can't decode.
        Some(kube::Error::Api(status)) if status.code == 0 && status.message.is_empty() => {
            "the API server sent an event that can't be decoded".to_owned()
        }
        Some(kube::Error::Api(status)) => status.to_string(),
        Some(kube::Error::Service(error)) => error.to_string(),
        _ => error.to_string(),
    }
}

/// Removes the user information from URLs: `https://user:password@host` becomes `https://host`.
fn without_credentials(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        clean.push_str(before);
        clean.push_str("://");
        let end =
            after.find(|c: char| c.is_whitespace() || "/?#\"'".contains(c)).unwrap_or(after.len());
        let (authority, tail) = after.split_at_checked(end).unwrap_or((after, ""));
        clean.push_str(authority.rsplit_once('@').map_or(authority, |(_, host)| host));
        rest = tail;
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests;
