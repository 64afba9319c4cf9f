//! `OpenAPI` v3, as far as `kubectl` needs it: schemas for `explain`, and the PATCH operations, which
//! show that the server validates fields.

use serde_json::{Map, Value, json};

use crate::{
    json,
    registry::{Resource, api_version},
    schema::openapi::{DocumentedKind, schemas},
    state::State,
};

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

/// The document of a group and version.
pub(super) fn document(state: &State, group: &str, version: &str) -> Value {
    let mut paths = json!({});
    let mut kinds = Vec::new();
    for resource in state.registry.iter().filter(|resource| resource.group == group) {
        let Some(served) = resource.version(version) else { continue };
        let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
        let path = format!("/{}{scope}/{}/{{name}}", path(group, version), resource.plural);
        json::set(&mut paths, &[&path, "patch"], patch_operation(resource, version));
        let crd_schema = served.schema.as_ref();
        kinds.push(DocumentedKind { group, version, kind: &resource.kind, crd_schema });
    }
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": "" },
        "paths": paths,
        "components": { "schemas": schemas(&kinds) },
    })
}

fn patch_operation(resource: &Resource, version: &str) -> Value {
    let parameter =
        |name: &str| json!({ "name": name, "in": "query", "schema": { "type": "string" } });
    json!({
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {
            "group": resource.group, "version": version, "kind": resource.kind,
        },
        "parameters": [
            parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation"),
        ],
        "responses": {},
    })
}
