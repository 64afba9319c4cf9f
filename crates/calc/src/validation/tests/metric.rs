use rstest::rstest;
use serde_json::{Value, json};

use super::{super::*, causes, external, spec, texts, without};

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
    or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
    regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and \
    must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
    '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const NOT_STANDARD: &str = "must be a standard resource type or fully qualified";
const NOT_FOR_CONTAINERS: &str = "must be a standard resource for containers";
const NOT_EXTENDED: &str = "doesn't follow extended resource name standard";

fn utilization() -> Value {
    json!({ "type": "Utilization", "averageUtilization": 1 })
}

#[rstest]
#[case::object_at_zero(0, "Object", true)]
#[case::external_at_zero(0, "External", true)]
#[case::resource_at_one(1, "Resource", true)]
#[case::resource_at_zero(0, "Resource", false)]
#[case::pods_at_zero(0, "Pods", false)]
#[case::container_resource_at_zero(0, "ContainerResource", false)]
fn zero_min_replicas_needs_an_object_or_external_metric(
    #[case] min: i32,
    #[case] source_type: &str,
    #[case] permitted: bool,
) {
    let found = causes(json!({ "minReplicas": min, "metrics": [{ "type": source_type }] }));
    let text = "Forbidden spec.metrics: Forbidden: must specify at least one Object or External \
        metric to support scaling to zero replicas";
    assert_eq!(!found.contains(&text.to_owned()), permitted, "{found:?}");
}

const NO_TYPE: &str = "Required type: Required value: must specify a metric source type";
const ANY_TYPE: &str =
    "supported values: \"ContainerResource\", \"External\", \"Object\", \"Pods\", \"Resource\"";

#[rstest]
#[case::empty("", &[NO_TYPE], "\"\"")]
#[case::not_known("Bogus", &[], "\"Bogus\"")]
#[case::case_differs("pods", &[], "\"pods\"")]
#[case::printed_as_json("<", &[], "\"\\u003c\"")]
fn unknown_metric_type_is_reported_twice(
    #[case] source_type: &str,
    #[case] before: &[&str],
    #[case] printed: &str,
) {
    let found = causes(json!({ "metrics": [{ "type": source_type }] }));
    let not_supported = format!("NotSupported type: Unsupported value: {printed}: {ANY_TYPE}");
    let expected = [before, &[not_supported.as_str(), not_supported.as_str()]].concat();
    assert_eq!(without(&found, "spec.metrics[0]."), expected);
}

#[rstest]
#[case("Object", "object")]
#[case("Pods", "pods")]
#[case("Resource", "resource")]
#[case("External", "external")]
#[case("ContainerResource", "containerResource")]
fn missing_member_of_a_metric_is_required(#[case] source_type: &str, #[case] member: &str) {
    let found = causes(json!({ "metrics": [{ "type": source_type }] }));
    let text = "Required value: must populate information for the given metric source";
    assert_eq!(found, [format!("Required spec.metrics[0].{member}: {text}")]);
}

#[rstest]
#[case::member_of_the_type("External", &["external"], &[])]
#[case::member_of_another_type("Pods", &["external"],
    &["Required spec.metrics[0].pods: Required value: must populate information for the given \
        metric source"])]
#[case::one_too_many("External", &["external", "pods"],
    &["Forbidden spec.metrics[0].pods: Forbidden: must populate the given metric source only"])]
#[case::two_members_of_other_types("Resource", &["external", "pods"], &[
    "Required spec.metrics[0].resource: Required value: must populate information for the given \
        metric source",
    "Forbidden spec.metrics[0].external: Forbidden: must populate the given metric source only",
    "Forbidden spec.metrics[0].pods: Forbidden: must populate the given metric source only",
])]
fn only_the_member_of_the_type_may_be_set(
    #[case] source_type: &str,
    #[case] members: &[&str],
    #[case] expected: &[&str],
) {
    let mut metric = json!({ "type": source_type });
    for member in members {
        // Valid in an External metric. For other types, the target isn't validated.
        metric[member] =
            json!({ "metric": { "name": "m" }, "target": { "type": "Value", "value": "1" } });
    }
    assert_eq!(causes(json!({ "metrics": [metric] })), expected);
}

const RAW_AND_UTILIZATION: &str = "Forbidden averageValue: Forbidden: may not set both a target \
    raw value and a target utilization";
const VALUE_AND_AVERAGE: &str =
    "Forbidden value: Forbidden: may not set both a target value for metric and a per-pod target";

