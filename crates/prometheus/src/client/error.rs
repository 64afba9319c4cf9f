//! Errors of requests.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use hpa_calc::report::error_texts;
use hpa_metrics::{MetricError, TlsSettingNames, connection_cause, describe, url_origin};

use crate::client::{Client, connection::ConnectionError};

/// The names of the settings for a server's TLS, for messages.
const TLS_SETTINGS: TlsSettingNames<'_> = TlsSettingNames {
    ca: "--prometheus-ca-file, or caFile of the server in the rules file",
    client_certificate: "--prometheus-client-tls-cert-file and --prometheus-client-tls-key-file, \
                         or clientTLSCertFile and clientTLSKeyFile of the server in the rules file",
};

/// The failure of a query or a discovery.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryFailure {
    /// A file or the proxy setting of the connection is unusable.
    #[error("unable to set up the connection")]
    Connection(#[from] Arc<ConnectionError>),
    /// The request could not be sent, or the connection failed before a response arrived.
    #[error("the request to {}{address} failed: {cause}", error_texts::PROMETHEUS)]
    Request {
        /// Host and port of the server.
        address: Arc<str>,
        cause: String,
    },
    /// The body of the response is incomplete.
    #[error("the response ended early")]
    Body(#[source] Arc<std::io::Error>),
    #[error(
        "{}{}{address} within {} s",
        error_texts::NO_RESPONSE_FROM,
        error_texts::PROMETHEUS,
        limit.as_secs_f64()
    )]
    Timeout { address: Arc<str>, limit: Duration },
    /// A response began in time, but was not complete in time.
    #[error(
        "the response of {}{address}{}{} s",
        error_texts::PROMETHEUS,
        error_texts::TOOK_LONGER_THAN,
        limit.as_secs_f64()
    )]
    SlowResponse { address: Arc<str>, limit: Duration },
    /// No request slot became free in time.
    #[error(
        "no free request slot within {} s: too many concurrent requests. Simplify slow queries, or \
         raise --prometheus-query-timeout",
        .0.as_secs_f64()
    )]
    Busy(Duration),
    /// The response was large, and the client read other large responses until the end of the time
    /// limit.
    #[error(
        "a response of more than 1 MiB could not be read within {} s: other large responses were \
         read first, one at a time. Select fewer series, or raise --prometheus-query-timeout",
        .0.as_secs_f64()
    )]
    BusyReading(Duration),
    #[error("the response is longer than {0} bytes")]
    TooLong(usize),
    #[error(
        "the list of series is longer than {0} bytes (--metrics-max-series-bytes): select fewer \
         series in seriesQuery"
    )]
    TooManySeries(u64),
    /// Neither a success nor an error that Prometheus itself sends (400, 422 or 503, with JSON or
    /// no content type).
    #[error(
        "{}{server}: {}{status}{reported}{hint}",
        error_texts::PROMETHEUS,
        error_texts::UNKNOWN_STATUS
    )]
    Status {
        /// Scheme, host and port of the server.
        server: Arc<str>,
        status: u16,
        /// `: ` and the error in the body, if Prometheus reports one. May be empty.
        reported: String,
        /// Advice for the operator. May be empty.
        hint: String,
    },
    /// The body isn't a response of Prometheus, or has a result that the client doesn't support.
    #[error("{start}: {0}", start = error_texts::NOT_OF_PROMETHEUS)]
    Decode(String),
    /// No metric can have a string as its value.
    #[error("the result of the query is a string, not a vector or a scalar")]
    StringResult,
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

/// The values of `errorType` for a query that Prometheus rejects or can't execute.
/// `VictoriaMetrics` reports the status instead.
const QUERY_ERROR_TYPES: [&str; 4] = ["bad_data", "execution", "400", "422"];

