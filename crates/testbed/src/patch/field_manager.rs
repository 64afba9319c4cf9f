//! Field managers, and their entries in `managedFields`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::strategic::{is_set_list, merge_key};
use crate::{json_fields, registry::api_version, request::ApiRequest, request_target::Subresource};

/// A client that updates or applies an object, for `managedFields`.
#[derive(Clone, Debug)]
pub(crate) struct FieldManager {
    name: String,
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

    /// The manager of any other write. By default it is named after the product in the
    /// `User-Agent` header.
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

    /// Removes and returns this manager's entry. As in kube-apiserver, updates in several API
    /// versions have an entry each.
    pub(super) fn take_entry(&self, entries: &mut Vec<Value>) -> Option<Value> {
        let is_own = |entry: &Value| {
            let has_version = json_fields::str_at(entry, "/apiVersion") == self.api_version;
            (has_version || self.operation == "Apply")
                && json_fields::str_at(entry, "/manager") == self.name
                && json_fields::str_at(entry, "/operation") == self.operation
                && json_fields::str_at(entry, "/subresource") == self.subresource
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
            "fieldsV1": fields_to_json(fields),
        });
        if !self.subresource.is_empty() {
            json_fields::set(&mut entry, &["subresource"], self.subresource.as_str());
        }
        entry
    }

    /// Makes this manager the only owner of the changed fields, in `managedFields` of `new`.
    /// Removed fields lose all their owners.
    pub(crate) fn record(&self, new: &mut Value, old: &Value, subresource: Subresource) {
        // A write of the status owns only the status, any other write owns only the rest.
        let is_status_write = subresource == Subresource::Status;
        let is_written = |name: &str| (name == "status") == is_status_write;
        let present = fields_where(new, is_written);
        let removed: FieldSet =
            fields_where(old, is_written).difference(&present).cloned().collect();
        let changed: FieldSet =
            present.iter().filter(|path| differs(path, new, old)).cloned().collect();
        if (changed.is_empty() && removed.is_empty()) || self.name.is_empty() {
            return;
        }
        let mut entries = managed_fields_entries(new);
        let own_entry = self.take_entry(&mut entries);
        for entry in &mut entries {
            let mut remaining = owned_fields(entry);
            remaining.retain(|path| !changed.contains(path) && !removed.contains(path));
            json_fields::set(entry, &["fieldsV1"], fields_to_json(&remaining));
        }
        entries.retain(|entry| !owned_fields(entry).is_empty());
        let previously_owned = own_entry.as_ref().map(owned_fields).unwrap_or_default();
        let owned: FieldSet = previously_owned
            .union(&changed)
            .filter(|path| present.contains(*path))
            .cloned()
            .collect();
        if !owned.is_empty() {
            entries.push(self.entry(&owned));
        }
        set_entries(new, entries);
    }
}

pub(super) fn managed_fields_entries(object: &Value) -> Vec<Value> {
    json_fields::array_at(object, "/metadata/managedFields").cloned().collect()
}

pub(super) fn owned_fields(entry: &Value) -> FieldSet {
    entry.get("fieldsV1").map(fields_from_json).unwrap_or_default()
}

/// Writes `managedFields`, sorted as by kube-apiserver: `Apply` first, then by time and name.
pub(super) fn set_entries(object: &mut Value, mut entries: Vec<Value>) {
    let fields = ["/operation", "/time", "/manager", "/apiVersion", "/subresource"];
    entries.sort_by_cached_key(|entry| {
        fields.map(|field| json_fields::str_at(entry, field).to_owned())
    });
    json_fields::set(object, &["metadata", "managedFields"], entries);
}

/// The path to a field. Its steps are `f:<field>`, `k:<key of a list element>`, `v:<value of a
/// list element>`, and `.` for the list element itself.
pub(super) type FieldPath = Vec<String>;

pub(super) type FieldSet = BTreeSet<FieldPath>;

/// The fields of an object that can have a manager.
pub(super) fn fields_of(object: &Value) -> FieldSet {
    fields_where(object, |_| true)
}

/// The fields that can have a manager, in the selected top-level fields of an object.
fn fields_where(object: &Value, is_selected: impl Fn(&str) -> bool) -> FieldSet {
    let mut fields = FieldSet::new();
    let top = object.as_object().into_iter().flatten();
    for (name, value) in top.filter(|(name, _)| is_selected(name)) {
        let mut path = vec![format!("f:{name}")];
        match (name.as_str(), value) {
            ("apiVersion" | "kind", _) => {}
            ("metadata", Value::Object(metadata)) => {
                for (name, value) in metadata {
                    if !UNMANAGED_METADATA.contains(&name.as_str()) {
                        path.push(format!("f:{name}"));
                        collect_fields(&mut fields, &mut path, name, value);
                        path.pop();
                    }
                }
            }
            _ => collect_fields(&mut fields, &mut path, name, value),
        }
    }
    fields
}

/// Fields of the metadata that can't have a manager.
const UNMANAGED_METADATA: [&str; 7] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "managedFields",
    "creationTimestamp",
    "generation",
];