#[rstest]
#[case::object_none("object", json!({}),
    &["Required averageValue: Required value: must set either a target value or averageValue"])]
#[case::object_value("object", json!({ "value": "1" }), &[])]
#[case::object_both("object", json!({ "value": "1", "averageValue": "1" }), &[])]
#[case::external_none("external", json!({}),
    &["Required averageValue: Required value: must set either a target value for metric or a \
        per-pod target"])]
#[case::external_average("external", json!({ "averageValue": "1" }), &[])]
#[case::external_both("external", json!({ "value": "1", "averageValue": "1" }),
    &[VALUE_AND_AVERAGE])]
#[case::pods_none("pods", json!({ "value": "1" }),
    &["Required averageValue: Required value: must specify a positive target averageValue"])]
#[case::pods_average("pods", json!({ "averageValue": "1" }), &[])]
#[case::resource_none("resource", json!({ "value": "1" }),
    &["Required averageUtilization: Required value: must set either a target raw value or a target \
        utilization"])]
#[case::resource_both("resource", json!({ "averageUtilization": 1, "averageValue": "1" }),
    &[RAW_AND_UTILIZATION])]
#[case::container_none("containerResource", json!({}),
    &["Required averageUtilization: Required value: must set either a target raw value or a target \
        utilization"])]
#[case::container_both("containerResource", json!({ "averageUtilization": 1, "averageValue": "1" }),
    &[RAW_AND_UTILIZATION])]
#[case::smallest_value("external", json!({ "value": "1n" }), &[])]
#[case::zero_value(
    "external",
    json!({ "value": "0" }),
    &[r#"Invalid value: Invalid value: "0": must be positive"#]
)]
#[case::negative_average("external", json!({ "averageValue": "-1n" }),
    &[r#"Invalid averageValue: Invalid value: "-1n": must be positive"#])]
#[case::printed_canonically("external", json!({ "averageValue": "-0.5" }),
    &[r#"Invalid averageValue: Invalid value: "-500m": must be positive"#])]
#[case::utilization_at_one("resource", json!({ "averageUtilization": 1 }), &[])]
#[case::utilization_at_zero("resource", json!({ "averageUtilization": 0 }),
    &["Invalid averageUtilization: Invalid value: 0: must be greater than 0"])]
#[case::type_empty("external", json!({ "type": "", "value": "1" }), &[
    "Required type: Required value: must specify a metric target type",
    r#"Invalid type: Invalid value: "": must be either Utilization, Value, or AverageValue"#,
])]
#[case::type_not_known("external", json!({ "type": "value&", "value": "1" }),
    &["Invalid type: Invalid value: \"value\\u0026\": must be either Utilization, Value, or \
        AverageValue"])]
#[case::type_of_another_member("external", json!({ "type": "Utilization", "value": "1" }), &[])]
fn violations_of_metric_targets_are_reported(
    #[case] member: &str,
    #[case] mut target: Value,
    #[case] expected: &[&str],
) {
    target.as_object_mut().unwrap().entry("type").or_insert("Value".into());
    let source = json!({ "name": "cpu", "container": "main", "metric": { "name": "m" },
        "describedObject": { "kind": "Service", "name": "main" }, "target": target });
    let source_type = format!("{}{}", member[..1].to_uppercase(), &member[1..]);
    let found = causes(json!({ "metrics": [{ "type": source_type, member: source }] }));
    let path = format!("spec.metrics[0].{member}.target.");
    assert_eq!(without(&found, &path), expected);
}

#[rstest]
#[case::empty("", &["Required: Required value: must specify a metric name"])]
#[case::one_byte("m", &[])]
#[case::two_dots("..", &["Invalid: Invalid value: \"..\": may not be '..'"])]
#[case::slash("a/b", &["Invalid: Invalid value: \"a/b\": may not contain '/'"])]
fn metric_name_must_be_a_path_segment(#[case] name: &str, #[case] expected: &[&str]) {
    let source =
        json!({ "metric": { "name": name }, "target": { "type": "Value", "averageValue": "1" } });
    let found = causes(json!({ "metrics": [{ "type": "Pods", "pods": source }] }));
    assert_eq!(without(&found, " spec.metrics[0].pods.metric.name"), expected);
}

