//! Kubernetes events about an autoscaler.

use hpa_calc::{event::EventReason, go_text::truncate, report::OverwrittenScalings};
use hpa_controller::{HpaKey, cache::overwritten_by_event};
use hpa_metrics::StoredObject;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

/// The maximum numbers of characters of a type or reason, and of a message. They are the limits of
/// events.k8s.io; core/v1 has none.
const MAX_WORD_CHARS: usize = 128;
const MAX_MESSAGE_CHARS: usize = 1024;

/// An event, as a line of the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventLine {
    /// The time of its last occurrence. `None` if a [`Timestamp`] can't represent it.
    pub(super) at: Option<Timestamp>,
    #[serde(rename = "type")]
    event_type: String,
    reason: String,
    message: String,
    count: i64,
}

impl EventLine {
    /// Reads a core/v1 Event. A time is text first: a writer of events may choose one that a
    /// [`Timestamp`] can't represent.
    pub(super) fn new(object: &StoredObject) -> Result<Self, String> {
        const TIMES: [&str; 4] = [
            "/lastTimestamp",
            "/series/lastObservedTime",
            "/eventTime",
            "/metadata/creationTimestamp",
        ];
        let event = object.to_value().map_err(|error| error.to_string())?;
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str);
        let count = |pointer: &str| event.pointer(pointer).and_then(Value::as_i64);
        let time = TIMES.into_iter().find_map(text);
        Ok(Self {
            at: time.and_then(|time| time.parse().ok()),
            event_type: shortened(text("/type"), MAX_WORD_CHARS),
            reason: shortened(text("/reason"), MAX_WORD_CHARS),
            message: shortened(text("/message"), MAX_MESSAGE_CHARS),
            count: count("/series/count").or_else(|| count("/count")).unwrap_or(1),
        })
    }

    /// The overwritten scalings that this event reports. `None` for other events.
    pub(super) fn overwritten_scalings(&self, now: Timestamp) -> Option<OverwrittenScalings> {
        let is_report = self.reason == EventReason::ReplicasOverwritten.as_str();
        overwritten_by_event(self.at.filter(|_| is_report)?, now)
    }
}

fn shortened(text: Option<&str>, max_chars: usize) -> String {
    truncate(text.unwrap_or_default().to_owned(), max_chars)
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

    fn line(event: Value) -> EventLine {
        EventLine::new(&serde_json::from_value(event).unwrap()).unwrap()
    }

    #[test]
    fn long_texts_are_shortened() {
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
        let message = "x".repeat(2000);
        let event = line(json!({ "metadata": {}, "involvedObject": {}, "message": message }));
        assert_eq!(event.message, format!("{}…", "x".repeat(MAX_MESSAGE_CHARS)));
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
