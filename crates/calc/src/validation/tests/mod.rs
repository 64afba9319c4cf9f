mod metric;
mod update;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::go_text::Quoted;

/// A valid spec, in which `changes` replaces members.
fn spec(changes: Value) -> HorizontalPodAutoscalerSpec {
    let mut spec = json!({
        "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
        "minReplicas": 1,
        "maxReplicas": 10,
        "metrics": [external(&json!({ "type": "Value", "value": "1" }))],
    });
    let Value::Object(changes) = changes else { panic!("an object is expected") };
    spec.as_object_mut().unwrap().extend(changes);
    serde_json::from_value(spec).unwrap()
}

fn external(target: &Value) -> Value {
    json!({ "type": "External", "external": { "metric": { "name": "m" }, "target": target } })
}

/// The causes as `reason field: message`.
fn causes_of(changes: Value, options: ValidationOptions<'_>) -> Vec<String> {
    texts(&validate(&spec(changes), &options))
}

fn texts(causes: &[Cause]) -> Vec<String> {
    let text = |cause: &Cause| {
        format!("{} {cause}", cause.reason.as_str().trim_start_matches("FieldValue"))
    };
    causes.iter().map(text).collect()
}

fn causes(changes: Value) -> Vec<String> {
    causes_of(changes, ValidationOptions::default())
}

/// The texts, without the first occurrence of `part` in each.
fn without(texts: &[String], part: &str) -> Vec<String> {
    texts.iter().map(|text| text.replacen(part, "", 1)).collect()
}

#[rstest]
#[case::at_least(0, 1, true, &[])]
#[case::below_least(
    -1,
    1,
    true,
    &["Invalid spec.minReplicas: Invalid value: -1: must be greater than or equal to 0"]
)]
#[case::at_least_without_gate(1, 1, false, &[])]
#[case::below_least_without_gate(0, 1, false,
    &["Invalid spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"])]
#[case::lowest(i32::MIN, 1, true,
    &["Invalid spec.minReplicas: Invalid value: -2147483648: must be greater than or equal to 0"])]
#[case::max_at_one(1, 1, true, &[])]
#[case::max_at_zero(
    0,
    0,
    true,
    &["Required spec.maxReplicas: Required value: must be set and greater than 0"]
)]
#[case::max_negative(-1, -1, true, &[
    "Invalid spec.minReplicas: Invalid value: -1: must be greater than or equal to 0",
    "Invalid spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1",
])]
#[case::max_at_min(5, 5, true, &[])]
#[case::max_just_under_min(5, 4, true,
    &["Invalid spec.maxReplicas: Invalid value: 4: must be greater than or equal to \
        `minReplicas`"])]
#[case::max_zero_under_min(1, 0, true, &[
    "Required spec.maxReplicas: Required value: must be set and greater than 0",
    "Invalid spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
])]
#[case::highest(i32::MAX, i32::MAX, true, &[])]
fn violations_of_bounds_are_reported(
    #[case] min: i32,
    #[case] max: i32,
    #[case] scale_to_zero: bool,
    #[case] expected: &[&str],
) {
    let options = ValidationOptions { scale_to_zero, old: None };
    assert_eq!(causes_of(json!({ "minReplicas": min, "maxReplicas": max }), options), expected);
}

#[test]
fn unset_min_replicas_is_not_compared() {
    assert_eq!(causes(json!({ "minReplicas": null, "maxReplicas": 1 })), [""; 0]);
}

