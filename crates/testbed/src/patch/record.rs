//! Who wrote what without applying it.

use serde_json::{Value, json};

use super::fields::{self, Fields, Path};
use crate::{json, registry::api_version, request::Call, target::Part};

/// Who writes.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    manager: String,
    api_version: String,
    subresource: String,
    time: String,
}

impl Writer {
    /// The one who sends this request.
    pub(crate) fn new(call: &Call, time: String) -> Self {
        Self {
            manager: call.field_manager().to_owned(),
            api_version: api_version(&call.info.group, &call.info.version),
            subresource: call.info.subresource.clone(),
            time,
        }
    }

    /// Notes in `managedFields` of `new` what the writer changed; it is no longer anybody else's.
    pub(crate) fn record(&self, new: &mut Value, old: &Value, part: Part) {
        let is_of_part = |path: &&Path| {
            (path.first().is_some_and(|step| step == "f:status")) == (part == Part::Status)
        };
        let present = fields::of(new);
        let differs = |path: &&Path| fields::find(new, path) != fields::find(old, path);
        let changed: Fields = present
            .iter()
            .filter(is_of_part)
            .filter(|path| path.last().is_some_and(|step| step != "."))
            .filter(differs)
            .cloned()
            .collect();
        if changed.is_empty() || self.manager.is_empty() {
            return;
        }
        let mut entries: Vec<Value> =
            json::array_at(new, "/metadata/managedFields").cloned().collect();
        let own =
            entries.iter().position(|entry| self.is_own(entry)).map(|index| entries.remove(index));
        for entry in &mut entries {
            let theirs: Fields = fields_of(entry).difference(&changed).cloned().collect();
            json::set(entry, &["fieldsV1"], fields::to_json(&theirs));
        }
        entries.retain(|entry| !fields_of(entry).is_empty());
        let before = own.as_ref().map(fields_of).unwrap_or_default();
        let all: Fields =
            before.union(&changed).filter(|path| present.contains(*path)).cloned().collect();
        entries.push(self.entry(&all));
        fields::sort(&mut entries);
        json::set(new, &["metadata", "managedFields"], entries);
    }

    fn is_own(&self, entry: &Value) -> bool {
        json::str_at(entry, "/manager") == self.manager
            && json::str_at(entry, "/operation") == "Update"
            && json::str_at(entry, "/subresource") == self.subresource
    }

    fn entry(&self, fields: &Fields) -> Value {
        let mut entry = json!({
            "manager": self.manager,
            "operation": "Update",
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields::to_json(fields),
        });
        if !self.subresource.is_empty() {
            json::set(&mut entry, &["subresource"], self.subresource.as_str());
        }
        entry
    }
}

fn fields_of(entry: &Value) -> Fields {
    entry.get("fieldsV1").map(fields::from_json).unwrap_or_default()
}
