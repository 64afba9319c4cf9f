//! Checks the types of an object's values, and the names of its fields.

use serde_json::{Map, Value};

use crate::{DefinitionError, definition::schema};

/// The values of an object that have the wrong type, each with its field: `spec.maxReplicas: must
/// be an integer of 32 bits, is "5"`. Fields that the schema doesn't have, and `metadata`, are not
/// checked. Whether values are valid is checked by [`hpa_calc::validation`].
pub fn type_errors(object: &Value) -> Result<Vec<String>, DefinitionError> {
    let mut errors = Vec::new();
    check(object, &schema()?, "", &mut errors);
    Ok(errors)
}

/// The fields of `spec` that the schema doesn't have: a misspelled or misplaced name. The API server
/// drops them, and kubectl refuses them.
pub fn unknown_fields(object: &Value) -> Result<Vec<String>, DefinitionError> {
    let mut unknown = Vec::new();
    if let (Some(spec), Some(schema)) =
        (object.get("spec"), schema()?.pointer("/properties/spec").cloned())
    {
        find_unknown(spec, &schema, "spec", &mut unknown);
    }
    Ok(unknown)
}

fn find_unknown(value: &Value, schema: &Value, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            let Some(known) = schema.get("properties") else { return };
            for (name, value) in members {
                let inner = format!("{path}.{name}");
                match known.get(name) {
                    Some(schema) => find_unknown(value, schema, &inner, unknown),
                    None => unknown.push(inner),
                }
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

fn check(value: &Value, schema: &Value, path: &str, errors: &mut Vec<String>) {
    let expected = schema.get("type").and_then(Value::as_str);
    let fits = match (expected, value) {
        (Some("object"), Value::Object(members)) => {
            check_members(members, schema, path, errors);
            true
        }
        (Some("array"), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                check(item, &schema["items"], &format!("{path}[{index}]"), errors);
            }
            true
        }
        (Some("integer"), Value::Number(number)) => fits_bounds(number, schema),
        (Some("string"), Value::String(_)) | (None, Value::String(_) | Value::Number(_)) => true,
        _ => false,
    };
    if !fits {
        let expected = match expected {
            Some("object") => "an object",
            Some("array") => "a list",
            Some("integer") => "an integer of 32 bits",
            Some(_) => "a string",
            None => "a quantity: a number or a string",
        };
        errors.push(format!("{path}: must be {expected}, is {value}"));
    }
}

/// Whether an integer fits its type. Its range is checked by validation, which has better messages.
fn fits_bounds(number: &serde_json::Number, schema: &Value) -> bool {
    let is_32_bits = schema.get("format").is_some_and(|format| format == "int32");
    number.as_i64().is_some_and(|number| !is_32_bits || i32::try_from(number).is_ok())
}

fn check_members(
    members: &Map<String, Value>,
    schema: &Value,
    path: &str,
    errors: &mut Vec<String>,
) {
    for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
        let known = schema.get("properties").and_then(|all| all.get(name));
        let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if let Some(schema) = known.or_else(|| schema.get("additionalProperties")) {
            check(value, schema, &inner, errors);
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
            "metadata": { "name": 1 },
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
                        "external": { "target": { "value": 0.5, "averageValue": true,
                    },
                        "metric": { "selector": { "matchLabels": { "queue": 3 } } } } },
                ],
                "behavior": { "scaleUp": { "stabilizationWindowSeconds": 5_000_000_000_i64 } },
            },
        });
        let errors = type_errors(&object).unwrap();
        let fields: Vec<&str> =
            errors.iter().filter_map(|error| error.split(": ").next()).collect();
        assert_eq!(
            fields,
            [
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
        assert_eq!(errors[1], "spec.maxReplicas: must be an integer of 32 bits, is \"5\"");
    }

    #[test]
    fn unknown_fields_are_found_at_any_depth() {
        let object = json!({
            "metadata": { "labels": { "any": "name" } },
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
        assert_eq!(
            unknown_fields(&object).unwrap(),
            [
                "spec.behavior.scaleDown.stabilisationWindowSeconds",
                "spec.maxReplica",
                "spec.metrics[1].resource.target.utilization",
            ]
        );
    }

    #[test]
    fn valid_types_have_no_errors() {
        let object = json!({
            "metadata": {},
            "spec": { "maxReplicas": -5, "metrics": [{ "type": "Odd" }] },
        });
        assert_eq!(type_errors(&object).unwrap(), Vec::<String>::new());
    }
}
