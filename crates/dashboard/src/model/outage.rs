//! Outages of the API server and of lists: their start, and the sentences about them.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// A part of the cluster that can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    /// The part: "The API server", or "The list of the autoscalers of" an API.
    pub(crate) subject: String,
    /// `None` for a list. If the kind changes, the outage is reported again.
    pub(crate) kind: Option<FailureKind>,
    /// The time of the first failure of this kind. If the API server is unreachable, the time when
    /// the first request without a response was sent.
    pub(crate) since: Timestamp,
    /// A sentence about the outage with its cause, without a full stop.
    pub(crate) text: String,
}

impl Outage {
    /// The sentence that reports the end of the outage.
    pub(crate) fn end_sentence(&self, now: Timestamp) -> String {
        let seconds = now.duration_since(self.since).as_secs().max(0);
        let (now, age) = (format_time(now), SignedDuration::from_secs(seconds));
        format!("{} can be read again as of {now}, after {age:#}", self.subject)
    }
}

/// The way in which the API server can't be read. Prints as the predicate of [`Outage::text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The request got no response.
    Unreachable,
    /// The response has the status 401.
    RejectedCredentials,
    /// The response has a status of 500 or above.
    ServerError,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreachable => "has been unreachable",
            Self::RejectedCredentials => "has rejected your credentials",
            Self::ServerError => "has failed",
        })
    }
}

/// The connection to the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Connection {
    /// No request has been answered yet.
    #[default]
    Unknown,
    Up,
    Down {
        /// The time of the first failure of any kind.
        since: Timestamp,
        outage: Outage,
    },
}

/// All outages together, for the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OutageSummary {
    /// The start of the first outage.
    pub(crate) since: Timestamp,
    /// The time of the values that the page shows. `None` if it shows none.
    pub(crate) values_at: Option<Timestamp>,
    /// Whether the autoscalers of another API can be read, or their first list is not complete.
    pub(crate) is_partial: bool,
    /// Whether the API server can't be read. If it can, a list failed, or a right is missing.
    pub(crate) is_server_down: bool,
}

/// Formats a time without the fraction of its second.
pub(crate) fn format_time(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_sentence_has_the_time_and_the_duration_of_the_outage() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let outage = |since| Outage {
            subject: "The API server at api:443".to_owned(),
            kind: None,
            since: at(since),
            text: String::new(),
        };
        for (since, age) in [(7195, "5s"), (7000, "3m 20s"), (0, "2h")] {
            let expected = format!(
                "The API server at api:443 can be read again as of 1970-01-01T02:00:00Z, after \
                 {age}"
            );
            assert_eq!(outage(since).end_sentence(at(7200)), expected);
        }
    }
}
