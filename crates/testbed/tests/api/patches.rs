use hpa_testbed::Testbed;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{
    AUTOSCALERS, DEPLOYMENTS, at, autoscaler, crd, deployment, get, patch, post, queue,
};

const MERGE: &str = "merge-patch+json";
const JSON: &str = "json-patch+json";
const STRATEGIC: &str = "strategic-merge-patch+json";
const APPLY: &str = "apply-patch+yaml";

async fn with_web() -> (Testbed, String) {
    let testbed = Testbed::default();
    post(&testbed, DEPLOYMENTS, &deployment("web")).await;
    (testbed, format!("{DEPLOYMENTS}/web"))
}

#[rstest]
#[case::merge(MERGE, json!({ "spec": { "replicas": 7 } }), "/spec/replicas", json!(7))]
#[case::merge_removes(
    MERGE, json!({ "metadata": { "labels": null } }), "/metadata/labels", Value::Null
)]
#[case::merge_replaces_lists(
    MERGE, json!({ "spec": { "template": { "spec": { "containers": [{ "name": "x" }] } } } }),
    "/spec/template/spec/containers", json!([{ "name": "x" }]))]
#[case::json_add(JSON, json!([{ "op": "add", "path": "/metadata/labels/a~1b", "value": "c" }]),
    "/metadata/labels", json!({ "app": "web", "a/b": "c" }))]
#[case::json_append(
    JSON,
    json!([{
        "op": "add", "path": "/spec/template/spec/containers/-", "value": { "name": "x" },
    }]),
    "/spec/template/spec/containers/2", json!({ "name": "x" }))]
#[case::json_test_and_replace(JSON, json!([{ "op": "test", "path": "/spec/replicas", "value": 2 },
    { "op": "replace", "path": "/spec/replicas", "value": 3 }]), "/spec/replicas", json!(3))]
#[case::json_move(
    JSON,
    json!([{ "op": "move", "from": "/metadata/labels/app", "path": "/metadata/labels/was" }]),
    "/metadata/labels", json!({ "was": "web" }))]
#[case::json_remove(JSON, json!([{ "op": "remove", "path": "/spec/template/spec/containers/0" }]),
    "/spec/template/spec/containers", json!([{ "name": "side", "image": "b" }]))]
#[case::strategic(STRATEGIC,
    json!({ "spec": { "template": { "spec": {
        "containers": [{ "name": "side", "image": "c" }],
    } } } }),
    "/spec/template/spec/containers",
    json!([{ "name": "main", "image": "a" }, { "name": "side", "image": "c" }]))]
#[case::strategic_deletes(STRATEGIC,
    json!({ "spec": { "template": { "spec": {
        "containers": [{ "name": "side", "$patch": "delete" }],
    } } } }),
    "/spec/template/spec/containers", json!([{ "name": "main", "image": "a" }]))]
#[case::strategic_replaces(STRATEGIC,
    json!({ "spec": { "template": { "spec": {
        "containers": [{ "$patch": "replace" }, { "name": "x" }],
    } } } }),
    "/spec/template/spec/containers", json!([{ "name": "x" }]))]
#[case::strategic_removes(
    STRATEGIC,
    json!({ "metadata": { "labels": { "app": null } } }),
    "/metadata/labels",
    json!({})
)]
#[tokio::test]
async fn patch_is_applied(
    #[case] kind: &str,
    #[case] change: Value,
    #[case] pointer: &str,
    #[case] expected: Value,
) {
    let (testbed, path) = with_web().await;
    let (code, object) = patch(&testbed, &path, kind, &change).await;
    assert_eq!((code, at(&object, pointer)), (200, &expected));
    assert_eq!(get(&testbed, &path).await.1, object);
}

