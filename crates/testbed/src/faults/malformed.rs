//! Objects with a member that is wrong.

use serde_json::Value;

use crate::json;

/// Spoils what a body shows: an object, the items of a list, or the object of a watch's event.
pub(crate) fn spoil(body: &mut Value, object: &str, pointer: &str, value: &Value) {
    if let Some(items) = body.get_mut("items").and_then(Value::as_array_mut) {
        for item in items {
            spoil_one(item, object, pointer, value);
        }
        return;
    }
    match json::str_at(body, "/type") {
        "ADDED" | "MODIFIED" | "DELETED" => {
            if let Some(shown) = body.get_mut("object") {
                spoil_one(shown, object, pointer, value);
            }
        }
        "BOOKMARK" | "ERROR" => {}
        _ => spoil_one(body, object, pointer, value),
    }
}

fn spoil_one(shown: &mut Value, object: &str, pointer: &str, value: &Value) {
    let is_named = || {
        ["/metadata/name", "/describedObject/name"]
            .iter()
            .any(|name| json::str_at(shown, name) == object)
    };
    if !object.is_empty() && !is_named() {
        return;
    }
    let Some((parent, member)) = pointer.rsplit_once('/') else { return };
    let member = member.replace("~1", "/").replace("~0", "~");
    match shown.pointer_mut(parent) {
        Some(Value::Object(members)) if value.is_null() => {
            members.remove(&member);
        }
        Some(Value::Object(members)) => {
            members.insert(member, value.clone());
        }
        Some(Value::Array(elements)) => {
            if let Some(element) =
                member.parse().ok().and_then(|index: usize| elements.get_mut(index))
            {
                *element = value.clone();
            }
        }
        _ => {}
    }
}
