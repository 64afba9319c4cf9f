//! Why a request failed.

use std::{sync::Arc, time::Duration};

use crate::client::connection::ConnectionError;

/// Why a query or a discovery failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryFailure {
    /// The files of the connection can't be used.
    #[error("unable to set up the connection")]
    Connection(#[from] Arc<ConnectionError>),
    /// The request could not be sent, or the response ended early.
    #[error("unable to reach Prometheus at {server}: {cause}")]
    Request {
        /// The URL, without credentials.
        server: String,
        /// The last cause.
        cause: String,
    },
    /// The body of the response could not be read.
    #[error("the response ended early")]
    Body(#[source] Arc<std::io::Error>),
    /// The request took too long.
    #[error("no response within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// Too many requests are in flight.
    #[error("no free connection within {} s: too many requests at a time", .0.as_secs_f64())]
    Busy(Duration),
    /// The response is too long.
    #[error("the response is longer than {0} bytes")]
    TooLong(usize),
    /// The list of series is too long.
    #[error(
        "the list of series is longer than {0} bytes (--metrics-max-series-bytes): select fewer \
         series in seriesQuery"
    )]
    TooManySeries(u64),
    /// The server responded with a status that Prometheus doesn't use.
    #[error("unknown response code {status}{hint}")]
    Status {
        /// The code.
        status: u16,
        /// What the operator should check, or nothing.
        hint: String,
    },
    /// The response isn't that of Prometheus.
    #[error("the response isn't a response of Prometheus: {0}")]
    Decode(String),
    /// Prometheus reported an error.
    #[error("{error_type}: {message}")]
    Api {
        /// The kind of the error, for example `bad_data`.
        error_type: String,
        /// What is wrong.
        message: String,
    },
}

/// The kinds of errors that Prometheus has.
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
    /// A request that could not be sent.
    pub(crate) fn request(server: String, error: &kube::Error) -> Self {
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        Self::Request { server, cause: cause.to_string() }
    }

    /// The failure in short, for clients without rights: nothing of a URL, a file or what the
    /// server sent.
    pub fn reason(&self) -> String {
        match self {
            Self::Request { .. } => "the request failed".to_owned(),
            Self::Connection(_)
            | Self::Body(_)
            | Self::Timeout(_)
            | Self::Busy(_)
            | Self::TooLong(_) => self.to_string(),
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

/// What the operator should check, by status.
pub(crate) fn hint(status: http::StatusCode, location: Option<&str>) -> String {
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