impl QueryFailure {
    /// Converts the error of a request. Keeps only the innermost cause, which is the most specific.
    pub(crate) fn from_request_error(address: Arc<str>, error: &(dyn Error + 'static)) -> Self {
        Self::Request { address, cause: connection_cause(error, TLS_SETTINGS) }
    }

    /// Whether the server could not be reached, didn't respond completely in time, or refused the
    /// credentials (401 or 403). The query itself may be correct. [`Self::Busy`] and
    /// [`Self::BusyReading`] don't count, because they are limits of this client.
    #[must_use]
    pub fn is_access_failure(&self) -> bool {
        match self {
            Self::Connection(_)
            | Self::Request { .. }
            | Self::Timeout { .. }
            | Self::SlowResponse { .. } => true,
            Self::Status { status, .. } => matches!(status, 401 | 403),
            _ => false,
        }
    }

    /// The failed query that an error is about.
    #[must_use]
    pub fn of(error: &MetricError) -> Option<&Self> {
        let MetricError::Fetch(cause) = error else { return None };
        let of_rule = cause.downcast_ref::<RuleQueryFailure>().map(|rule| &rule.failure);
        of_rule.or_else(|| cause.downcast_ref())
    }

    /// Whether the connection or the server is at fault, and the text doesn't name the server.
    #[must_use]
    pub fn lacks_server(&self) -> bool {
        match self {
            Self::Connection(_) | Self::Body(_) | Self::Decode(_) => true,
            Self::Api { .. } => !self.is_caused_by_query(),
            _ => false,
        }
    }

    /// Whether the query is at fault: Prometheus rejected it or couldn't execute it, or its result
    /// is a string or too long. After any other failure, the query may be correct.
    #[must_use]
    pub fn is_caused_by_query(&self) -> bool {
        match self {
            Self::Api { error_type, .. } => QUERY_ERROR_TYPES.contains(&&**error_type),
            Self::TooLong(_) | Self::TooManySeries(_) | Self::StringResult => true,
            _ => false,
        }
    }

    /// The failure and its causes, with the server's `url` unless the text has its address. A
    /// response of another kind of server may be due to the path of the URL.
    #[must_use]
    pub fn describe_with_server(&self, url: &str) -> String {
        let text = describe(self);
        match self {
            Self::Request { .. } | Self::Timeout { .. } | Self::SlowResponse { .. } => text,
            Self::Status { server, .. } => text.replacen(&**server, url, 1),
            _ => format!("{}{url}: {text}", error_texts::PROMETHEUS),
        }
    }

    /// Like [`Self::describe_with_server`], but without text from a response.
    #[must_use]
    pub fn reason_with_server(&self, url: &str) -> String {
        match self {
            // The hint of a redirection has its destination, which is text from the response.
            Self::Status { server, status: 400..500, hint, .. } => {
                format!("{}{server}: {}{hint}", error_texts::PROMETHEUS, self.reason())
            }
            _ if self.is_access_failure() => self.describe_with_server(url),
            _ => format!("{}{url}: {}", error_texts::PROMETHEUS, self.reason()),
        }
    }

    /// A short reason for readers who may not see details: without text from a URL, a file or a
    /// response.
    pub fn reason(&self) -> String {
        match self {
            Self::Connection(_) | Self::Body(_) | Self::TooLong(_) | Self::StringResult => {
                self.to_string()
            }
            Self::Busy(limit) => format!("no free request slot within {} s", limit.as_secs_f64()),
            Self::BusyReading(limit) => {
                format!("other large responses were read for {} s", limit.as_secs_f64())
            }
            Self::Request { .. } => "the request failed".to_owned(),
            Self::Timeout { limit, .. } => {
                format!("{}{} s", error_texts::NO_RESPONSE_WITHIN, limit.as_secs_f64())
            }
            Self::SlowResponse { limit, .. } => {
                format!("the response{}{} s", error_texts::TOOK_LONGER_THAN, limit.as_secs_f64())
            }
            Self::TooManySeries(max) => format!("the list of series is longer than {max} bytes"),
            Self::Status { status, .. } => format!("{}{status}", error_texts::UNKNOWN_STATUS),
            Self::Decode(_) => error_texts::NOT_OF_PROMETHEUS.to_owned(),
            Self::Api { error_type, .. } if ERROR_TYPES.contains(&&**error_type) => {
                format!("{}{error_type}", error_texts::REPORTED)
            }
            Self::Api { .. } => "Prometheus reported an error".to_owned(),
        }
    }
}

/// The failure of a rule's query, for conditions: its text has scheme, host and port of the server
/// if the connection or the server is at fault.
#[derive(Clone, Debug)]
pub struct RuleQueryFailure {
    server: String,
    failure: QueryFailure,
    /// Whether the client has logged the outage of the server. Callers then don't log the failure.
    is_logged: bool,
}

impl RuleQueryFailure {
    pub(crate) fn new(client: &Client, failure: QueryFailure) -> Self {
        let is_logged = client.has_logged(&failure);
        Self { server: client.settings().origin(), failure, is_logged }
    }

    /// Whether an error is about a query that failed in an outage of its server, which the client
    /// has logged.
    pub fn is_logged_outage(error: &MetricError) -> bool {
        let MetricError::Fetch(cause) = error else { return false };
        cause.downcast_ref::<Self>().is_some_and(|failure| failure.is_logged)
    }
}

impl fmt::Display for RuleQueryFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.failure.lacks_server() {
            write!(f, "{}{}: ", error_texts::PROMETHEUS, self.server)?;
        }
        fmt::Display::fmt(&self.failure, f)
    }
}

impl Error for RuleQueryFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.failure.source()
    }
}

/// Advice for the operator. Empty for a status that needs none. `server` has scheme, host and port.
pub(crate) fn status_hint(
    status: http::StatusCode,
    location: Option<&str>,
    server: &str,
) -> String {
    match status.as_u16() {
        300..=399 => {
            location.map_or_else(String::new, |location| redirection_hint(location, server))
        }
        400 if server.starts_with("http://") => {
            ": the server may require TLS; use https://".to_owned()
        }
        // Also the answer to a request without the tenant's header.
        401 => ": check the credentials and the headers (--prometheus-header)".to_owned(),
        403 => ": check the credentials".to_owned(),
        404 => ": check the path of the URL".to_owned(),
        414 => ": the query is too long for GET; use POST".to_owned(),
        _ => String::new(),
    }
}

/// Advice about a redirection, without the path and the parameters of its destination: they may
/// contain credentials.
fn redirection_hint(location: &str, server: &str) -> String {
    let destination = location.parse::<http::Uri>().ok().filter(|url| url.scheme().is_some());
    match destination.map(|url| url_origin(&url)) {
        Some(destination) if destination != server => {
            format!(
                ": the server redirects to {destination}; configure that URL, or credentials if it \
                 is a login page"
            )
        }
        _ => ": the server redirects to another path; configure it".to_owned(),
    }
}
