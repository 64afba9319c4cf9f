//! Requests and discovery documents of a missing API group.

use serde_json::Value;

use crate::{json, request::RequestInfo};

/// Whether the request is for a resource of the group, or for its discovery document.
pub(crate) fn is_for_group(group: &str, request: &RequestInfo) -> bool {
    if !request.resource.is_empty() {
        return request.group == group;
    }
    let mut path = request.path.split('/').filter(|part| !part.is_empty()).peekable();
    if path.peek() == Some(&"openapi") {
        path = {
            path.by_ref().take(2).for_each(drop);
            path
        };
    }
    match path.next() {
        Some("api") => group.is_empty(),
        Some("apis") => path.next() == Some(group),
        _ => false,
    }
}

/// Whether the response lists all API groups.
pub(crate) fn is_group_list(request: &RequestInfo) -> bool {
    ["/apis", "/openapi/v3"].contains(&request.path.trim_end_matches('/'))
}

/// Removes a group from a list of API groups.
pub(crate) fn remove_group(group: &str, index: &mut Value) {
    if let Some(groups) = index.get_mut("groups").and_then(Value::as_array_mut) {
        groups.retain(|one| json::str_at(one, "/name") != group);
    }
    if let Some(items) = index.get_mut("items").and_then(Value::as_array_mut) {
        items.retain(|one| json::str_at(one, "/metadata/name") != group);
    }
    if let Some(paths) = index.get_mut("paths").and_then(Value::as_object_mut) {
        let own = if group.is_empty() { "api/".to_owned() } else { format!("apis/{group}/") };
        paths.retain(|path, _| !path.starts_with(&own));
    }
}