#[rstest]
#[case::grouped("Deployment", "web", "apps/v1", &[])]
#[case::kind_and_name_empty(
    "",
    "",
    "a/v1",
    &["Required kind: Required value", "Required name: Required value"]
)]
#[case::dot(".", "web", "a/v1", &[r#"Invalid kind: Invalid value: ".": may not be '.'"#])]
#[case::two_dots("K", "..", "a/v1", &[r#"Invalid name: Invalid value: "..": may not be '..'"#])]
#[case::three_dots("K", "...", "a/v1", &[])]
#[case::slash_and_percent("K", "a%/", "a/v1", &[
    r#"Invalid name: Invalid value: "a%/": may not contain '/'"#,
    r#"Invalid name: Invalid value: "a%/": may not contain '%'"#,
])]
#[case::quoted(
    "K",
    "\"\n/",
    "a/v1",
    &[r#"Invalid name: Invalid value: "\"\n/": may not contain '/'"#]
)]
#[case::no_api_version(
    "K",
    "n",
    "",
    &[r#"Invalid apiVersion: Invalid value: "": apiVersion must specify API group"#]
)]
#[case::slash_alone(
    "K",
    "n",
    "/",
    &[r#"Invalid apiVersion: Invalid value: "/": apiVersion must specify API group"#]
)]
#[case::no_group(
    "K",
    "n",
    "v1",
    &[r#"Invalid apiVersion: Invalid value: "v1": apiVersion must specify API group"#]
)]
#[case::empty_group(
    "K",
    "n",
    "/v1",
    &[r#"Invalid apiVersion: Invalid value: "/v1": apiVersion must specify API group"#]
)]
#[case::empty_version("K", "n", "a/", &[])]
#[case::two_slashes("K", "n", "a/b/c",
    &[r#"Invalid apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c"#])]
#[case::core_kind_needs_no_group("ReplicationController", "n", "v1", &[])]
#[case::core_kind_needs_no_api_version("ReplicationController", "n", "", &[])]
#[case::core_kind_with_two_slashes("ReplicationController", "n", "//",
    &[r#"Invalid apiVersion: Invalid value: "//": unexpected GroupVersion string: //"#])]
#[case::kind_is_case_sensitive("replicationcontroller", "n", "v1",
    &[r#"Invalid apiVersion: Invalid value: "v1": apiVersion must specify API group"#])]
fn violations_of_the_scale_target_are_reported(
    #[case] kind: &str,
    #[case] name: &str,
    #[case] api_version: &str,
    #[case] expected: &[&str],
) {
    let target = json!({ "kind": kind, "name": name, "apiVersion": api_version });
    let found = causes(json!({ "scaleTargetRef": target }));
    assert_eq!(without(&found, "spec.scaleTargetRef."), expected);
}

const NO_POLICY: &str = "Required policies: Required value: must specify at least one Policy";

#[rstest]
#[case::window_at_zero(json!({ "stabilizationWindowSeconds": 0 }), &[])]
#[case::window_below_zero(json!({ "stabilizationWindowSeconds": -1 }),
    &["Invalid stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to \
        zero"])]
#[case::window_at_limit(json!({ "stabilizationWindowSeconds": 3600 }), &[])]
#[case::window_over_limit(json!({ "stabilizationWindowSeconds": 3601 }),
    &["Invalid stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to \
        3600"])]
#[case::select_policy_empty(json!({ "selectPolicy": "" }),
    &["NotSupported selectPolicy: Unsupported value: \"\": supported values: \"Disabled\", \
        \"Max\", \"Min\""])]
#[case::no_policy(json!({ "policies": [] }), &[NO_POLICY])]
#[case::policies_not_defaulted(json!({ "policies": null }),
    &[NO_POLICY])]
#[case::smallest_policy(
    json!({ "policies": [{ "type": "Pods", "value": 1, "periodSeconds": 1 }] }),
    &[]
)]
#[case::largest_policy(
    json!({ "policies": [{ "type": "Percent", "value": i32::MAX, "periodSeconds": 1800 }] }),
    &[]
)]
#[case::all_fields_of_a_policy_invalid(json!({ "policies": [{ "type": "pods" }] }), &[
    "NotSupported policies[0].type: Unsupported value: \"pods\": supported values: \"Percent\", \
        \"Pods\"",
    "Invalid policies[0].value: Invalid value: 0: must be greater than zero",
    "Invalid policies[0].periodSeconds: Invalid value: 0: must be greater than zero",
])]
#[case::period_over_limit(json!({
    "policies": [{ "type": "Pods", "value": 1, "periodSeconds": 1801 }],
}),
    &["Invalid policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to \
        1800"])]
