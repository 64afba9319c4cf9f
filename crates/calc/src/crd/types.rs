//! Checks the field names of autoscalers and the types of their values against the schema.

use std::{fmt, sync::OnceLock};

use serde::Deserialize as _;
use serde_json::{Map, Number, Value, json};

use super::{
    API_VERSION, DefinitionError,
    definition::{core_schema, custom_schema},
};
use crate::{Quantity, go_text::truncate, suggestions::most_similar};

/// The schema extension of quantities: the value is an integer or a string.
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// The maximum length of a value in a message, in characters.
const MAX_VALUE_LEN: usize = 200;

/// An invalid field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The path of the field: `spec.metrics[0].type`.
    pub field: String,
    /// The problem, often with the value: `must be a list, is 5`.
    pub message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// Finds the values of an autoscaler that have the wrong type: `spec.maxReplicas: must be an
/// integer of 32 bits, is "5"`. A value of the right type may still be invalid:
/// [`crate::validation`] checks that.
pub fn type_errors(object: &Value) -> Result<Vec<FieldError>, DefinitionError> {
    let mut errors = Vec::new();
    find_type_errors(object, full_schema(object)?, "", &mut errors);
    Ok(errors)
}

/// Converts quantities that are fractional numbers to strings: `tolerance: 0.05` becomes
/// `tolerance: "0.05"`. The API server rejects such numbers in the custom API. It accepts them in
/// autoscaling/v2, whose objects are left unchanged.
pub fn quote_fractions(object: &mut Value) -> Result<(), DefinitionError> {
    let schema = full_schema(object)?;
    quote_in(object, schema);
    Ok(())
}

fn quote_in(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                if let Some(schema) = schema.get("properties").and_then(|all| all.get(name)) {
                    quote_in(value, schema);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| quote_in(item, &schema["items"])),
        Value::Number(number) if is_refused_fraction(number, schema) => {
            *value = number.to_string().into();
        }
        _ => {}
    }
}

/// Whether a number is a fraction where the schema permits only an integer or a string.
fn is_refused_fraction(number: &Number, schema: &Value) -> bool {
    let is_int_or_string = schema.get(INT_OR_STRING).is_some_and(|value| value == true);
    is_int_or_string && number.as_f64().is_some_and(|number| number.fract() != 0.0)
}

/// Finds the fields of an object that its API doesn't have, such as misspelled or misplaced names.
/// The API server rejects them if the client requests strict validation, as kubectl does.
pub fn unknown_fields(object: &Value) -> Result<Vec<UnknownField>, DefinitionError> {
    Ok(fields_not_in(full_schema(object)?, object))
}

/// Finds the fields of an object that `schema` doesn't have, like [`unknown_fields`], but for the
/// kinds of other definitions. `schema` is a result of [`with_metadata`].
pub fn fields_not_in(schema: &'static Value, object: &Value) -> Vec<UnknownField> {
    let mut unknown = Vec::new();
    find_unknown(object, schema, "", &mut unknown);
    unknown
}

/// Adds the schema of `metadata` to the schema of a kind. A `CustomResourceDefinition` can't have
/// it.
#[must_use]
pub fn with_metadata(mut schema: Value) -> Value {
    if let Some(metadata) = schema.pointer_mut("/properties/metadata") {
        *metadata = metadata_schema();
    }
    schema
}

/// A field that the API doesn't have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// The path of the field: `spec.maxReplica`.
    pub path: String,
    /// The name of a field of the same parent that is similar and that the object doesn't set.
    pub similar: Option<&'static str>,
}

impl UnknownField {
    /// The path of the field that [`Self::similar`] names.
    pub fn similar_path(&self) -> Option<String> {
        let parent = self.path.rsplit_once('.').map_or("", |(parent, _)| parent);
        self.similar.map(|name| member_path(parent, name))
    }
}

/// The schema of the object's API: the custom API, or else the core API. Includes the schema of
/// `metadata`.
fn full_schema(object: &Value) -> Result<&'static Value, DefinitionError> {
    static CUSTOM: OnceLock<Value> = OnceLock::new();
    static CORE: OnceLock<Value> = OnceLock::new();
    let is_custom = object.get("apiVersion").and_then(Value::as_str) == Some(API_VERSION);
    let cached = if is_custom { &CUSTOM } else { &CORE };
    if let Some(schema) = cached.get() {
        return Ok(schema);
    }
    let mut schema = if is_custom { custom_schema()? } else { core_schema()? };
    if !is_custom {
        permit_fractions(&mut schema);
    }
    Ok(cached.get_or_init(|| with_metadata(schema)))
}

