//! Reading and writing members of JSON objects by path.

use serde_json::{Map, Value};

/// The text at a JSON pointer, empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The whole number at a JSON pointer, if there is one.
pub(crate) fn number(value: &Value, pointer: &str) -> Option<i64> {
    value.pointer(pointer).and_then(Value::as_i64)
}

/// The elements of the list at a JSON pointer, none if there is no list.
pub(crate) fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// The members of the value, which becomes an object if it is none.
pub(crate) fn members(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(members) => members,
        _ => unreachable!("made an object above"),
    }
}

/// Sets the member at `path`, making objects on the way.
pub(crate) fn set(value: &mut Value, path: &[&str], new: impl Into<Value>) {
    let mut place = value;
    for name in path {
        place = members(place).entry(*name).or_insert(Value::Null);
    }
    *place = new.into();
}

/// Sets the member at `path` unless it is there and not null.
pub(crate) fn set_default(value: &mut Value, path: &[&str], new: impl Into<Value>) {
    if at(value, path).is_none_or(Value::is_null) {
        set(value, path, new);
    }
}

/// Removes the member at `path`.
pub(crate) fn remove(value: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, parents) = path.split_last()?;
    let mut place = value;
    for name in parents {
        place = place.get_mut(*name)?;
    }
    place.as_object_mut()?.remove(*last)
}

/// The member at `path`.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |place, name| place.get(name))
}

/// Makes the member at `path` what it is in `from`: the same, or absent.
pub(crate) fn carry(from: &Value, to: &mut Value, path: &[&str]) {
    match at(from, path) {
        Some(value) => set(to, path, value.clone()),
        None => {
            remove(to, path);
        }
    }
}

/// A JSON pointer for a simple JSON path such as `.spec.replicas`.
pub(crate) fn pointer_of(json_path: &str) -> String {
    json_path.replace('.', "/")
}
