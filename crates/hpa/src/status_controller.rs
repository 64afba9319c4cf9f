//! The controller that stored the status of an autoscaler.

use hpa_controller::k8s::{ManagedFieldsEntry, StatusWriter};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{debug_client::KUBE_CONTROLLER_MANAGER, terminal::escape_line};

/// The controller that stored the status last, according to its field manager.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct StatusController {
    /// The name of the field manager. Absent if no status was stored.
    pub(crate) name: Option<String>,
    /// The time of its last write.
    pub(crate) at: Option<Timestamp>,
}

impl StatusController {
    /// The newest entry of `managedFields` for the status, see [`StatusWriter::newest`].
    pub(crate) fn from_managed_fields(object: &Value) -> Self {
        Self::until(object, Timestamp::now())
    }

    fn until(object: &Value, now: Timestamp) -> Self {
        let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        // A manifest may have entries of other types, which the API server would reject.
        let entries = entries.into_iter().flatten();
        let entries = entries.filter_map(|entry| ManagedFieldsEntry::deserialize(entry).ok());
        let writer = StatusWriter::newest(&entries.collect::<Vec<_>>(), now);
        writer.map_or_else(Self::default, |StatusWriter { manager, at }| Self {
            name: Some(manager),
            at,
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
        for future in ["2026-01-01T00:01:01Z", "2126-01-01T00:00:00Z", "9999-12-31T23:59:59Z"] {
            assert_eq!(name(future).as_deref(), Some("kcm"), "{future}");
        }
        assert_eq!(name("2026-01-01T00:01:00Z").as_deref(), Some("forged"), "clocks may differ");
    }

    #[test]
    fn entry_of_another_type_does_not_hide_the_others() {
        let kcm = json!({ "manager": "kcm", "subresource": "status" });
        let object = json!({ "metadata": { "managedFields": [{ "manager": 5 }, "text", kcm] } });
        let controller = StatusController::from_managed_fields(&object);
        assert_eq!((controller.name.as_deref(), controller.at), (Some("kcm"), None));
    }
}
