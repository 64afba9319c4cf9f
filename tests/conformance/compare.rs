//! Compares JSON values. After [`normalize`], absent, `null`, empty and zero fields are equal.

use serde_json::{Map, Value};

/// Removes fields that are `null`, empty or zero, at all levels. Items of arrays remain.
pub(crate) fn normalize(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(normalize);
            fields.retain(|_, field| !is_absent(field));
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        _ => {}
    }
}

fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(_) => false,
    }
}

/// Like [`difference`], as a result.
pub(crate) fn ensure_equal(path: &str, expected: &Value, actual: &Value) -> Result<(), String> {
    difference(path, expected, actual).map_or(Ok(()), Err)
}

/// Returns the first difference, as `path: expected …, got …`. An absent field equals `null`.
pub(crate) fn difference(path: &str, expected: &Value, actual: &Value) -> Option<String> {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            object_difference(path, expected, actual)
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            let mut pairs = expected.iter().zip(actual).enumerate();
            pairs.find_map(|(at, (left, right))| difference(&format!("{path}[{at}]"), left, right))
        }
        _ if expected == actual => None,
        _ => Some(format!("{path}: expected {expected}, got {actual}")),
    }
}

fn object_difference(
    path: &str,
    expected: &Map<String, Value>,
    actual: &Map<String, Value>,
) -> Option<String> {
    let new_names = actual.keys().filter(|name| !expected.contains_key(*name));
    expected.keys().chain(new_names).find_map(|name| {
        let (left, right) = (expected.get(name), actual.get(name));
        difference(
            &format!("{path}.{name}"),
            left.unwrap_or(&Value::Null),
            right.unwrap_or(&Value::Null),
        )
    })
}
