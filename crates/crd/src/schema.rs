//! Makes what schemars generates a structural schema, the form that a `CustomResourceDefinition` must have.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// Whether a part of the object is judged or only kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The spec: enumerations are closed, members without which it makes no sense are required.
    Spec,
    /// The status, of which the API server checks next to nothing.
    Status,
}

/// The structural schema of `T`.
pub(crate) fn structural<T: JsonSchema>(part: Part) -> Value {
    let settings = SchemaSettings::draft07().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    restructure(&mut schema, part);
    schema
}

fn restructure(schema: &mut Value, part: Part) {
    let Some(schema) = schema.as_object_mut() else { return };
    take_over_nullable(schema);
    schema.remove("title");
    schema.remove("default");
    if part == Part::Status {
        // A status is written by a controller; core keeps whatever value a newer one has.
        schema.remove("enum");
    }
    if schema.get("format").is_some_and(|format| format == "int32") {
        // The API server does not look at the format.
        schema.insert("minimum".to_owned(), i32::MIN.into());
        schema.insert("maximum".to_owned(), i32::MAX.into());
    }
    let defaults = require(schema, part);
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(|property| restructure(property, part));
        fill(properties, defaults);
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(inner) {
            restructure(inner, part);
        }
    }
}

/// An optional member is one that may be absent: the API server drops a `null` before it looks at the schema, as Go
/// does, so that no schema has to allow it.
fn take_over_nullable(schema: &mut Map<String, Value>) {
    let is_null = |one: &Value| one.get("type").is_some_and(|kind| kind == "null");
    if let Some(Value::Array(any_of)) = schema.get_mut("anyOf")
        && any_of.iter().any(is_null)
    {
        any_of.retain(|one| !is_null(one));
        if let (Some(Value::Object(only)), true) = (any_of.pop(), any_of.is_empty()) {
            schema.remove("anyOf");
            // The member's description says more than its type's.
            for (name, value) in only {
                schema.entry(name).or_insert(value);
            }
        }
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|one| one != "null");
        if let (Some(only), true) = (types.pop(), types.is_empty()) {
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|one| !one.is_null());
    }
}

/// What is always written, even where it says nothing, is required (API reference of autoscaling/v2): schemars tells a
/// default for such members and for no others.
///
/// Where the API server lets an empty text or zero pass, an absent one is filled in as that.
fn require(schema: &mut Map<String, Value>, part: Part) -> Vec<(String, Value)> {
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
        match (property.get("default"), part, zero) {
            (Some(_), Part::Spec, _) if !is_list => required.push(name.clone()),
            (Some(_), Part::Status, Some(zero)) => defaults.push((name.clone(), zero)),
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

fn fill(properties: &mut Map<String, Value>, defaults: Vec<(String, Value)>) {
    for (name, value) in defaults {
        if let Some(Value::Object(property)) = properties.get_mut(&name) {
            property.insert("default".to_owned(), value);
        }
    }
}