#[case::tolerance_zero(json!({ "tolerance": "0" }), &[])]
#[case::tolerance_below_zero(json!({ "tolerance": "-1n" }),
    &[r#"Invalid tolerance: Invalid value: "-1n": must be greater than or equal to 0"#])]
#[case::tolerance_above_one(json!({ "tolerance": "2" }), &[])]
fn violations_of_scaling_rules_are_reported(
    #[values("scaleUp", "scaleDown")] direction: &str,
    #[case] changes: Value,
    #[case] expected: &[&str],
) {
    let mut rules = json!({ "policies": [{ "type": "Pods", "value": 1, "periodSeconds": 1 }] });
    rules.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    let found = causes(json!({ "behavior": { direction: rules } }));
    let path = format!("spec.behavior.{direction}.");
    assert_eq!(without(&found, &path), expected);
}

#[test]
fn causes_come_in_the_order_of_the_fields() {
    let rules = json!({ "policies": [] });
    let found = validate(
        &spec(json!({ "scaleTargetRef": {}, "minReplicas": -1, "maxReplicas": -2, "metrics": [{}],
            "behavior": { "scaleDown": rules, "scaleUp": rules } })),
        &ValidationOptions::default(),
    );
    let mut fields: Vec<&str> = found.iter().map(|cause| cause.field.as_str()).collect();
    fields.dedup();
    let expected = [
        "spec.minReplicas",
        "spec.maxReplicas",
        "spec.scaleTargetRef.kind",
        "spec.scaleTargetRef.name",
        "spec.scaleTargetRef.apiVersion",
        "spec.metrics[0].type",
        "spec.behavior.scaleUp.policies",
        "spec.behavior.scaleDown.policies",
    ];
    assert_eq!(fields, expected);
}

const NO_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
    characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
    'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

#[rstest]
#[case::one_byte("a", &[])]
#[case::digits_hyphen_dot("0-1.b", &[])]
#[case::label_longer_than_63(&"a".repeat(64), &[])]
#[case::at_limit(&"a".repeat(253), &[])]
#[case::over_limit(&"a".repeat(254), &["must be no more than 253 characters"])]
#[case::over_limit_and_malformed(
    &"A".repeat(254),
    &["must be no more than 253 characters", NO_SUBDOMAIN]
)]
#[case::upper_case("Web", &[NO_SUBDOMAIN])]
#[case::hyphen_first("-a", &[NO_SUBDOMAIN])]
#[case::dot_last("a.", &[NO_SUBDOMAIN])]
#[case::not_ascii("ä", &[NO_SUBDOMAIN])]
#[case::line_break_last("a\n", &[NO_SUBDOMAIN])]
fn object_name_must_be_a_dns_subdomain(#[case] name: &str, #[case] expected: &[&str]) {
    let prefix = format!("Invalid metadata.name: Invalid value: {}: ", Quoted(name));
    assert_eq!(without(&texts(&validate_name(name)), &prefix), expected);
}

#[test]
fn object_name_is_required() {
    let expected = "Required metadata.name: Required value: name or generateName is required";
    assert_eq!(texts(&validate_name("")), [expected]);
}

#[rstest]
#[case::valid(
    json!({ "labels": { "example.com/a": "", "b": "B_1" }, "annotations": { "A.b/C": "ä" } }),
    ""
)]
#[case::prefix(
    json!({ "annotations": { "queue_depth/x": "" } }),
    "Invalid metadata.annotations[queue_depth/x]: Invalid value: \"queue_depth/x\": prefix part a \
     lowercase RFC 1123 subdomain"
)]
#[case::upper_case_prefix_of_a_label(
    json!({ "labels": { "A/b": "" } }),
    "Invalid metadata.labels[A/b]: Invalid value: \"A/b\": prefix part a lowercase"
)]
#[case::label_key(
    json!({ "labels": { "a b": "" } }),
    "Invalid metadata.labels[a b]: Invalid value: \"a b\": name part must consist of"
)]
#[case::label_value(
    json!({ "labels": { "a": "c d" } }),
    "Invalid metadata.labels[a]: Invalid value: \"c d\": a valid label must be an empty string or"
)]
#[case::long_label_value(
    json!({ "labels": { "a": "v".repeat(64) } }),
    &format!("Invalid metadata.labels[a]: Invalid value: {:?}: must be no more", "v".repeat(64))
)]
#[case::at_limit(json!({ "annotations": { "a": "v".repeat((256 << 10) - 1) } }), "")]
#[case::over_limit(
    json!({ "annotations": { "a": "v".repeat(256 << 10) } }),
    "TooLong metadata.annotations: Too long: may not be more than 262144 bytes"
)]
fn labels_and_annotations_are_checked(#[case] metadata: Value, #[case] expected: &str) {
    let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
    let found = texts(&validate_labels_and_annotations(&metadata));
    assert_eq!(found.len(), usize::from(!expected.is_empty()), "{found:?}");
    assert!(found.iter().all(|text| text.starts_with(expected)), "{found:?}");
}

#[rstest]
#[case::none(&[], r#"K.g "a\"b" is invalid"#)]
#[case::one(&["x"], r#"K.g "a\"b" is invalid: f: x"#)]
#[case::one_twice(&["x", "x"], r#"K.g "a\"b" is invalid: f: x"#)]
#[case::two(&["x", "y"], r#"K.g "a\"b" is invalid: [f: x, f: y]"#)]
#[case::two_one_of_them_twice(&["x", "y", "x"], r#"K.g "a\"b" is invalid: [f: x, f: y]"#)]
fn message_has_every_cause_once(#[case] messages: &[&str], #[case] expected: &str) {
    let cause = |message: &&str| Cause {
        reason: CauseReason::Invalid,
        message: (*message).to_owned(),
        field: "f".to_owned(),
    };
    let causes: Vec<Cause> = messages.iter().map(cause).collect();
    assert_eq!(invalid_message("K.g", "a\"b", &causes), expected);
}
