//! The controller that stored the status of an autoscaler.

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
    /// The newest entry of `managedFields` for the status.
    pub(crate) fn from_managed_fields(object: &Value) -> Self {
        let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        let entries = entries.into_iter().flatten();
        let of_status = entries.filter(|entry| string_at(entry, "/subresource") == "status");
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
