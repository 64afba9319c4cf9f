//! The `OpenAPI` v3 schemas of the served kinds, with the descriptions for `kubectl explain`.

use std::{io::Read, sync::LazyLock};

use flate2::read::GzDecoder;
use serde_json::{Map, Value, json};

use crate::json_fields;

/// The schemas of kube-apiserver 1.36 by name, without defaults, and with the autoscaler fields of
/// 1.37.
const COMPRESSED_SCHEMAS: &[u8] = include_bytes!("openapi.json.gz");
const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const PREFIX: &str = "#/components/schemas/";
const KINDS: &str = "x-kubernetes-group-version-kind";

static SCHEMAS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let mut text = String::new();
    // Can't fail: the data is part of the binary, and a test reads it.
    let _ = GzDecoder::new(COMPRESSED_SCHEMAS).read_to_string(&mut text);
    serde_json::from_str(&text).unwrap_or_default()
});

/// A kind, and the schema in its CRD if it is a custom resource.
pub(crate) struct DocumentedKind<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) crd_schema: Option<&'a Value>,
}

/// The schemas of these kinds, with all referenced schemas.
pub(crate) fn schemas(kinds: &[DocumentedKind<'_>]) -> Map<String, Value> {
    let mut schemas = Map::new();
    for kind in kinds {
        if let Some(schema) = kind.crd_schema {
            let schema = kind.custom_resource(schema);
            add_referenced(&schema, &mut schemas);
            schemas.insert(kind.schema_name(), schema);
            continue;
        }
        let built_in = SCHEMAS.iter().find(|(_, schema)| kind.is_described_by(schema));
        if let Some((name, _)) = built_in {
            add_schema(name, &mut schemas);
        }
    }
    schemas
}

impl DocumentedKind<'_> {
    fn is_described_by(&self, schema: &Value) -> bool {
        json_fields::array_at(schema, &format!("/{KINDS}")).any(|kind| *kind == self.reference())
    }

    fn reference(&self) -> Value {
        json!({ "group": self.group, "version": self.version, "kind": self.kind })
    }

    /// The name of a custom resource's schema, as in kube-apiserver: `com.example.v1.Queue`.
    fn schema_name(&self) -> String {
        let labels: Vec<&str> = self.group.rsplit('.').collect();
        format!("{}.{}.{}", labels.join("."), self.version, self.kind)
    }

    /// The schema in the CRD, extended by the fields that all objects have.
    fn custom_resource(&self, schema: &Value) -> Value {
        let mut schema = schema.clone();
        let description =
            SCHEMAS.get(METADATA).map_or("", |schema| json_fields::str_at(schema, "/description"));
        for field in ["apiVersion", "kind"] {
            json_fields::set_default(
                &mut schema,
                &["properties", field],
                json!({ "type": "string" }),
            );
        }
        let metadata = json!({
            "description": description, "allOf": [{ "$ref": format!("{PREFIX}{METADATA}") }],
        });
        json_fields::set(&mut schema, &["properties", "metadata"], metadata);
        json_fields::set(&mut schema, &[KINDS], json!([self.reference()]));
        schema
    }
}

fn add_schema(name: &str, schemas: &mut Map<String, Value>) {
    let Some(schema) = SCHEMAS.get(name).filter(|_| !schemas.contains_key(name)) else { return };
    schemas.insert(name.to_owned(), schema.clone());
    add_referenced(schema, schemas);
}

/// Adds the schemas to which a schema refers, directly or indirectly.
fn add_referenced(value: &Value, schemas: &mut Map<String, Value>) {
    match value {
        Value::Object(fields) => {
            let name = fields.get("$ref").and_then(Value::as_str);
            if let Some(name) = name.and_then(|reference| reference.strip_prefix(PREFIX)) {
                add_schema(name, schemas);
            }
            for value in fields.values() {
                add_referenced(value, schemas);
            }
        }
        Value::Array(elements) => {
            for value in elements {
                add_referenced(value, schemas);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builtin<'a>(group: &'a str, version: &'a str, kind: &'a str) -> DocumentedKind<'a> {
        DocumentedKind { group, version, kind, crd_schema: None }
    }

    #[test]
    fn schemas_include_all_referenced_schemas() {
        let schemas = schemas(&[builtin("apps", "v1", "Deployment")]);
        assert!(schemas.contains_key("io.k8s.api.core.v1.Container"));
        assert!(!schemas.contains_key("io.k8s.api.apps.v1.StatefulSet"));
        let text = json!(schemas).to_string();
        for reference in text.split(PREFIX).skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name}");
        }
    }

    #[test]
    fn schema_of_a_custom_resource_has_metadata() {
        let crd_schema = json!({ "type": "object", "properties": { "spec": {} } });
        let kind = DocumentedKind {
            crd_schema: Some(&crd_schema),
            ..builtin("example.com", "v1", "Queue")
        };
        let schemas = schemas(&[kind]);
        let queue = &schemas["com.example.v1.Queue"];
        assert_eq!(queue["properties"].as_object().unwrap().len(), 4);
        assert!(schemas.contains_key(METADATA));
    }
}
