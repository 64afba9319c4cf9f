//! Why a request to a metrics API failed.

use std::{error::Error, sync::Arc, time::Duration};

use hpa_calc::readings::{MetricsApi, ReadError};

use crate::wire::WireError;

/// Why a request to a metrics API gave no items. Shared by everyone who waited for the request.
///
/// `request` names what was asked for as the reference's client does: `get pods.metrics.k8s.io`.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FetchError {
    /// The server answered with an HTTP error.
    #[error("{message}")]
    Refused {
        /// The HTTP status code.
        code: u16,
        /// The message of the server's Status, else the reference client's text for the code.
        message: Box<str>,
    },
    /// No complete answer in time.
    #[error("context deadline exceeded: no answer within {deadline:?} ({request})")]
    Deadline {
        /// The time given.
        deadline: Duration,
        /// What was asked for.
        request: Box<str>,
    },
    /// The answer is longer than this client reads.
    #[error("the answer is larger than {limit} bytes ({request})")]
    TooLarge {
        /// The limit in bytes, after decompression.
        limit: usize,
        /// What was asked for.
        request: Box<str>,
    },
    /// The answer is not what it should be.
    #[error("unexpected answer ({request})")]
    Decode {
        /// What was asked for.
        request: Box<str>,
        /// What is wrong with it.
        source: Arc<WireError>,
    },
    /// No answer came.
    #[error("request failed ({request})")]
    Transport {
        /// What was asked for.
        request: Box<str>,
        /// What went wrong on the way.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The server does not know the custom metrics API.
    #[error("no custom metrics API (custom.metrics.k8s.io) registered")]
    NoCustomApi,
    /// The server has the API, in none of the versions that this crate reads.
    #[error("no known available metric versions found")]
    NoKnownVersion,
    /// An object's kind names no resource.
    #[error("unable to map kind {kind} to resource: {message}")]
    UnknownKind {
        /// `Kind` or `Kind.group`.
        kind: Box<str>,
        /// Why.
        message: Box<str>,
    },
    /// A name cannot be part of a path.
    #[error("invalid {part} {name:?}: [{reasons}]")]
    InvalidName {
        /// The part of the path.
        part: &'static str,
        /// The name.
        name: Box<str>,
        /// Why.
        reasons: Box<str>,
    },
}

impl FetchError {
    /// The error of a reading: this error and its causes in one line, without credentials of any URL in them.
    pub fn into_read_error(self, api: MetricsApi) -> ReadError {
        ReadError::Fetch { api, message: describe(&self) }
    }

    /// Whether the answer itself is at fault: one to a narrower question may be fine.
    pub(crate) fn is_of_answer(&self) -> bool {
        matches!(self, Self::TooLarge { .. } | Self::Decode { .. })
    }
}

/// What a metrics server says of itself may be a page; conditions and events are for sentences.
const LONGEST_DESCRIPTION: usize = 4096;

/// An error and its causes in one line of at most 4096 bytes, without credentials of any URL in them: how a log or a
/// condition has it.
pub fn describe(error: &dyn Error) -> String {
    let mut text = without_credentials(&chain(error));
    text.truncate(text.floor_char_boundary(LONGEST_DESCRIPTION));
    text
}

/// An error and its causes. Causes that an error's own text repeats (as kube's do) are printed once.
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

/// Leaves out the user information of URLs: `https://user:password@host` becomes `https://host`.
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
    fn a_message_holds_no_credentials() {
        let error = FetchError::Transport {
            request: "get pods.metrics.k8s.io".into(),
            source: Arc::new(std::io::Error::other(
                "proxy http://me:se@cret@proxy:3128/x and https://you@b refused",
            )),
        };
        let message = "unable to fetch metrics from resource metrics API: request failed (get pods.metrics.k8s.io): \
                       proxy http://proxy:3128/x and https://b refused";
        assert_eq!(error.into_read_error(MetricsApi::Resource).to_string(), message);
    }

    #[test]
    fn a_cause_is_printed_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer: inner")]
        struct Outer(#[source] std::io::Error);
        assert_eq!(chain(&Outer(std::io::Error::other("inner"))), "outer: inner");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        let error = std::io::Error::other("é".repeat(4096));
        let text = describe(&error);
        assert_eq!((text.len(), text.chars().count()), (4096, 2048));
        let odd = std::io::Error::other(format!("x{}", "é".repeat(4096)));
        assert_eq!(describe(&odd).len(), 4095);
    }
}
