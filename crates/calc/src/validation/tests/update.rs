//! Violations that an update may keep, although a new object must not have them.

use rstest::rstest;
use serde_json::{Value, json};

use super::{super::*, causes_of, spec};

/// Whether a spec with the `new` members is accepted in place of one with the `old`.
fn is_accepted(old: Value, new: Value, scale_to_zero: bool) -> bool {
    causes_of(new, ValidationOptions { scale_to_zero, old: Some(&spec(old)) }).is_empty()
}

#[rstest]
#[case::zero_stays(json!({ "minReplicas": 0 }), 0, true)]
#[case::zero_becomes_less(json!({ "minReplicas": 0 }), -1, false)]
#[case::one_becomes_zero(json!({ "minReplicas": 1 }), 0, false)]
#[case::unset_becomes_zero(json!({ "minReplicas": null }), 0, false)]
#[case::less_than_zero_becomes_zero(json!({ "minReplicas": -1 }), 0, false)]
fn zero_min_replicas_may_stay_without_the_feature_gate(
    #[case] old: Value,
    #[case] new: i32,
    #[case] expected: bool,
) {
    assert_eq!(is_accepted(old, json!({ "minReplicas": new }), false), expected);
}

#[rstest]
#[case::not_changed(("K", "v1", "a"), ("K", "v1", "a"), true)]
#[case::two_slashes_not_changed(("K", "a/b/c", "a"), ("K", "a/b/c", "a"), true)]
#[case::name_changed(("K", "v1", "a"), ("K", "v1", "b"), true)]
#[case::name_wrong(("K", "v1", "a"), ("K", "v1", ".."), false)]
#[case::kind_changed(("K", "v1", "a"), ("L", "v1", "a"), false)]
#[case::api_version_changed(("K", "v1", "a"), ("K", "v2", "a"), false)]
#[case::api_version_corrected(("K", "v1", "a"), ("K", "g/v2", "a"), true)]
#[case::changed_to_the_core_kind(("K", "v1", "a"), ("ReplicationController", "v1", "a"), true)]
#[case::core_kind_not_changed(
    ("ReplicationController", "a/b/c", "a"), ("ReplicationController", "a/b/c", "a"), true)]
fn unchanged_scale_target_may_be_invalid(
    #[case] old: (&str, &str, &str),
    #[case] new: (&str, &str, &str),
    #[case] expected: bool,
) {
    let reference = |(kind, api_version, name): (&str, &str, &str)| {
        json!({
            "scaleTargetRef": { "kind": kind, "apiVersion": api_version, "name": name },
        })
    };
    assert_eq!(is_accepted(reference(old), reference(new), true), expected);
}

fn object(source_type: &str, api_version: &str) -> Value {
    let described = json!({ "kind": "K", "name": "n", "apiVersion": api_version });
    let target = json!({ "type": "Value", "value": "1" });
    let source =
        json!({ "describedObject": described, "metric": { "name": "m" }, "target": target });
    json!({ "type": source_type, "object": source })
}

#[rstest]
#[case::valid_before(vec![object("Object", "g/v1")], false)]
#[case::without_group_before(vec![object("Object", "v1")], false)]
#[case::invalid_before(vec![object("Object", "a/b/c")], true)]
#[case::one_of_two_invalid_before(vec![object("Object", "g/v1"), object("Object", "a/b/c")], true)]
#[case::invalid_in_a_metric_of_another_type(vec![object("Pods", "a/b/c")], false)]
#[case::type_without_its_member(vec![json!({ "type": "Object" })], false)]
#[case::no_metric_before(vec![], false)]
fn invalid_described_object_needs_an_earlier_invalid_one(
    #[case] old: Vec<Value>,
    #[case] expected: bool,
) {
    let new = json!({ "metrics": [object("Object", "x/y/z")] });
    assert_eq!(is_accepted(json!({ "metrics": old }), new, true), expected);
}