/// Permits fractional numbers as quantities. The core API accepts them, because it decodes
/// quantities without a schema.
fn permit_fractions(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.remove(INT_OR_STRING);
            members.values_mut().for_each(permit_fractions);
        }
        Value::Array(items) => items.iter_mut().for_each(permit_fractions),
        _ => {}
    }
}

/// The schema of `ObjectMeta` (meta/v1). It doesn't cover the entries of `ownerReferences` and
/// `managedFields`.
fn metadata_schema() -> Value {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "object", "additionalProperties": text });
    let integer = json!({ "type": "integer" });
    let any = json!({ "x-kubernetes-preserve-unknown-fields": true });
    json!({ "type": "object", "properties": {
        "name": text, "generateName": text, "namespace": text, "selfLink": text, "uid": text,
        "resourceVersion": text, "generation": integer, "creationTimestamp": text,
        "deletionTimestamp": text, "deletionGracePeriodSeconds": integer, "labels": texts,
        "annotations": texts, "ownerReferences": { "type": "array", "items": any },
        "finalizers": { "type": "array", "items": text },
        "managedFields": { "type": "array", "items": any },
    } })
}

/// The path of a member of the object at `path`, as the API server writes it: a name with special
/// characters is in brackets, as in `metadata.labels[app.kubernetes.io/name]`.
pub fn member_path(path: &str, name: &str) -> String {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-$".contains(&byte);
    match (path, !name.is_empty() && name.bytes().all(is_word)) {
        ("", _) => name.to_owned(),
        (_, true) => format!("{path}.{name}"),
        (_, false) => format!("{path}[{name}]"),
    }
}

