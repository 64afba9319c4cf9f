//! Server-side apply: merges the applied fields, resolves conflicts, removes abandoned fields.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    field_manager::{
        FieldManager, FieldPath, FieldSet, differs, display_path, fields_of, fields_to_json,
        is_associative, managed_fields_entries, owned_fields, remove_field, set_entries,
    },
    strategic::is_same_element,
};
use crate::{error::ApiError, json_fields};

impl FieldManager {
    /// Records the ownership of an object that is created by applying it.
    pub(crate) fn apply_new(&self, mut applied: Value) -> Value {
        let entry = self.entry(&fields_of(&applied));
        set_entries(&mut applied, vec![entry]);
        applied
    }

    /// Merges the applied configuration into the live object.
    pub(crate) fn apply(
        &self,
        live: &Value,
        applied: &Value,
        force: bool,
    ) -> Result<Value, ApiError> {
        let fields = fields_of(applied);
        let mut others = managed_fields_entries(live);
        let own_entry = self.take_entry(&mut others);
        resolve_conflicts(live, applied, &fields, &mut others, force)?;
        let previously_owned = own_entry.as_ref().map(owned_fields).unwrap_or_default();
        let owned_by_others: FieldSet = others.iter().flat_map(owned_fields).collect();
        let mut result = live.clone();
        for path in previously_owned.difference(&fields) {
            if !is_owned_by_another(path, &owned_by_others) {
                remove_field(&mut result, path);
            }
        }
        merge(&mut result, "", applied);
        // The entry's time changes only if its fields do.
        let entry = match own_entry {
            Some(own_entry) if previously_owned == fields => own_entry,
            _ => self.entry(&fields),
        };
        others.push(entry);
        set_entries(&mut result, others);
        Ok(result)
    }
}

/// Whether another manager owns the field or anything below it. A path that ends in `.` stands for
/// its whole list element.
fn is_owned_by_another(path: &[String], owned_by_others: &FieldSet) -> bool {
    let path = path.strip_suffix(&[".".to_owned()]).unwrap_or(path);
    owned_by_others.iter().any(|other| other.starts_with(path))
}

/// Fails with a conflict if other managers own fields with different values. With `force`, takes
/// the ownership from them instead.
fn resolve_conflicts(
    live: &Value,
    applied: &Value,
    applied_fields: &FieldSet,
    others: &mut Vec<Value>,
    force: bool,
) -> Result<(), ApiError> {
    let mut conflicts = Vec::new();
    for other in others.iter_mut() {
        let mut owned = owned_fields(other);
        let conflicting: Vec<FieldPath> = applied_fields
            .intersection(&owned)
            .filter(|path| differs(path, live, applied))
            .cloned()
            .collect();
        let manager = describe_manager(other);
        for path in conflicting {
            conflicts.push((manager.clone(), display_path(&path)));
            owned.remove(&path);
        }
        json_fields::set(other, &["fieldsV1"], fields_to_json(&owned));
    }
    if conflicts.is_empty() || force {
        others.retain(|other| !owned_fields(other).is_empty());
        return Ok(());
    }
    Err(conflict_error(&conflicts))
}

/// The error for conflicts, given as pairs of manager and field.
fn conflict_error(conflicts: &[(String, String)]) -> ApiError {
    let text = match conflicts {
        [(manager, field)] => {
            format!("Apply failed with 1 conflict: conflict with {manager}: {field}")
        }
        several => {
            let managers: BTreeSet<&str> =
                several.iter().map(|(manager, _)| manager.as_str()).collect();
            let texts: Vec<String> =
                managers.into_iter().map(|manager| describe_conflicts(several, manager)).collect();
            format!("Apply failed with {} conflicts: {}", several.len(), texts.join("\n"))
        }
    };
    let causes: Vec<Value> = conflicts
        .iter()
        .map(|(manager, field)| {
            let message = format!("conflict with {manager}");
            json!({ "reason": "FieldManagerConflict", "message": message, "field": field })
        })
        .collect();
    ApiError { details: Some(json!({ "causes": causes })), ..ApiError::new(409, "Conflict", text) }
}

fn describe_conflicts(conflicts: &[(String, String)], manager: &str) -> String {
    let fields = conflicts
        .iter()
        .filter(|(name, _)| name == manager)
        .map(|(_, field)| format!("\n- {field}"));
    format!("conflicts with {manager}:{}", fields.collect::<String>())
}

/// Describes a manager in conflict messages.
fn describe_manager(entry: &Value) -> String {
    let mut text = format!("\"{}\"", json_fields::str_at(entry, "/manager"));
    let subresource = json_fields::str_at(entry, "/subresource");
    if !subresource.is_empty() {
        text = format!("{text} with subresource \"{subresource}\"");
    }
    if json_fields::str_at(entry, "/operation") != "Update" {
        return text;
    }
    format!("{text} using {}", json_fields::str_at(entry, "/apiVersion"))
}

/// Merges an applied value. Associative lists are merged by key or, for sets, by value.
fn merge(live: &mut Value, name: &str, applied: &Value) {
    match (applied, live) {
        (Value::Object(fields), live) => {
            let live_fields = json_fields::object_mut(live);
            for (name, value) in fields {
                merge(live_fields.entry(name.clone()).or_insert(Value::Null), name, value);
            }
        }
        (Value::Array(elements), Value::Array(items)) if is_associative(name, elements) => {
            for element in elements {
                merge_element(items, name, element);
            }
        }
        (_, live) => live.clone_from(applied),
    }
}

fn merge_element(items: &mut Vec<Value>, list: &str, element: &Value) {
    match items.iter_mut().find(|item| is_same_element(list, element, item)) {
        Some(item) => merge(item, "", element),
        None => items.push(element.clone()),
    }
}
