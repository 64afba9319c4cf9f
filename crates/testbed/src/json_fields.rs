//! Access to parts of JSON documents, by pointer (`/spec/replicas`) or by path (`["spec",
//! "replicas"]`).

use serde_json::{Map, Value};

/// The string at a JSON pointer, or `""`.
pub(crate) fn str_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn i64_at(value: &Value, pointer: &str) -> Option<i64> {
    value.pointer(pointer).and_then(Value::as_i64)
}

/// The elements of the array at a JSON pointer. If there is no array, the iterator is empty.
pub(crate) fn array_at<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// The fields of an object. Any other value is replaced by an empty object.
pub(crate) fn object_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!("replaced by an object above"),
    }
}

/// Sets the field at `path`, and creates the objects above it.
pub(crate) fn set(value: &mut Value, path: &[&str], new: impl Into<Value>) {
    let mut place = value;
    for field in path {
        place = object_mut(place).entry(*field).or_insert(Value::Null);
    }
    *place = new.into();
}

/// Like [`set`], for a JSON pointer through objects.
pub(crate) fn set_pointer(value: &mut Value, pointer: &str, new: impl Into<Value>) {
    let path: Vec<&str> = pointer.split('/').skip(1).collect();
    set(value, &path, new);
}

/// Sets the field at `path` if it is absent or null.
pub(crate) fn set_default(value: &mut Value, path: &[&str], new: impl Into<Value>) {
    if get(value, path).is_none_or(Value::is_null) {
        set(value, path, new);
    }
}

/// Removes and returns the field at `path`.
pub(crate) fn remove(value: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, parents) = path.split_last()?;
    let mut place = value;
    for field in parents {
        place = place.get_mut(*field)?;
    }
    place.as_object_mut()?.remove(*last)
}

fn get<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |place, field| place.get(field))
}

/// Copies the field at `path`. If `from` doesn't have the field, removes it from `to`.
pub(crate) fn copy(from: &Value, to: &mut Value, path: &[&str]) {
    match get(from, path) {
        Some(value) => set(to, path, value.clone()),
        None => {
            remove(to, path);
        }
    }
}

/// Labels as a selector: `app=web,tier=front`.
pub(crate) fn join_labels(labels: &Value) -> String {
    let labels = labels.as_object().into_iter().flatten();
    let pairs = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    pairs.collect::<Vec<_>>().join(",")
}

/// The JSON pointer for a simple JSON path such as `.spec.replicas`.
pub(crate) fn pointer_from_json_path(json_path: &str) -> String {
    json_path.replace('.', "/")
}
