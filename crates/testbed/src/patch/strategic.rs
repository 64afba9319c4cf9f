//! Strategic merge patch: a merge patch that merges lists by key.

use serde_json::{Map, Value};

use crate::json_fields;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// The field that identifies the elements of a list with this name (`patchMergeKey`), if any.
pub(super) fn merge_key(list: &str, element: &Value) -> Option<&'static str> {
    match list {
        "conditions" => Some("type"),
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "env"
        | "imagePullSecrets" => Some("name"),
        "ports" if element.get("containerPort").is_some() => Some("containerPort"),
        "ports" => Some("port"),
        "volumeMounts" => Some("mountPath"),
        "volumeDevices" => Some("devicePath"),
        "ownerReferences" => Some("uid"),
        "hostAliases" | "podIPs" | "hostIPs" => Some("ip"),
        "topologySpreadConstraints" => Some("topologyKey"),
        _ => None,
    }
}

/// Whether lists with this name are sets of primitive values.
pub(super) fn is_set_list(list: &str) -> bool {
    list == "finalizers"
}

/// Whether two elements of a list have the same key or, without a key, the same value.
pub(super) fn is_same_element(list: &str, one: &Value, other: &Value) -> bool {
    match merge_key(list, one).filter(|_| one.is_object()) {
        Some(key) => one.get(key) == other.get(key),
        None => one == other,
    }
}

/// Applies a patch to an object, or to a value in it.
pub(super) fn apply(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        object.clone_from(patch);
        return;
    };
    let directive = directive(patch);
    if matches!(directive, Some("replace" | "delete")) {
        *object = Value::Object(Map::new());
    }
    if directive == Some("delete") {
        return;
    }
    let fields = json_fields::object_mut(object);
    if let Some(keys) = patch.get(RETAIN_KEYS).and_then(Value::as_array) {
        fields.retain(|name, _| keys.iter().any(|key| key == name));
    }
    for (name, value) in patch {
        merge_field(fields, name, value);
    }
}

fn merge_field(fields: &mut Map<String, Value>, name: &str, value: &Value) {
    if name == DIRECTIVE || name == RETAIN_KEYS || name.starts_with(ELEMENT_ORDER) {
        return;
    }
    if let Some(list) = name.strip_prefix(DELETE_PRIMITIVES) {
        let deleted = value.as_array().map(Vec::as_slice).unwrap_or_default();
        if let Some(items) = fields.get_mut(list).and_then(Value::as_array_mut) {
            items.retain(|item| !deleted.contains(item));
        }
        return;
    }
    if value.is_null() || value.as_object().and_then(directive) == Some("delete") {
        fields.remove(name);
        return;
    }
    let target = fields.entry(name.to_owned()).or_insert(Value::Null);
    match value {
        Value::Array(patch) => merge_list(target, name, patch),
        _ => apply(target, value),
    }
}

fn merge_list(target: &mut Value, name: &str, patch: &[Value]) {
    let replaces = patch
        .iter()
        .filter_map(Value::as_object)
        .any(|element| element.len() == 1 && directive(element) == Some("replace"));
    // An empty patch of such a list changes nothing.
    let is_mergeable = is_set_list(name) || merge_key(name, &Value::Null).is_some();
    if replaces || !is_mergeable {
        let remaining = patch.iter().filter(|element| element.get(DIRECTIVE).is_none());
        *target = remaining.cloned().collect();
        return;
    }
    if !target.is_array() {
        *target = Value::Array(Vec::new());
    }
    let Some(items) = target.as_array_mut() else { return };
    let live = items.clone();
    for element in patch {
        merge_element(items, name, element);
    }
    restore_order(items, name, &live, patch);
}

/// Orders the merged list as kube-apiserver does for a patch without `$setElementOrder`, which is
/// ignored. Patched elements have the order of the patch. An element that is not in the patch keeps
/// its place before the first patched element that followed it in the live list. If there is none,
/// it goes to the end.
fn restore_order(items: &mut Vec<Value>, list: &str, live: &[Value], patch: &[Value]) {
    let position = |all: &[Value], item: &Value| {
        all.iter().position(|other| is_same_element(list, item, other))
    };
    let (mut patched, others): (Vec<Value>, Vec<Value>) =
        items.drain(..).partition(|item| position(patch, item).is_some());
    patched.sort_by_key(|item| position(patch, item));
    let mut others = others.into_iter().peekable();
    for item in patched {
        let live_index = position(live, &item);
        while let Some(other) = others.next_if(|other| {
            live_index.is_some_and(|live_index| position(live, other) < Some(live_index))
        }) {
            items.push(other);
        }
        items.push(item);
    }
    items.extend(others);
}

fn merge_element(items: &mut Vec<Value>, list: &str, element: &Value) {
    let is_same = |item: &Value| is_same_element(list, element, item);
    if element.as_object().and_then(directive) == Some("delete") {
        items.retain(|item| !is_same(item));
    } else if let Some(item) = items.iter_mut().find(|item| is_same(item)) {
        apply(item, element);
    } else {
        let mut item = Value::Null;
        apply(&mut item, element);
        items.push(item);
    }
}

fn directive(patch: &Map<String, Value>) -> Option<&str> {
    patch.get(DIRECTIVE)?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn delete_directive_removes_all_elements_with_the_key() {
        let mut pod = json!({ "containers": [{ "name": "a" }, { "name": "b" }, { "name": "a" }] });
        apply(&mut pod, &json!({ "containers": [{ "name": "a", "$patch": "delete" }] }));
        assert_eq!(pod, json!({ "containers": [{ "name": "b" }] }));
    }

    #[test]
    fn empty_patch_of_a_keyed_list_changes_nothing() {
        let status = json!({ "conditions": [{ "type": "Ready" }], "args": ["a"] });
        let mut patched = status.clone();
        apply(&mut patched, &json!({ "conditions": [] }));
        assert_eq!(patched, status);
        apply(&mut patched, &json!({ "args": [] }));
        assert_eq!(patched["args"], json!([]));
    }
}
