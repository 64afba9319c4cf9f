//! `managedFields` of writes other than server-side apply.

use serde_json::Value;

use super::{
    field_manager::{FieldManager, entries, owned_fields, set_entries},
    field_set::{self, FieldPath, FieldSet},
};
use crate::{json, target::Subresource};

impl FieldManager {
    /// Records the changed fields in `managedFields` of `new`, and removes them from other
    /// managers.
    pub(crate) fn record(&self, new: &mut Value, old: &Value, subresource: Subresource) {
        let is_in_scope = |path: &&FieldPath| {
            let is_status = path.first().is_some_and(|step| step == "f:status");
            is_status == (subresource == Subresource::Status)
        };
        let present = field_set::from_object(new);
        let differs = |path: &&FieldPath| field_set::get(new, path) != field_set::get(old, path);
        let changed: FieldSet = present
            .iter()
            .filter(is_in_scope)
            .filter(|path| path.last().is_some_and(|step| step != "."))
            .filter(differs)
            .cloned()
            .collect();
        if changed.is_empty() || self.name.is_empty() {
            return;
        }
        let mut entries = entries(new);
        let own = self.take_entry(&mut entries);
        for entry in &mut entries {
            let remaining: FieldSet = owned_fields(entry).difference(&changed).cloned().collect();
            json::set(entry, &["fieldsV1"], field_set::to_json(&remaining));
        }
        entries.retain(|entry| !owned_fields(entry).is_empty());
        let before = own.as_ref().map(owned_fields).unwrap_or_default();
        let all: FieldSet =
            before.union(&changed).filter(|path| present.contains(*path)).cloned().collect();
        entries.push(self.entry(&all));
        set_entries(new, entries);
    }
}
