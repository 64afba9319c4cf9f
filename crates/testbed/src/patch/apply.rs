//! Server-side apply: who set which field, what no longer is wanted, and who disagrees.

use serde_json::{Value, json};

use super::{
    fields::{self, Fields},
    strategic::{is_set, merge_key},
};
use crate::{error::ApiError, json};

/// Who applies, and how.
pub(crate) struct Applier<'a> {
    pub(crate) manager: &'a str,
    pub(crate) api_version: String,
    pub(crate) subresource: &'a str,
    pub(crate) time: String,
    pub(crate) force: bool,
}

impl Applier<'_> {
    /// The object that is created by applying to none.
    pub(crate) fn create(&self, applied: Value) -> Value {
        let mut object = applied;
        let entry = entry(self, &fields::of(&object));
        json::set(&mut object, &["metadata", "managedFields"], vec![entry]);
        object
    }

    /// What applying makes of a live object.
    pub(crate) fn apply(&self, live: &Value, applied: &Value) -> Result<Value, ApiError> {
        apply(live, applied, self)
    }
}

fn apply(live: &Value, applied: &Value, by: &Applier<'_>) -> Result<Value, ApiError> {
    let wanted = fields::of(applied);
    let mut others: Vec<Value> = json::array_at(live, "/metadata/managedFields").cloned().collect();
    let own = others.iter().position(|entry| is_own(entry, by)).map(|index| others.remove(index));
    settle_conflicts(live, applied, &wanted, &mut others, by)?;
    let before = own.as_ref().map(fields_of).unwrap_or_default();
    let kept: Fields = others.iter().flat_map(fields_of).collect();
    let mut result = live.clone();
    for path in before.iter().filter(|path| !wanted.contains(*path) && !is_kept(path, &kept)) {
        fields::remove(&mut result, path);
    }
    merge(&mut result, "", applied);
    // The time is that of the last change of the set.
    let entry = match own {
        Some(own) if before == wanted => own,
        _ => entry(by, &wanted),
    };
    others.push(entry);
    fields::sort(&mut others);
    json::set(&mut result, &["metadata", "managedFields"], others);
    Ok(result)
}

/// Whether somebody else has the field, or something in the element.
fn is_kept(path: &[String], kept: &Fields) -> bool {
    let path = path.strip_suffix(&[".".to_owned()]).unwrap_or(path);
    kept.iter().any(|other| other.starts_with(path))
}

/// Refuses what others have set to something else; by force, takes it from them.
fn settle_conflicts(
    live: &Value,
    applied: &Value,
    wanted: &Fields,
    others: &mut Vec<Value>,
    by: &Applier<'_>,
) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    for other in others.iter_mut() {
        let mut theirs = fields_of(other);
        let differs =
            |path: &&fields::Path| fields::find(live, path) != fields::find(applied, path);
        let disputed: Vec<fields::Path> = wanted
            .intersection(&theirs)
            .filter(|path| path.last().is_some_and(|step| step != "."))
            .filter(differs)
            .cloned()
            .collect();
        let owner = called(other);
        for path in disputed {
            causes.push((owner.clone(), fields::shown(&path)));
            theirs.remove(&path);
        }
        json::set(other, &["fieldsV1"], fields::to_json(&theirs));
    }
    if causes.is_empty() || by.force {
        others.retain(|other| !fields_of(other).is_empty());
        return Ok(());
    }
    Err(conflict(&causes))
}

/// The answer to a conflict: who has which field.
fn conflict(conflicts: &[(String, String)]) -> ApiError {
    let text = match conflicts {
        [(manager, field)] => {
            format!("Apply failed with 1 conflict: conflict with {manager}: {field}")
        }
        several => {
            let mut managers: Vec<&str> =
                several.iter().map(|(manager, _)| manager.as_str()).collect();
            managers.sort_unstable();
            managers.dedup();
            let texts: Vec<String> =
                managers.into_iter().map(|manager| of_manager(several, manager)).collect();
            format!("Apply failed with {} conflicts: {}", several.len(), texts.join("\n"))
        }
    };
    let causes: Vec<Value> = conflicts
        .iter()
        .map(|(manager, field)| {
            json!({ "reason": "FieldManagerConflict", "message": format!("conflict with {manager}"), "field": field })
        })
        .collect();
    ApiError { details: Some(json!({ "causes": causes })), ..ApiError::new(409, "Conflict", text) }
}

fn of_manager(conflicts: &[(String, String)], manager: &str) -> String {
    let fields =
        conflicts.iter().filter(|(own, _)| own == manager).map(|(_, field)| format!("\n- {field}"));
    format!("conflicts with {manager}:{}", fields.collect::<String>())
}

/// How a manager is called: one that did not apply, with what it did.
fn called(entry: &Value) -> String {
    let mut text = format!("\"{}\"", json::str_at(entry, "/manager"));
    let subresource = json::str_at(entry, "/subresource");
    if !subresource.is_empty() {
        text = format!("{text} with subresource \"{subresource}\"");
    }
    if json::str_at(entry, "/operation") != "Update" {
        return text;
    }
    format!("{text} using {}", json::str_at(entry, "/apiVersion"))
}

/// Merges an applied object: lists by the keys of their elements, where they have such.
fn merge(live: &mut Value, name: &str, applied: &Value) {
    match applied {
        Value::Object(wanted) => {
            let members = json::object_mut(live);
            for (name, value) in wanted {
                merge(members.entry(name.clone()).or_insert(Value::Null), name, value);
            }
        }
        Value::Array(wanted) if fields::is_keyed(name, wanted) && live.is_array() => {
            let Some(items) = live.as_array_mut() else { return };
            for element in wanted {
                merge_element(items, name, element);
            }
        }
        _ => live.clone_from(applied),
    }
}

fn merge_element(items: &mut Vec<Value>, list: &str, element: &Value) {
    let is_same = |item: &&mut Value| match merge_key(list, element) {
        Some(key) => item.get(key) == element.get(key),
        None => is_set(list) && **item == *element,
    };
    match items.iter_mut().find(is_same) {
        Some(item) => merge(item, "", element),
        None => items.push(element.clone()),
    }
}

fn is_own(entry: &Value, by: &Applier<'_>) -> bool {
    json::str_at(entry, "/manager") == by.manager
        && json::str_at(entry, "/operation") == "Apply"
        && json::str_at(entry, "/subresource") == by.subresource
}

fn fields_of(entry: &Value) -> Fields {
    entry.get("fieldsV1").map(fields::from_json).unwrap_or_default()
}

fn entry(by: &Applier<'_>, fields: &Fields) -> Value {
    let mut entry = json!({
        "manager": by.manager,
        "operation": "Apply",
        "apiVersion": by.api_version,
        "time": by.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields::to_json(fields),
    });
    if !by.subresource.is_empty() {
        json::set(&mut entry, &["subresource"], by.subresource);
    }
    entry
}
