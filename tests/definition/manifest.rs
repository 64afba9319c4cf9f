//! Checks that the chart ships the generated manifest, and that its schema is structural.

use serde_json::Value;

const SHIPPED: &str = include_str!("../../charts/hpa-controller/files/crd.yaml");

/// `cargo run -p hpa -- crd > charts/hpa-controller/files/crd.yaml` updates the manifest.
#[test]
fn chart_ships_the_generated_manifest() {
    let shipped: Value = serde_saphyr::from_str(SHIPPED).expect("YAML");
    assert_eq!(shipped, hpa_calc::crd::definition().expect("a definition"));
    assert_eq!(SHIPPED, hpa_calc::crd::manifest().expect("a manifest"));
}

/// The API server's rules for structural schemas (apiextensions.k8s.io/v1): a type for every value,
/// no references, no `null`, and no logical operators except for integer-or-string.
#[test]
fn schema_is_structural() {
    let mut checked = 0;
    assert_structural(&crate::schema(), "", &mut checked);
    assert!(checked > 150, "only {checked} schemas");
}

fn assert_structural(schema: &Value, path: &str, checked: &mut usize) {
    *checked += 1;
    let is_int_or_string =
        schema.get("x-kubernetes-int-or-string").is_some_and(|value| value == true);
    let kind = schema.get("type").and_then(Value::as_str);
    assert_eq!(kind.is_some(), !is_int_or_string, "{path}: type {kind:?}");
    for forbidden in
        ["$ref", "$defs", "definitions", "oneOf", "allOf", "not", "nullable", "title", "const"]
    {
        assert_eq!(schema.get(forbidden), None, "{path}");
    }
    assert_eq!(schema.get("anyOf").is_some(), is_int_or_string, "{path}");
    assert!(
        schema.get("properties").is_none() || schema.get("additionalProperties").is_none(),
        "{path}"
    );
    let members = schema.get("properties").and_then(Value::as_object);
    for (name, member) in members.into_iter().flatten() {
        assert_structural(member, &format!("{path}.{name}"), checked);
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(inner) {
            assert_structural(inner, &format!("{path}[]"), checked);
        }
    }
    assert_eq!(schema.get("items").is_some(), kind == Some("array"), "{path}");
}
