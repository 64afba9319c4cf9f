//! Field managers, and their entries in `managedFields`.

use serde_json::{Value, json};

use super::field_set::{self, FieldSet};
use crate::{json, registry::api_version, request::ApiRequest};

/// A client that updates or applies an object, as `managedFields` records it.
#[derive(Clone, Debug)]
pub(crate) struct FieldManager {
    pub(super) name: String,
    operation: &'static str,
    api_version: String,
    subresource: String,
    time: String,
}

impl FieldManager {
    /// The manager of a server-side apply. The request must name it.
    pub(crate) fn for_apply(request: &ApiRequest, time: String) -> Self {
        Self::new(request.parameter("fieldManager"), "Apply", request, time)
    }

    /// The manager of any other write. By default it is named after the client.
    pub(crate) fn for_update(request: &ApiRequest, time: String) -> Self {
        Self::new(request.field_manager(), "Update", request, time)
    }

    fn new(name: &str, operation: &'static str, request: &ApiRequest, time: String) -> Self {
        Self {
            name: name.to_owned(),
            operation,
            api_version: api_version(&request.info.group, &request.info.version),
            subresource: request.info.subresource.clone(),
            time,
        }
    }

    /// Removes and returns this manager's entry.
    pub(super) fn take_entry(&self, entries: &mut Vec<Value>) -> Option<Value> {
        let is_own = |entry: &Value| {
            json::str_at(entry, "/manager") == self.name
                && json::str_at(entry, "/operation") == self.operation
                && json::str_at(entry, "/subresource") == self.subresource
        };
        entries.iter().position(is_own).map(|index| entries.remove(index))
    }

    /// The entry of this manager, owning `fields`.
    pub(super) fn entry(&self, fields: &FieldSet) -> Value {
        let mut entry = json!({
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": field_set::to_json(fields),
        });
        if !self.subresource.is_empty() {
            json::set(&mut entry, &["subresource"], self.subresource.as_str());
        }
        entry
    }
}

/// The entries in an object's `managedFields`.
pub(super) fn entries(object: &Value) -> Vec<Value> {
    json::array_at(object, "/metadata/managedFields").cloned().collect()
}

/// The fields that the manager of an entry owns.
pub(super) fn owned_fields(entry: &Value) -> FieldSet {
    entry.get("fieldsV1").map(field_set::from_json).unwrap_or_default()
}

/// Writes `managedFields`, sorted as by kube-apiserver: `Apply` first, then by time and name.
pub(super) fn set_entries(object: &mut Value, mut entries: Vec<Value>) {
    let fields = ["/operation", "/time", "/manager", "/apiVersion", "/subresource"];
    entries.sort_by_cached_key(|entry| fields.map(|field| json::str_at(entry, field).to_owned()));
    json::set(object, &["metadata", "managedFields"], entries);
}
