//! The manifest of the chart is what the generator writes.

#![allow(clippy::expect_used, reason = "a test may fail")]

use serde_json::Value;

const SHIPPED: &str = include_str!("../../../charts/hpa-controller/files/crd.yaml");

/// `cargo run -p hpa -- crd > charts/hpa-controller/files/crd.yaml` writes it anew.
#[test]
fn chart_ships_what_is_generated() {
    let shipped: Value = serde_saphyr::from_str(SHIPPED).expect("YAML");
    assert_eq!(shipped, hpa_crd::definition().expect("a definition"));
    assert_eq!(SHIPPED, hpa_crd::manifest().expect("a manifest"));
}

/// What the API server asks of a structural schema (apiextensions.k8s.io/v1): a type at every place, no references, no
/// `null`, and of the logical forms only the one that goes with an integer or string.
#[test]
fn schema_is_structural() {
    let definition = hpa_crd::definition().expect("a definition");
    let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema").expect("a schema");
    let mut seen = 0;
    check(schema, "", &mut seen);
    assert!(seen > 150, "only {seen} schemas");
}

fn check(schema: &Value, path: &str, seen: &mut usize) {
    *seen += 1;
    let is_int_or_string =
        schema.get("x-kubernetes-int-or-string").is_some_and(|value| value == true);
    let kind = schema.get("type").and_then(Value::as_str);
    assert_eq!(kind.is_some(), !is_int_or_string, "{path}: type {kind:?}");
    for form in
        ["$ref", "$defs", "definitions", "oneOf", "allOf", "not", "nullable", "title", "const"]
    {
        assert_eq!(schema.get(form), None, "{path}");
    }
    assert_eq!(schema.get("anyOf").is_some(), is_int_or_string, "{path}");
    assert!(
        schema.get("properties").is_none() || schema.get("additionalProperties").is_none(),
        "{path}"
    );
    let members = schema.get("properties").and_then(Value::as_object);
    for (name, member) in members.into_iter().flatten() {
        check(member, &format!("{path}.{name}"), seen);
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(inner) {
            check(inner, &format!("{path}[]"), seen);
        }
    }
    assert_eq!(schema.get("items").is_some(), kind == Some("array"), "{path}");
}
