//! Errors of requests.

use std::{sync::Arc, time::Duration};

use hpa_calc::report::error_texts;
use hpa_metrics::connection_cause;

use crate::client::connection::ConnectionError;

/// The setting with the CA of a server.
const CA_SETTING: &str = "--prometheus-ca-file, or caFile of the server in the rules file";

/// The failure of a query or a discovery.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryFailure {
    /// A file or the proxy setting of the connection is unusable.
    #[error("unable to set up the connection")]
    Connection(#[from] Arc<ConnectionError>),
    /// The request could not be sent, or the connection failed before a response arrived.
    #[error("the request to {}{server} failed: {cause}", error_texts::PROMETHEUS)]
    Request { server: Arc<str>, cause: String },
    /// The body of the response is incomplete.
    #[error("the response ended early")]
    Body(#[source] Arc<std::io::Error>),
    #[error(
        "no response from {}{server} within {} s",
        error_texts::PROMETHEUS,
        limit.as_secs_f64()
    )]
    Timeout { server: Arc<str>, limit: Duration },
    #[error("no free request slot within {} s: too many concurrent requests", .0.as_secs_f64())]
    Busy(Duration),
    #[error("the response is longer than {0} bytes")]
    TooLong(usize),
    #[error(
        "the list of series is longer than {0} bytes (--metrics-max-series-bytes): select fewer \
         series in seriesQuery"
    )]
    TooManySeries(u64),
    /// The status is neither a success nor one that the client reads Prometheus's error from (400,
    /// 422 or 503, with JSON or without a content type).
    #[error("unknown response code {status}{hint}")]
    Status {
        status: u16,
        /// Advice for the operator. May be empty.
        hint: String,
    },
    /// The body isn't a response of Prometheus, or has a result that the client doesn't support.
    #[error("the response isn't a response of Prometheus: {0}")]
    Decode(String),
    /// Prometheus reported an error.
    #[error("{error_type}: {message}")]
    Api {
        /// The kind of the error, for example `bad_data`.
        error_type: String,
        message: String,
    },
}

/// The values of `errorType` in responses of Prometheus.
const ERROR_TYPES: [&str; 8] = [
    "bad_data",
    "canceled",
    "execution",
    "internal",
    "not_acceptable",
    "not_found",
    "timeout",
    "unavailable",
];

impl QueryFailure {
    /// Converts the error of a request. Keeps only the innermost cause, which is the most specific.
    pub(crate) fn from_request_error(
        server: Arc<str>,
        error: &(dyn std::error::Error + 'static),
    ) -> Self {
        Self::Request { server, cause: connection_cause(error, CA_SETTING) }
    }

    /// Whether no response arrived, or the server refused the client (401 or 403). The query itself
    /// may be correct.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        match self {
            Self::Connection(_) | Self::Request { .. } | Self::Timeout { .. } => true,
            Self::Status { status, .. } => matches!(status, 401 | 403),
            _ => false,
        }
    }

    /// A short reason for unauthorized clients, without text from a URL, a file or a response.
    pub fn reason(&self) -> String {
        match self {
            Self::Connection(_) | Self::Body(_) | Self::Busy(_) | Self::TooLong(_) => {
                self.to_string()
            }
            Self::Request { .. } => "the request failed".to_owned(),
            Self::Timeout { limit, .. } => format!("no response within {} s", limit.as_secs_f64()),
            Self::TooManySeries(max) => format!("the list of series is longer than {max} bytes"),
            Self::Status { status, .. } => format!("unknown response code {status}"),
            Self::Decode(_) => "the response isn't a response of Prometheus".to_owned(),
            Self::Api { error_type, .. } if ERROR_TYPES.contains(&&**error_type) => {
                format!("Prometheus reported {error_type}")
            }
            Self::Api { .. } => "Prometheus reported an error".to_owned(),
        }
    }
}

/// Advice for the operator. Empty for a status that needs none.
pub(crate) fn status_hint(status: http::StatusCode, location: Option<&str>) -> String {
    match status.as_u16() {
        300..=399 => location.map_or_else(String::new, |location| {
            format!(": the server redirects to {location}; configure that URL")
        }),
        401 | 403 => ": check the credentials".to_owned(),
        404 => ": check the path of the URL".to_owned(),
        414 => ": the query is too long for GET; use POST".to_owned(),
        _ => String::new(),
    }
}
