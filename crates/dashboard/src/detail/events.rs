//! Kubernetes events about an autoscaler.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use serde::Serialize;

use crate::model::Identity;

/// An event, as a line of the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventLine {
    /// The time of its last occurrence.
    pub(super) at: Option<Timestamp>,
    #[serde(rename = "type")]
    event_type: String,
    reason: String,
    message: String,
    count: i32,
}

impl EventLine {
    pub(super) fn new(event: &Event) -> Self {
        let series = event.series.as_ref();
        let observed = series.and_then(|series| series.last_observed_time.as_ref());
        let event_time = observed.or(event.event_time.as_ref()).map(|time| time.0);
        let last = event.last_timestamp.as_ref().map(|time| time.0).or(event_time);
        let created = event.metadata.creation_timestamp.as_ref().map(|time| time.0);
        Self {
            at: last.or(created),
            event_type: event.type_.clone().unwrap_or_default(),
            reason: event.reason.clone().unwrap_or_default(),
            message: event.message.clone().unwrap_or_default(),
            count: series.and_then(|series| series.count).or(event.count).unwrap_or(1),
        }
    }
}

/// The field selector for events about an autoscaler. If `uid` is empty, it includes events about
/// earlier objects with the same name.
pub(super) fn field_selector(id: &Identity, uid: &str) -> String {
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
        EventLine::new(&serde_json::from_value(event).unwrap())
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
}