#[test]
fn second_metric_has_its_own_index() {
    let metrics = json!([external(&utilization()), external(&utilization())]);
    let fields: Vec<String> =
        validate(&spec(json!({ "metrics": metrics })), &ValidationOptions::default())
            .into_iter()
            .map(|cause| cause.field)
            .collect();
    let expected = [
        "spec.metrics[0].external.target.averageValue",
        "spec.metrics[1].external.target.averageValue",
    ];
    assert_eq!(fields, expected);
}

#[test]
fn resource_metric_accepts_any_non_empty_name() {
    let of = |name: &str| {
        json!({
            "type": "Resource",
            "resource": { "name": name, "target": utilization() },
        })
    };
    let expected =
        "Required spec.metrics[0].resource.name: Required value: must specify a resource name";
    assert_eq!(causes(json!({ "metrics": [of("")] })), [expected]);
    assert_eq!(causes(json!({ "metrics": [of("../%")] })), [""; 0]);
}

#[rstest]
#[case::cpu("cpu", &[])]
#[case::huge_pages("hugepages-2Mi", &[])]
#[case::quota_only("pods", &[NOT_FOR_CONTAINERS])]
#[case::huge_pages_of_a_quota("requests.hugepages-2Mi", &[NOT_FOR_CONTAINERS])]
#[case::not_standard("gpu", &[NOT_STANDARD, NOT_FOR_CONTAINERS])]
#[case::malformed("-", &[NAME_PART, NOT_FOR_CONTAINERS])]
#[case::extended("example.com/gpu", &[])]
#[case::native_with_prefix("kubernetes.io/any", &[])]
#[case::prefix_of_a_quota("requests.example.com/gpu", &[NOT_EXTENDED])]
#[case::empty_name_part("example.com/", &["name part must be non-empty", NAME_PART, NOT_EXTENDED])]
#[case::name_part_at_limit(&format!("a/{}", "b".repeat(63)), &[])]
#[case::name_part_over_limit(&format!("a/{}", "b".repeat(64)),
    &["name part must be no more than 63 bytes", NOT_EXTENDED])]
#[case::quota_name_at_limit(&format!("{}/b", "a".repeat(244)), &[])]
#[case::quota_name_over_limit(&format!("{}/b", "a".repeat(245)), &[NOT_EXTENDED])]
#[case::prefix_over_limit(&format!("{}/b", "a".repeat(254)),
    &["prefix part must be no more than 253 bytes", NOT_EXTENDED])]
#[case::empty_prefix("/b", &["prefix part must be non-empty", NOT_EXTENDED])]
fn container_resource_must_be_standard_or_extended(#[case] name: &str, #[case] expected: &[&str]) {
    let source = json!({ "name": name, "container": "main", "target": utilization() });
    let found = causes(
        json!({ "metrics": [{ "type": "ContainerResource", "containerResource": source }] }),
    );
    let prefix =
        format!("Invalid spec.metrics[0].containerResource.name: Invalid value: \"{name}\": ");
    assert_eq!(without(&found, &prefix), expected);
}

#[test]
fn container_resource_name_with_two_slashes_is_not_a_label_key() {
    let mut found = Causes::default();
    names::container_resource(&mut found, &Path::root("name"), "a/b/c");
    let key = NAME_PART.trim_start_matches("name part ");
    let example = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
    let expected = [
        format!("Invalid name: Invalid value: \"a/b/c\": a valid label key {key} {example}"),
        format!("Invalid name: Invalid value: \"a/b/c\": {NOT_EXTENDED}"),
    ];
    assert_eq!(texts(&found.0), expected);
}

#[rstest]
#[case::one_byte("a", &[])]
#[case::at_limit(&"a".repeat(63), &[])]
#[case::over_limit(&"a".repeat(64), &["must be no more than 63 characters"])]
#[case::dot("a.b", &["must not contain dots"])]
#[case::upper_case("A", &[LABEL])]
#[case::hyphen_at_the_end("a-", &[LABEL])]
#[case::digits_and_hyphen("0-0", &[])]
#[case::empty_label("a..b", &[LABEL])]
fn container_name_must_be_a_dns_label(#[case] name: &str, #[case] expected: &[&str]) {
    let source = json!({ "name": "cpu", "container": name, "target": utilization() });
    let found = causes(
        json!({ "metrics": [{ "type": "ContainerResource", "containerResource": source }] }),
    );
    let prefix =
        format!("Invalid spec.metrics[0].containerResource.container: Invalid value: \"{name}\": ");
    assert_eq!(without(&found, &prefix), expected);
}
