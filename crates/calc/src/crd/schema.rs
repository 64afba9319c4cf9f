//! Generates schemas with schemars, converts them to structural schemas, as a
//! `CustomResourceDefinition` requires, and finds fields in them.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::DefinitionError;

/// A section of an object, which determines how strict its schema is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The spec: a string with an enumeration must have one of its values.
    Spec,
    /// The status: a string may have any value, and fewer fields are required.
    Status,
}

/// Generates the structural schema of `T`, a section of `HorizontalPodAutoscaler`.
///
/// A spec has the required fields of the API reference of autoscaling/v2. A status has fewer:
/// `current`, `metric` and `describedObject` of a metric are optional. The core API requires them
/// by its reference, but accepts a status without them.
pub fn structural_like_core_api<T: JsonSchema>(section: Section) -> Value {
    let mut schema = schema_without_references::<T>();
    match_core_api(&mut schema, section);
    schema
}

/// The schema of a kind whose objects have a spec, which is required, and a status.
pub fn kind_schema(description: &str, spec: &Value, status: &Value) -> Value {
    json!({
        "type": "object",
        "description": description,
        "required": ["spec"],
        "properties": {
            "apiVersion": { "type": "string" },
            "kind": { "type": "string" },
            "metadata": { "type": "object" },
            "spec": spec,
            "status": status,
        },
    })
}

/// Generates the structural schema of `T`, with the required fields, enumerations and formats that
/// schemars derives from the type, and without its defaults.
pub fn structural_as_derived<T: JsonSchema>() -> Value {
    let mut schema = schema_without_references::<T>();
    simplify(&mut schema);
    schema
}

/// Removes titles, defaults and the type `null` at every level.
fn simplify(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    unwrap_nullable(schema);
    schema.remove("title");
    schema.remove("default");
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(simplify);
    }
    if let Some(items) = schema.get_mut("items") {
        simplify(items);
    }
}

fn schema_without_references<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// Like [`simplify`], but sets the required fields, defaults and bounds of the core API.
fn match_core_api(schema: &mut Value, section: Section) {
    let Some(schema) = schema.as_object_mut() else { return };
    unwrap_nullable(schema);
    schema.remove("title");
    schema.remove("default");
    if section == Section::Status {
        // As in the core API, newer controllers may write other values.
        schema.remove("enum");
    }
    if schema.get("format").is_some_and(|format| format == "int32") {
        // The API server doesn't derive these bounds from the format.
        schema.insert("minimum".to_owned(), i32::MIN.into());
        schema.insert("maximum".to_owned(), i32::MAX.into());
    }
    let defaults = set_required_fields(schema, section);
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(|property| match_core_api(property, section));
        set_defaults(properties, defaults);
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(inner) {
            match_core_api(inner, section);
        }
    }
}

/// Removes `null` from the types of optional fields. The API server drops `null` before it
/// validates, so the schema needn't allow it.
fn unwrap_nullable(schema: &mut Map<String, Value>) {
    let is_null = |schema: &Value| schema.get("type").is_some_and(|kind| kind == "null");
    if let Some(Value::Array(any_of)) = schema.get_mut("anyOf")
        && any_of.iter().any(is_null)
    {
        any_of.retain(|schema| !is_null(schema));
        if let (Some(Value::Object(only)), true) = (any_of.pop(), any_of.is_empty()) {
            schema.remove("anyOf");
            // Prefer the description of the field to that of its type.
            for (name, value) in only {
                schema.entry(name).or_insert(value);
            }
        }
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let (Some(only), true) = (types.pop(), types.is_empty()) {
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
}

/// Requires fields that are always serialized, and returns the defaults that some of them need.
/// schemars generates a default for each such field, except in label requirements.
///
/// - Spec: requires all such fields except lists.
/// - Status, and label requirements in both sections: requires only integers and strings, and
///   returns 0 or the empty string for each. The API server sets defaults before it validates, so
///   it accepts objects without these fields, as the core API does.
fn set_required_fields(schema: &mut Map<String, Value>, section: Section) -> Vec<(String, Value)> {
    let Some(Value::Object(properties)) = schema.get("properties") else { return Vec::new() };
    let is_label_requirement = properties.contains_key("operator");
    let mut required = Vec::new();
    let mut defaults = Vec::new();
    for (name, property) in properties {
        let zero = match property.get("type").and_then(Value::as_str) {
            Some("integer") => Some(json!(0)),
            Some("string") => Some(json!("")),
            _ => None,
        };
        let is_list = property.get("type").is_some_and(|kind| kind == "array");
        match (property.get("default"), section, zero) {
            (Some(_), Section::Spec, _) if !is_list => required.push(name.clone()),
            (Some(_), Section::Status, Some(zero)) => defaults.push((name.clone(), zero)),
            (None, _, Some(zero)) if is_label_requirement => defaults.push((name.clone(), zero)),
            _ => {}
        }
    }
    required.extend(defaults.iter().map(|(name, _)| name.clone()));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    defaults
}

fn set_defaults(properties: &mut Map<String, Value>, defaults: Vec<(String, Value)>) {
    for (name, value) in defaults {
        if let Some(Value::Object(property)) = properties.get_mut(&name) {
            property.insert("default".to_owned(), value);
        }
    }
}

/// Finds the schema of the field at `path` in the schema `root`. In `metrics[].object.target`, `[]`
/// stands for the items of the list. An empty path is `root` itself.
pub fn schema_at<'a>(
    root: &'a mut Value,
    path: &str,
) -> Result<&'a mut Map<String, Value>, DefinitionError> {
    let missing = || DefinitionError::NoSuchField(path.to_owned());
    let mut schema = root;
    for segment in path.split('.').filter(|segment| !segment.is_empty()) {
        let (name, is_list) =
            segment.split_once("[]").map_or((segment, false), |(name, _)| (name, true));
        schema =
            schema.get_mut("properties").and_then(|all| all.get_mut(name)).ok_or_else(missing)?;
        if is_list {
            schema = schema.get_mut("items").ok_or_else(missing)?;
        }
    }
    schema.as_object_mut().ok_or_else(missing)
}
