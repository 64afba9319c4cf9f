//! The parts of `OpenAPI` v3 that `kubectl` needs for server-side validation.

use serde_json::{Map, Value, json};

use crate::{json, registry::api_version, state::State};

/// The list of documents.
pub(super) fn index(state: &State) -> Value {
    let mut paths = Map::new();
    for resource in state.registry.iter() {
        for version in &resource.versions {
            let path = path(&resource.group, &version.name);
            paths.insert(
                path.clone(),
                json!({ "serverRelativeURL": format!("/openapi/v3/{path}") }),
            );
        }
    }
    json!({ "paths": paths })
}

fn path(group: &str, version: &str) -> String {
    let prefix = if group.is_empty() { "api" } else { "apis" };
    format!("{prefix}/{}", api_version(group, version))
}

/// The document of a group and version: only the PATCH operations.
pub(super) fn paths(state: &State, group: &str, version: &str) -> Value {
    let mut paths = json!({});
    let resources =
        state.registry.iter().filter(|one| one.group == group && one.version(version).is_some());
    for resource in resources {
        let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
        let path = format!("/{}{scope}/{}/{{name}}", path(group, version), resource.plural);
        let parameter =
            |name: &str| json!({ "name": name, "in": "query", "schema": { "type": "string" } });
        let operation = json!({
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": {
                "group": group, "version": version, "kind": resource.kind,
            },
            "parameters": [
                parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation"),
            ],
            "responses": {},
        });
        json::set(&mut paths, &[&path, "patch"], operation);
    }
    json!({ "openapi": "3.0.0", "info": { "title": "Kubernetes", "version": "" }, "paths": paths })
}
