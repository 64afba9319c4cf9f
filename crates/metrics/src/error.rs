//! Errors of requests to a metrics API.

use std::{error::Error, sync::Arc, time::Duration};

use hpa_calc::readings::{MetricsApi, ReadError};

use crate::wire::WireError;

/// Why a request to a metrics API failed. Cheap to clone, because every caller that waited for the
/// request gets a copy.
///
/// `request` names the request as the reference's client does, for example
/// `get pods.metrics.k8s.io`. The texts appear in conditions of autoscalers.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
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
    #[error("context deadline exceeded: no response within {deadline:?} ({request})")]
    Timeout {
        /// The time limit.
        deadline: Duration,
        /// The request.
        request: Box<str>,
    },
    /// The API has not responded to any request for a while, and another request of the namespace
    /// is being tried. Nothing was sent.
    #[error("the API does not respond, and another request of the namespace is being tried")]
    Unresponsive,
    /// The response is larger than the limit.
    #[error("the response is larger than {limit} bytes ({request})")]
    TooLarge {
        /// The limit in bytes, after decompression.
        limit: usize,
        /// The request.
        request: Box<str>,
    },
    /// The responses that are being read are larger than the limit together.
    #[error("responses larger than {limit} bytes together are being read ({request})")]
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
    #[error("no custom metrics API (custom.metrics.k8s.io) registered")]
    NoCustomApi,
    /// The server has the API, but no version that this crate supports.
    #[error("no known available metric versions found")]
    NoKnownVersion,
    /// The resource of an object's kind could not be determined.
    #[error("unable to map kind {kind} to resource")]
    UnknownKind {
        /// `Kind` or `Kind.group`.
        kind: Box<str>,
        /// The cause.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// A name can't be part of a path.
    #[error("invalid {part} {name:?}: [{reasons}]")]
    InvalidName {
        /// The part of the path.
        part: &'static str,
        /// The name.
        name: Box<str>,
        /// The cause.
        reasons: Box<str>,
    },
    /// A [`MetricsSource`](crate::MetricsSource) returned the wrong variant of
    /// [`Items`](crate::Items).
    #[error("the metrics source returned items of another kind than requested")]
    UnexpectedItems,
}

impl FetchError {
    /// Converts to the error of a reading: this error and its causes in one line, without
    /// credentials of URLs.
    pub fn into_read_error(self, api: MetricsApi) -> ReadError {
        ReadError::Fetch { api, message: describe(&self) }
    }

    /// Whether the request failed because of the content of the response. A request for fewer items
    /// may then succeed.
    pub fn is_caused_by_content(&self) -> bool {
        matches!(self, Self::TooLarge { .. } | Self::OverBudget { .. } | Self::Decode { .. })
    }
}

/// The error of [`ResourceNames::resource_for`](crate::ResourceNames::resource_for), if the lookup
/// takes too long.
#[derive(Debug, thiserror::Error)]
#[error("context deadline exceeded: no response within {deadline:?}")]
pub(crate) struct LookupTimeout {
    pub(crate) deadline: Duration,
}

/// Limit in bytes. A metrics server may return a whole HTML page, which is too long for a condition
/// or an event.
const MAX_DESCRIPTION: usize = 4096;

/// Formats an error and its causes in one line of at most 4096 bytes, without credentials of URLs,
/// for logs and conditions.
pub fn describe(error: &dyn Error) -> String {
    let mut text = without_credentials(&chain(error));
    text.truncate(text.floor_char_boundary(MAX_DESCRIPTION));
    text
}

/// Joins an error and its causes. A cause is left out if the text before it already
/// contains it, as in errors of the kube crate.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
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
mod tests {
    use super::*;

    #[test]
    fn description_has_no_credentials() {
        let error = FetchError::Transport {
            request: "get pods.metrics.k8s.io".into(),
            source: Arc::new(std::io::Error::other(
                "proxy http://me:se@cret@proxy:3128/x and https://you@b refused",
            )),
        };
        let message = "unable to fetch metrics from resource metrics API: \
                       request failed (get pods.metrics.k8s.io): \
                       proxy http://proxy:3128/x and https://b refused";
        assert_eq!(error.into_read_error(MetricsApi::Resource).to_string(), message);
    }

    #[test]
    fn cause_that_the_error_repeats_is_printed_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer: inner")]
        struct Outer(#[source] std::io::Error);
        assert_eq!(chain(&Outer(std::io::Error::other("inner"))), "outer: inner");
    }

    #[test]
    fn long_description_is_cut_between_characters() {
        let error = std::io::Error::other("é".repeat(4096));
        let text = describe(&error);
        assert_eq!((text.len(), text.chars().count()), (4096, 2048));
        let odd = std::io::Error::other(format!("x{}", "é".repeat(4096)));
        assert_eq!(describe(&odd).len(), 4095);
    }
}
