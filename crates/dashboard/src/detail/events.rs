//! Kubernetes events about an autoscaler.

use hpa_calc::go_text::truncate;
use hpa_controller::HpaKey;
use hpa_metrics::StoredObject;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::informer::decode;

/// The maximum number of characters of a type or reason. events.k8s.io limits reasons to as many,
/// core/v1 limits neither.
const MAX_WORD_CHARS: usize = 128;

/// An event, as a line of the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventLine {
    /// The time of its last occurrence. `None` if it is outside the range of a `Timestamp`.
    pub(super) at: Option<Timestamp>,
    #[serde(rename = "type")]
    event_type: String,
    reason: String,
    message: String,
    count: i32,
}

/// The fields of a core/v1 Event that are read. Times are text: a writer of events may choose one
/// that a [`Timestamp`] can't represent.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoredEvent {
    metadata: EventMetadata,
    #[serde(rename = "type")]
    event_type: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    count: Option<i32>,
    last_timestamp: Option<String>,
    event_time: Option<String>,
    series: Option<EventSeries>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EventMetadata {
    creation_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EventSeries {
    count: Option<i32>,
    last_observed_time: Option<String>,
}

impl EventLine {
    /// Fails if a field has a type that the API server wouldn't store.
    pub(super) fn new(object: &StoredObject) -> Result<Self, String> {
        let event: StoredEvent = decode(object)?;
        let EventSeries { count, last_observed_time } = event.series.unwrap_or_default();
        let event_time = last_observed_time.or(event.event_time);
        let time = event.last_timestamp.or(event_time).or(event.metadata.creation_timestamp);
        Ok(Self {
            at: time.and_then(|time| time.parse().ok()),
            event_type: shortened(event.event_type),
            reason: shortened(event.reason),
            message: event.message.unwrap_or_default(),
            count: count.or(event.count).unwrap_or(1),
        })
    }
}

/// The type or reason of an event, with at most [`MAX_WORD_CHARS`].
fn shortened(word: Option<String>) -> String {
    truncate(word.unwrap_or_default(), MAX_WORD_CHARS)
}

/// The field selector for events about an autoscaler. If `uid` is empty, it includes events about
/// earlier objects with the same name.
pub(super) fn field_selector(id: &HpaKey, uid: &str) -> String {
    let (name, api) = (&id.name, id.api);
    let object = match uid {
        "" => format!("involvedObject.apiVersion={api}"),
        uid => format!("involvedObject.uid={uid}"),
    };
    format!("involvedObject.kind=HorizontalPodAutoscaler,involvedObject.name={name},{object}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(event: serde_json::Value) -> EventLine {
        EventLine::new(&serde_json::from_value(event).unwrap()).unwrap()
    }

    #[test]
    fn long_type_and_reason_are_shortened() {
        let words = |text: &str| {
            let event =
                json!({ "metadata": {}, "involvedObject": {}, "type": text, "reason": text });
            let line = line(event);
            (line.event_type, line.reason)
        };
        let longest = "é".repeat(MAX_WORD_CHARS);
        assert_eq!(words(&longest), (longest.clone(), longest.clone()));
        let short = format!("{longest}…");
        assert_eq!(words(&format!("{longest}x")), (short.clone(), short));
    }

    #[test]
    fn times_and_counts_of_both_event_apis_are_read() {
        let old = line(json!({ "metadata": {}, "involvedObject": {}, "type": "Normal",
            "reason": "SuccessfulRescale", "message": "New size: 4", "count": 3,
            "lastTimestamp": "2026-01-01T00:00:05Z" }));
        assert_eq!((old.count, old.reason.as_str()), (3, "SuccessfulRescale"));
        assert_eq!(old.at, Some("2026-01-01T00:00:05Z".parse().unwrap()));
        let new = line(json!({ "metadata": {}, "involvedObject": {},
            "eventTime": "2026-01-01T00:00:01.000000Z",
            "series": { "count": 7, "lastObservedTime": "2026-01-01T00:00:09.000000Z" } }));
        assert_eq!((new.count, new.at), (7, Some("2026-01-01T00:00:09Z".parse().unwrap())));
        let once = line(json!({ "metadata": { "creationTimestamp": "2026-01-01T00:00:02Z" },
            "involvedObject": {} }));
        assert_eq!((once.count, once.at), (1, Some("2026-01-01T00:00:02Z".parse().unwrap())));
    }

    #[test]
    fn event_with_a_time_out_of_range_has_no_time() {
        let end = "9999-12-31T23:59:59Z";
        let event = line(json!({ "metadata": { "managedFields": [{ "time": end }],
            "creationTimestamp": "2026-01-01T00:00:02Z" }, "reason": "Odd",
            "firstTimestamp": end, "lastTimestamp": end, "eventTime": null, "series": null }));
        assert_eq!((event.reason.as_str(), event.at), ("Odd", None));
    }
}
