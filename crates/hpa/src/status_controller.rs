//! The controller that stored the status of an autoscaler.

use hpa_controller::k8s::is_in_future;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::{debug_client::KUBE_CONTROLLER_MANAGER, manifests::string_at, terminal::escape_line};

/// The controller that stored the status last, according to its field manager.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct StatusController {
    /// The name of the field manager. Absent if no status was stored.
    pub(crate) name: Option<String>,
    /// The time of its last write.
    pub(crate) at: Option<String>,
}

impl StatusController {
    /// The newest entry of `managedFields` for the status. Ignores entries in the future, which
    /// users may have forged.
    pub(crate) fn from_managed_fields(object: &Value) -> Self {
        Self::until(object, Timestamp::now())
    }

    fn until(object: &Value, now: Timestamp) -> Self {
        let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        let entries = entries.into_iter().flatten();
        let of_status = entries.filter(|entry| string_at(entry, "/subresource") == "status");
        let of_status = of_status.filter(|entry| !is_ahead(string_at(entry, "/time"), now));
        let newest = of_status.max_by_key(|entry| string_at(entry, "/time").to_owned());
        let optional = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        newest.map_or_else(Self::default, |entry| Self {
            name: optional(string_at(entry, "/manager")),
            at: optional(string_at(entry, "/time")),
        })
    }

    pub(crate) fn sentence(&self) -> String {
        escape_line(&match (&self.name, &self.at) {
            (Some(name), Some(at)) => format!("{name} stored the status at {at}."),
            (Some(name), None) => format!("{name} stored the status."),
            (None, _) => "No controller has stored a status.".to_owned(),
        })
    }

    /// Whether it is kube-controller-manager, which ignores the settings of single autoscalers.
    pub(crate) fn is_reference(&self) -> bool {
        self.name.as_deref() == Some(KUBE_CONTROLLER_MANAGER)
    }
}

/// Whether the time is [in the future](is_in_future) or unreadable: the API server stores times up
/// to the end of the year 9999, whose last hours a `Timestamp` can't represent.
fn is_ahead(time: &str, now: Timestamp) -> bool {
    !time.is_empty() && time.parse().map_or(true, |at: Timestamp| is_in_future(at, now))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entry_in_the_future_is_ignored() {
        let entry =
            |manager, time| json!({ "manager": manager, "subresource": "status", "time": time });
        let now = "2026-01-01T00:00:00Z".parse().expect("a time");
        let name = |future| {
            let entries = [entry("kcm", "2025-12-31T23:59:50Z"), entry("forged", future)];
            let object = json!({ "metadata": { "managedFields": entries } });
            StatusController::until(&object, now).name
        };
        for future in ["2026-01-01T00:05:01Z", "2126-01-01T00:00:00Z", "9999-12-31T23:59:59Z"] {
            assert_eq!(name(future).as_deref(), Some("kcm"), "{future}");
        }
        assert_eq!(name("2026-01-01T00:05:00Z").as_deref(), Some("forged"), "clocks may differ");
    }
}
