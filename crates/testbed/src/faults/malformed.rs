//! Corrupts objects in response bodies.

use serde_json::Value;

use crate::json;

/// Corrupts the objects in a body: a single object, the items of a list, or the object of a watch
/// event.
pub(crate) fn corrupt(body: &mut Value, object: &str, pointer: &str, value: &Value) {
    if let Some(items) = body.get_mut("items").and_then(Value::as_array_mut) {
        for item in items {
            corrupt_object(item, object, pointer, value);
        }
        return;
    }
    match json::str_at(body, "/type") {
        "ADDED" | "MODIFIED" | "DELETED" => {
            if let Some(target) = body.get_mut("object") {
                corrupt_object(target, object, pointer, value);
            }
        }
        "BOOKMARK" | "ERROR" => {}
        _ => corrupt_object(body, object, pointer, value),
    }
}

fn corrupt_object(target: &mut Value, object: &str, pointer: &str, value: &Value) {
    let has_name = || {
        ["/metadata/name", "/describedObject/name"]
            .iter()
            .any(|name| json::str_at(target, name) == object)
    };
    if !object.is_empty() && !has_name() {
        return;
    }
    let Some((parent, field)) = pointer.rsplit_once('/') else { return };
    let field = field.replace("~1", "/").replace("~0", "~");
    match target.pointer_mut(parent) {
        Some(Value::Object(fields)) if value.is_null() => {
            fields.remove(&field);
        }
        Some(Value::Object(fields)) => {
            fields.insert(field, value.clone());
        }
        Some(Value::Array(elements)) => {
            if let Some(element) =
                field.parse().ok().and_then(|index: usize| elements.get_mut(index))
            {
                *element = value.clone();
            }
        }
        _ => {}
    }
}
