//! Custom resources.

use serde_json::{Value, json};

use super::resource::{Resource, ScalePaths, ScaleSelector, Version};
use crate::json;

/// The resource that a CRD defines.
pub(crate) fn resource_from_crd(crd: &Value) -> Resource {
    let names = |field: &str| json::str_at(crd, &format!("/spec/names/{field}")).to_owned();
    let list = |field: &str| {
        json::array_at(crd, &format!("/spec/names/{field}"))
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect()
    };
    let mut versions: Vec<Version> = json::array_at(crd, "/spec/versions")
        .filter(|version| version.get("served").and_then(Value::as_bool).unwrap_or(true))
        .map(version)
        .collect();
    versions.sort_by_cached_key(|version| stability(&version.name));
    let kind = names("kind");
    Resource {
        group: json::str_at(crd, "/spec/group").to_owned(),
        versions,
        plural: names("plural"),
        singular: or(names("singular"), kind.to_lowercase()),
        list_kind: or(names("listKind"), format!("{kind}List")),
        kind,
        short_names: list("shortNames"),
        categories: list("categories"),
        namespaced: json::str_at(crd, "/spec/scope") != "Cluster",
        has_generation: true,
        is_custom: true,
    }
}

/// Sets the status of a CRD. Unlike in a real server, it is established at once.
pub(crate) fn establish(crd: &mut Value, now: &str) {
    let resource = resource_from_crd(crd);
    let names = json!({
        "plural": resource.plural, "singular": resource.singular, "kind": resource.kind,
        "listKind": resource.list_kind, "shortNames": resource.short_names,
        "categories": resource.categories,
    });
    let condition = |name: &str, reason: &str, message: &str| {
        json!({
            "type": name, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": now,
        })
    };
    let accepted = "the initial names have been accepted";
    let stored: Vec<&str> = json::array_at(crd, "/spec/versions")
        .filter(|version| version.get("storage").and_then(Value::as_bool) == Some(true))
        .map(|version| json::str_at(version, "/name"))
        .collect();
    let status = json!({
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", accepted),
        ],
        "acceptedNames": names,
        "storedVersions": stored,
    });
    json::set(crd, &["status"], status);
}

fn version(version: &Value) -> Version {
    Version {
        name: json::str_at(version, "/name").to_owned(),
        has_status: version.pointer("/subresources/status").is_some(),
        scale: version.pointer("/subresources/scale").map(scale),
        columns: json::array_at(version, "/additionalPrinterColumns").cloned().collect(),
        schema: version.pointer("/schema/openAPIV3Schema").cloned(),
    }
}

fn scale(scale: &Value) -> ScalePaths {
    let path = |field: &str| json::pointer_from_json_path(json::str_at(scale, field));
    let selector = match path("/labelSelectorPath") {
        none if none.is_empty() => ScaleSelector::None,
        pointer => ScaleSelector::Text(pointer),
    };
    let (spec_replicas, status_replicas) = (path("/specReplicasPath"), path("/statusReplicasPath"));
    ScalePaths { spec_replicas, status_replicas, selector }
}

fn or(text: String, fallback: String) -> String {
    if text.is_empty() { fallback } else { text }
}

/// Sort key by version priority: stable before beta before alpha, newest first, then all other
/// names in alphabetical order.
fn stability(version: &str) -> (u8, std::cmp::Reverse<(u32, u32)>, String) {
    let parsed = version.strip_prefix('v').and_then(|rest| {
        for (rank, word) in [(1, "beta"), (2, "alpha")] {
            if let Some((major, minor)) = rest.split_once(word) {
                return Some((rank, major.parse().ok()?, minor.parse().ok()?));
            }
        }
        Some((0, rest.parse().ok()?, 0))
    });
    match parsed {
        Some((rank, major, minor)) => (rank, std::cmp::Reverse((major, minor)), String::new()),
        None => (3, std::cmp::Reverse((0, 0)), version.to_owned()),
    }
}
