//! JSON merge patch (RFC 7386).

use serde_json::Value;

use crate::json;

/// Merges `patch` into `object`: null removes, objects merge, all else replaces.
pub(super) fn apply(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        object.clone_from(patch);
        return;
    };
    let members = json::members(object);
    for (name, value) in patch {
        if value.is_null() {
            members.remove(name);
        } else {
            apply(members.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}