/// Adds `path` if it leads to a leaf, otherwise the leaves below it. `name` is the field's name, or
/// empty for a list element.
fn collect_fields(fields: &mut FieldSet, path: &mut FieldPath, name: &str, value: &Value) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (name, value) in entries {
                path.push(format!("f:{name}"));
                collect_fields(fields, path, name, value);
                path.pop();
            }
        }
        Value::Array(items) if is_associative(name, items) => {
            for item in items {
                path.push(element_step(name, item));
                fields.insert(path.iter().cloned().chain([".".to_owned()]).collect());
                collect_fields(fields, path, "", item);
                path.pop();
            }
        }
        _ => {
            fields.insert(path.clone());
        }
    }
}

/// Whether a list is associative: its elements are identified by a key or their value.
pub(super) fn is_associative(name: &str, items: &[Value]) -> bool {
    !items.is_empty()
        && (is_set_list(name)
            || items
                .iter()
                .all(|item| merge_key(name, item).is_some_and(|key| item.get(key).is_some())))
}

fn element_step(list: &str, item: &Value) -> String {
    match merge_key(list, item) {
        Some(key) => format!("k:{}", json!({ key: item.get(key) })),
        None => format!("v:{item}"),
    }
}

/// Whether the step leads to this list element.
fn step_matches(step: &str, item: &Value) -> bool {
    if let Some(key) = step.strip_prefix("k:") {
        return serde_json::from_str(key).is_ok_and(|key: Map<String, Value>| {
            key.iter().all(|(name, value)| item.get(name) == Some(value))
        });
    }
    step.strip_prefix("v:")
        .is_some_and(|value| serde_json::from_str(value).is_ok_and(|value: Value| value == *item))
}

/// Whether a field has different values in two objects. Paths that stand for a whole list element
/// don't count.
pub(super) fn differs(path: &[String], a: &Value, b: &Value) -> bool {
    path.last().is_some_and(|step| step != ".") && field_at(a, path) != field_at(b, path)
}

/// The value at a path. `None` if a step leads nowhere.
fn field_at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().filter(|step| *step != ".").try_fold(object, |value, step| {
        match step.strip_prefix("f:") {
            Some(name) => value.get(name),
            None => value.as_array()?.iter().find(|item| step_matches(step, item)),
        }
    })
}

/// Removes the value at a path, and objects above it that become empty.
pub(super) fn remove_field(object: &mut Value, path: &[String]) {
    let Some((first, rest)) = path.split_first() else { return };
    let rest = if rest == ["."] { &[] } else { rest };
    match (object, first.strip_prefix("f:")) {
        (Value::Object(entries), Some(name)) => {
            if let Some(child) = entries.get_mut(name).filter(|_| !rest.is_empty()) {
                remove_field(child, rest);
            }
            let is_empty = |child: &Value| child.as_object().is_some_and(Map::is_empty);
            if rest.is_empty() || entries.get(name).is_some_and(is_empty) {
                entries.remove(name);
            }
        }
        (Value::Array(items), None) => {
            if rest.is_empty() {
                items.retain(|item| !step_matches(first, item));
            } else if let Some(item) = items.iter_mut().find(|item| step_matches(first, item)) {
                remove_field(item, rest);
            }
        }
        _ => {}
    }
}

/// Converts to `FieldsV1`.
pub(super) fn fields_to_json(fields: &FieldSet) -> Value {
    let mut tree = json!({});
    for path in fields {
        let mut value = &mut tree;
        for step in path {
            value = json_fields::object_mut(value).entry(step.clone()).or_insert_with(|| json!({}));
        }
    }
    tree
}

/// Converts from `FieldsV1`.
fn fields_from_json(tree: &Value) -> FieldSet {
    fn collect_paths(fields: &mut FieldSet, path: &mut FieldPath, tree: &Value) {
        let entries = tree.as_object().filter(|entries| !entries.is_empty());
        let Some(entries) = entries else {
            fields.insert(path.clone());
            return;
        };
        for (step, tree) in entries {
            path.push(step.clone());
            collect_paths(fields, path, tree);
            path.pop();
        }
    }
    let mut fields = FieldSet::new();
    collect_paths(&mut fields, &mut Vec::new(), tree);
    fields.remove(&Vec::new());
    fields
}

/// The path in messages: `.spec.containers[name="main"].image`.
pub(super) fn display_path(path: &[String]) -> String {
    path.iter().filter(|step| *step != ".").map(|step| display_step(step)).collect()
}

fn display_step(step: &str) -> String {
    if let Some(name) = step.strip_prefix("f:") {
        return format!(".{name}");
    }
    let Some(key) = step.strip_prefix("k:") else {
        return format!("[={}]", step.trim_start_matches("v:"));
    };
    let key: Map<String, Value> = serde_json::from_str(key).unwrap_or_default();
    let entries: Vec<String> = key.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("[{}]", entries.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_key_leads_to_no_list_element() {
        let containers = json!([{ "name": "main" }]);
        let field = |step: &str| field_at(&containers, &[step.to_owned()]);
        assert_eq!(field("k:{\"name\":\"main\"}"), containers.get(0));
        assert_eq!(field("k:main"), None);
    }
}