#[rstest]
#[case::old_version(MERGE, json!({ "metadata": { "resourceVersion": "1" } }), 409)]
#[case::failed_test(JSON, json!([{ "op": "test", "path": "/spec/replicas", "value": 9 }]), 422)]
#[case::missing_path(JSON, json!([{ "op": "remove", "path": "/spec/none" }]), 422)]
#[case::not_a_list_of_operations(JSON, json!({}), 400)]
#[case::unknown_media_type("x", json!({}), 415)]
#[tokio::test]
async fn invalid_patch_is_rejected(
    #[case] kind: &str,
    #[case] change: Value,
    #[case] expected: u16,
) {
    let (testbed, path) = with_web().await;
    let before = get(&testbed, &path).await;
    assert_eq!(patch(&testbed, &path, kind, &change).await.0, expected);
    assert_eq!(get(&testbed, &path).await, before);
}

#[tokio::test]
async fn conditions_are_merged_by_type() {
    let (testbed, path) = with_web().await;
    let path = format!("{path}/status");
    let change = |name: &str, status: &str| {
        let condition = json!({ "type": name, "status": status });
        json!({ "status": { "conditions": [condition] } })
    };
    patch(&testbed, &path, STRATEGIC, &change("B", "True")).await;
    patch(&testbed, &path, STRATEGIC, &change("A", "True")).await;
    let (_, object) = patch(&testbed, &path, STRATEGIC, &change("A", "False")).await;
    // The new condition comes first.
    let expected = json!([{ "type": "A", "status": "False" }, { "type": "B", "status": "True" }]);
    assert_eq!(at(&object, "/status/conditions"), &expected);
}

#[tokio::test]
async fn custom_resource_rejects_strategic_merge_patch() {
    let testbed = Testbed::default();
    testbed.apply(crd()).unwrap();
    testbed.apply(queue()).unwrap();
    // The media type is checked before the object is read.
    for name in ["jobs", "absent"] {
        let path = format!("/apis/example.com/v1/namespaces/default/queues/{name}");
        assert_eq!(patch(&testbed, &path, STRATEGIC, &json!({})).await.0, 415, "{name}");
    }
}

fn apply_url(manager: &str, force: bool) -> String {
    format!("{DEPLOYMENTS}/web?fieldManager={manager}&force={force}")
}

#[tokio::test]
async fn update_is_recorded_in_managed_fields() {
    let testbed = Testbed::default();
    post(&testbed, &format!("{DEPLOYMENTS}?fieldManager=one"), &deployment("web")).await;
    let change = json!({ "spec": { "replicas": 7 } });
    let path = format!("{DEPLOYMENTS}/web?fieldManager=two");
    let (_, object) = patch(&testbed, &path, MERGE, &change).await;
    let entry = at(&object, "/metadata/managedFields/1");
    assert_eq!((at(entry, "/manager"), at(entry, "/operation")), (&json!("two"), &json!("Update")));
    assert_eq!(at(entry, "/fieldsV1"), &json!({ "f:spec": { "f:replicas": {} } }));
    assert_eq!(at(&object, "/metadata/managedFields/0/fieldsV1/f:spec/f:replicas"), &Value::Null);
    let mut applied = with_labels(json!({}));
    applied["spec"]["replicas"] = json!(3);
    let (code, status) = patch(&testbed, &apply_url("three", false), APPLY, &applied).await;
    let text = "Apply failed with 1 conflict: conflict with \"two\" using apps/v1: .spec.replicas";
    assert_eq!((code, at(&status, "/message")), (409, &json!(text)));
}

#[tokio::test]
async fn updates_in_two_api_versions_have_an_entry_each() {
    let testbed = Testbed::default();
    let path = format!("{AUTOSCALERS}?fieldManager=one");
    post(&testbed, &path, &autoscaler("web")).await;
    let path = format!("{}/web?fieldManager=one", AUTOSCALERS.replace("/v2/", "/v1/"));
    let change = json!({ "spec": { "maxReplicas": 7 } });
    let (_, object) = patch(&testbed, &path, MERGE, &change).await;
    let entries = at(&object, "/metadata/managedFields").as_array().unwrap();
    let mut versions: Vec<&str> =
        entries.iter().filter_map(|entry| entry["apiVersion"].as_str()).collect();
    versions.sort_unstable();
    assert_eq!(versions, ["autoscaling/v1", "autoscaling/v2"]);
}

fn with_labels(labels: Value) -> Value {
    let metadata = json!({ "name": "web", "labels": labels });
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata })
}