fn find_unknown(
    value: &Value,
    schema: &'static Value,
    path: &str,
    unknown: &mut Vec<UnknownField>,
) {
    match value {
        Value::Object(members) => {
            let Some(known) = schema.get("properties").and_then(Value::as_object) else { return };
            for (name, value) in members {
                let inner = member_path(path, name);
                if let Some(schema) = known.get(name) {
                    find_unknown(value, schema, &inner, unknown);
                    continue;
                }
                let names = known.keys().map(String::as_str);
                let absent = names.filter(|name| !members.contains_key(*name));
                let similar = most_similar(name, absent);
                unknown.push(UnknownField { path: inner, similar });
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                find_unknown(item, &schema["items"], &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}

fn find_type_errors(value: &Value, schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if schema.get("x-kubernetes-preserve-unknown-fields").is_some() {
        return;
    }
    let expected = schema.get("type").and_then(Value::as_str);
    let is_fraction = matches!(value, Value::Number(number) if is_refused_fraction(number, schema));
    let fits = match (expected, value) {
        (Some("object"), Value::Object(members)) => {
            find_member_type_errors(members, schema, path, errors);
            true
        }
        (Some("array"), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                find_type_errors(item, &schema["items"], &format!("{path}[{index}]"), errors);
            }
            true
        }
        (Some("integer"), Value::Number(number)) => is_integer_of_type(number, schema),
        (Some("string"), Value::String(_)) | (Some("boolean"), Value::Bool(_)) => true,
        (None, value) => !is_fraction && Quantity::deserialize(value).is_ok(),
        _ => false,
    };
    if !fits {
        let expected = match expected {
            Some("object") => "an object",
            Some("array") => "a list",
            Some("integer") if is_32_bits(schema) => "an integer of 32 bits",
            Some("integer") => "an integer",
            Some("boolean") => "true or false",
            Some(_) => "a string",
            None if is_fraction => "an integer or a text in quotes",
            None => "a quantity such as 100, 500m or 1Gi",
        };
        let value = truncate(value.to_string(), MAX_VALUE_LEN);
        let message = format!("must be {expected}, is {value}");
        errors.push(FieldError { field: path.to_owned(), message });
    }
}

/// Whether a number is an integer that fits its type. The bounds of the field are left to
/// [`crate::validation`], which has better messages.
fn is_integer_of_type(number: &Number, schema: &Value) -> bool {
    number.as_i64().is_some_and(|number| !is_32_bits(schema) || i32::try_from(number).is_ok())
}

fn is_32_bits(schema: &Value) -> bool {
    schema.get("format").is_some_and(|format| format == "int32")
}

fn find_member_type_errors(
    members: &Map<String, Value>,
    schema: &Value,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
        let known = schema.get("properties").and_then(|all| all.get(name));
        if let Some(schema) = known.or_else(|| schema.get("additionalProperties")) {
            find_type_errors(value, schema, &member_path(path, name), errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wrong_types_are_reported_with_their_fields() {
        let object = json!({
            "metadata": { "name": 1, "annotations": { "a.b/c": true } },
            "spec": {
                "minReplicas": null,
                "maxReplicas": "5",
                "scaleTargetRef": [],
                "newer": {},
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": { "name": 7, "target": { "averageUtilization": 0.5 } },
                    },
                    "cpu",
                    {
                        "type": "External",
                        "external": {
                            "target": { "value": 0.5, "averageValue": "5 0" },
                            "metric": { "selector": { "matchLabels": { "queue": 3 } } },
                        },
                    },
                ],
                "behavior": { "scaleUp": { "stabilizationWindowSeconds": 5_000_000_000_i64 } },
            },
        });
        let errors = type_errors(&object).unwrap();
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "metadata.annotations[a.b/c]",
                "metadata.name",
                "spec.behavior.scaleUp.stabilizationWindowSeconds",
                "spec.maxReplicas",
                "spec.metrics[0].resource.name",
                "spec.metrics[0].resource.target.averageUtilization",
                "spec.metrics[1]",
                "spec.metrics[2].external.metric.selector.matchLabels.queue",
                "spec.metrics[2].external.target.averageValue",
                "spec.scaleTargetRef",
            ]
        );
        assert_eq!(
            errors[3].to_string(),
            "spec.maxReplicas: must be an integer of 32 bits, is \"5\""
        );
        assert_eq!(
            errors[8].to_string(),
            "spec.metrics[2].external.target.averageValue: must be a quantity such as 100, 500m \
             or 1Gi, is \"5 0\""
        );
    }

    #[test]
    fn long_value_of_a_wrong_type_is_truncated() {
        let object = json!({ "spec": { "maxReplicas": "5".repeat(10_000) } });
        let errors = type_errors(&object).unwrap();
        let [error] = errors.as_slice() else { panic!("{errors:?}") };
        assert!(error.message.starts_with("must be an integer of 32 bits, is \"555"));
        assert!(error.message.len() < 300, "{error}");
    }

    #[test]
    fn unknown_fields_are_found_at_any_depth_with_suggestions() {
        let object = json!({
            "metadata": { "labels": { "any": "name" }, "label": {} },
            "specs": {},
            "spec": {
                "maxReplica": 5,
                "metrics": [
                    { "type": "Pods", "pods": { "metric": { "name": "m", "selector": {
                        "matchLabels": { "any": "name" },
                    } } } },
                    { "type": "Resource", "resource": { "target": { "utilization": 50 } } },
                ],
                "behavior": { "scaleDown": { "stabilisationWindowSeconds": 60 } },
            },
        });
        let unknown = unknown_fields(&object).unwrap();
        let found: Vec<_> = unknown.iter().map(|field| (&*field.path, field.similar)).collect();
        assert_eq!(
            found,
            [
                ("metadata.label", None),
                (
                    "spec.behavior.scaleDown.stabilisationWindowSeconds",
                    Some("stabilizationWindowSeconds")
                ),
                ("spec.maxReplica", Some("maxReplicas")),
                ("spec.metrics[1].resource.target.utilization", None),
                ("specs", None),
            ],
            "the object has labels and a spec"
        );
        assert_eq!(unknown[2].similar_path().unwrap(), "spec.maxReplicas");
    }

    fn object_with_fractions(api_version: &str) -> Value {
        let target = |value: Value| json!({ "pods": { "target": { "averageValue": value } } });
        json!({
            "apiVersion": api_version,
            "spec": {
                "metrics": [target(json!(1.5)), target(json!(2.0)), target(json!("1.5"))],
                "behavior": { "scaleUp": { "tolerance": 0.05 } },
            },
        })
    }

    #[test]
    fn fractions_are_rejected_until_quoted_in_the_custom_api() {
        let mut object = object_with_fractions(API_VERSION);
        let errors = type_errors(&object).unwrap();
        assert_eq!(
            errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "spec.behavior.scaleUp.tolerance: must be an integer or a text in quotes, is 0.05",
                "spec.metrics[0].pods.target.averageValue: must be an integer or a text in \
                 quotes, is 1.5",
            ]
        );
        quote_fractions(&mut object).unwrap();
        assert_eq!(type_errors(&object).unwrap(), []);
        assert_eq!(object["spec"]["behavior"]["scaleUp"]["tolerance"], "0.05");
        assert_eq!(object["spec"]["metrics"][1]["pods"]["target"]["averageValue"], 2.0);
    }

    #[test]
    fn fractions_are_accepted_and_not_quoted_in_the_core_api() {
        let mut object = object_with_fractions("autoscaling/v2");
        assert_eq!(type_errors(&object).unwrap(), []);
        quote_fractions(&mut object).unwrap();
        assert_eq!(object, object_with_fractions("autoscaling/v2"));
    }

    #[test]
    fn invalid_values_of_the_right_type_have_no_errors() {
        let object = json!({
            "metadata": {},
            "spec": { "maxReplicas": -5, "metrics": [{ "type": "Odd" }] },
        });
        assert_eq!(type_errors(&object).unwrap(), []);
    }
}
