//! Whether the cluster can be read, and since when not.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// Something that can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    /// What can't be read: the API server, or the autoscalers of an API.
    pub(crate) subject: String,
    /// What happens, such as "has been unreachable". A change of it is another sentence.
    pub(crate) kind: &'static str,
    /// Since when it happens.
    pub(crate) since: Timestamp,
    /// A sentence about it, with the cause, without a full stop.
    pub(crate) text: String,
}

impl Outage {
    /// A sentence about its end.
    pub(crate) fn end(&self, now: Timestamp) -> String {
        let (now, age) = (seconds(now), duration(now.duration_since(self.since)));
        format!("{} can be read again since {now}, after {age}", self.subject)
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
        /// The first failure, of any kind.
        since: Timestamp,
        outage: Outage,
    },
}

/// What can't be read of the cluster, for the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Unread {
    pub(crate) since: Timestamp,
    /// The time of the values that are shown. Absent if there are none.
    pub(crate) values_at: Option<Timestamp>,
    /// Whether the rest is read.
    pub(crate) is_partial: bool,
}

/// A time without a fraction of its second.
pub(crate) fn seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

/// A duration in one or two units: `45s`, `3m 20s`, `2h 5m`.
fn duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m {seconds}s"),
        (hours, minutes, _) => format!("{hours}h {minutes}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_an_outage_has_its_time_and_duration() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let outage = |since| Outage {
            subject: "The API server at api:443".to_owned(),
            kind: "",
            since: at(since),
            text: String::new(),
        };
        for (since, age) in [(7195, "5s"), (7000, "3m 20s"), (0, "2h 0m")] {
            let expected = format!(
                "The API server at api:443 can be read again since 1970-01-01T02:00:00Z, after {age}"
            );
            assert_eq!(outage(since).end(at(7200)), expected);
        }
    }
}