#[tokio::test]
async fn apply_creates_merges_and_removes_fields() {
    let testbed = Testbed::default();
    let labels = json!({ "a": "1", "b": "1" });
    let (code, _) = patch(&testbed, &apply_url("one", false), APPLY, &with_labels(labels)).await;
    assert_eq!(code, 201);
    let (code, object) = patch(
        &testbed,
        &apply_url("two", false),
        APPLY,
        &with_labels(json!({ "c": "1", "b": "1" })),
    )
    .await;
    assert_eq!(
        (code, at(&object, "/metadata/labels")),
        (200, &json!({ "a": "1", "b": "1", "c": "1" }))
    );
    // `a` is removed, because its only owner dropped it. `b` has another owner.
    let (_, object) =
        patch(&testbed, &apply_url("one", false), APPLY, &with_labels(json!({ "d": "1" }))).await;
    assert_eq!(at(&object, "/metadata/labels"), &json!({ "b": "1", "c": "1", "d": "1" }));
    let entries = at(&object, "/metadata/managedFields").as_array().unwrap();
    let of_one: Vec<&Value> = entries
        .iter()
        .filter(|entry| entry["manager"] == "one")
        .map(|entry| &entry["fieldsV1"])
        .collect();
    assert_eq!(
        (entries.len(), of_one),
        (2, vec![&json!({ "f:metadata": { "f:labels": { "f:d": {} } } })])
    );
}

#[tokio::test]
async fn repeated_apply_changes_nothing() {
    let testbed = Testbed::default();
    let (_, one) = patch(&testbed, &apply_url("one", false), APPLY, &deployment("web")).await;
    let (_, two) = patch(&testbed, &apply_url("one", false), APPLY, &deployment("web")).await;
    assert_eq!(one, two);
}

#[tokio::test]
async fn apply_conflicts_with_other_managers_unless_forced() {
    let testbed = Testbed::default();
    patch(&testbed, &apply_url("one", false), APPLY, &with_labels(json!({ "a": "1" }))).await;
    let other = with_labels(json!({ "a": "2" }));
    let (code, status) = patch(&testbed, &apply_url("two", false), APPLY, &other).await;
    let text = "Apply failed with 1 conflict: conflict with \"one\": .metadata.labels.a";
    assert_eq!((code, at(&status, "/message")), (409, &json!(text)));
    let (code, object) = patch(&testbed, &apply_url("two", true), APPLY, &other).await;
    assert_eq!((code, at(&object, "/metadata/labels/a")), (200, &json!("2")));
    assert_eq!(at(&object, "/metadata/managedFields").as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn removed_field_has_no_owner() {
    let testbed = Testbed::default();
    let labels = |value: &str| with_labels(json!({ "a": value, "b": "1" }));
    patch(&testbed, &apply_url("one", false), APPLY, &labels("1")).await;
    let removal = json!({ "metadata": { "labels": { "a": null } } });
    patch(&testbed, &format!("{DEPLOYMENTS}/web?fieldManager=two"), MERGE, &removal).await;
    let (code, object) = patch(&testbed, &apply_url("three", false), APPLY, &labels("2")).await;
    assert_eq!((code, at(&object, "/metadata/labels/a")), (200, &json!("2")));
    let entries = at(&object, "/metadata/managedFields").as_array().unwrap();
    let managers: Vec<_> = entries.iter().map(|entry| &entry["manager"]).collect();
    assert_eq!(managers, ["one", "three"], "the removal owns nothing");
}

#[tokio::test]
async fn applied_lists_are_merged_by_key() {
    let (testbed, _) = with_web().await;
    let containers = json!([{ "name": "side", "image": "c" }]);
    let mut object = with_labels(json!({}));
    object["spec"]["template"]["spec"]["containers"] = containers;
    let (_, stored) = patch(&testbed, &apply_url("one", false), APPLY, &object).await;
    let expected = json!([{ "name": "main", "image": "a" }, { "name": "side", "image": "c" }]);
    assert_eq!(at(&stored, "/spec/template/spec/containers"), &expected);
}
