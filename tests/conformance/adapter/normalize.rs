//! Normalizes the parts of recorded responses that differ between runs.

use jiff::Timestamp;
use serde_json::Value;

/// Sorts the names in `=~"a|b"`.
pub(crate) fn sort_alternatives(query: &str) -> String {
    let mut parts = query.split("=~\"");
    let mut sorted = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (names, rest) = part.split_once('"').unwrap_or((part, ""));
        let mut names: Vec<&str> = names.split('|').collect();
        names.sort_unstable();
        sorted.extend(["=~\"", &names.join("|"), "\"", rest]);
    }
    sorted
}

/// Replaces current times by `T` and the port by `PORT`, sorts `resources` and `containers` by
/// name, and keeps only those `paths` that start with `/apis`.
pub(crate) fn replace_volatile_parts(value: &mut Value, port: u16) {
    match value {
        Value::String(text) => {
            *text = replace_current_times(text).replace(&format!(":{port}"), ":PORT");
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace_volatile_parts(item, port)),
        Value::Object(fields) => {
            for (key, field) in fields {
                replace_volatile_parts(field, port);
                if matches!(key.as_str(), "resources" | "containers")
                    && let Some(items) = field.as_array_mut()
                {
                    items.sort_by_key(|item| item["name"].as_str().unwrap_or_default().to_owned());
                }
                if key == "paths"
                    && let Some(paths) = field.as_array_mut()
                {
                    let is_api =
                        |path: &Value| path.as_str().is_some_and(|path| path.starts_with("/apis"));
                    paths.retain(is_api);
                }
            }
        }
        _ => {}
    }
}

/// Length of a time such as `2026-01-01T00:00:00Z`.
const TIME_LENGTH: usize = 20;

/// Replaces times in a string that are within five minutes of now by `T`.
pub(crate) fn replace_current_times(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let time = rest.get(..TIME_LENGTH).filter(|time| time.ends_with('Z'));
        let time = time.and_then(|time| time.parse::<Timestamp>().ok());
        let is_now = time.is_some_and(|time| {
            Timestamp::now().duration_since(time).abs() < jiff::SignedDuration::from_mins(5)
        });
        let length = if is_now { TIME_LENGTH } else { next.len_utf8() };
        let (prefix, remainder) = rest.split_at(length);
        result.push_str(if is_now { "T" } else { prefix });
        rest = remainder;
    }
    result
}
