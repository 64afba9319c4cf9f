use hpa_testbed::Testbed;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{
    AUTOSCALERS, DEPLOYMENTS, at, autoscaler, crd, deployment, get, patch, post, put, queue,
    respond, warnings,
};

const UNKNOWN: &str = "unknown field \"spec.minReplicaz\"";

fn misspelled() -> Value {
    let mut object = autoscaler("web");
    object["spec"]["minReplicaz"] = json!(2);
    object
}

#[rstest]
#[case::default("", 1)]
#[case::warn("Warn", 1)]
#[case::ignore("Ignore", 0)]
#[tokio::test]
async fn unknown_fields_are_dropped_with_a_warning(#[case] mode: &str, #[case] count: usize) {
    let testbed = Testbed::default();
    let path = format!("{AUTOSCALERS}?fieldValidation={mode}");
    let (parts, body) =
        respond(&testbed, "POST", &path, "application/json", misspelled().to_string()).await;
    assert_eq!((parts.status.as_u16(), at(&body, "/spec/minReplicaz")), (201, &Value::Null));
    assert_eq!(warnings(&parts), vec!["299 - \"unknown field \\\"spec.minReplicaz\\\"\""; count]);
    assert_eq!(at(&body, "/spec/minReplicas"), 1);
    let owned = "/metadata/managedFields/0/fieldsV1/f:spec/f:minReplicaz";
    assert_eq!(at(&body, owned), &Value::Null);
}

#[tokio::test]
async fn strict_validation_rejects_unknown_and_duplicate_fields() {
    let testbed = Testbed::default();
    let text = misspelled()
        .to_string()
        .replace("\"minReplicaz\":2", "\"minReplicaz\":2,\"maxReplicas\":6");
    let path = format!("{AUTOSCALERS}?fieldValidation=Strict");
    let (parts, body) = respond(&testbed, "POST", &path, "application/json", text).await;
    let message = "HorizontalPodAutoscaler in version \"v2\" cannot be handled as a \
        HorizontalPodAutoscaler: strict decoding error: unknown field \"spec.minReplicaz\", \
        duplicate field \"spec.maxReplicas\"";
    assert_eq!((parts.status.as_u16(), at(&body, "/message")), (400, &json!(message)));
    assert_eq!(at(&body, "/reason"), "BadRequest");
    assert_eq!(get(&testbed, &format!("{AUTOSCALERS}/web")).await.0, 404);
}

#[tokio::test]
async fn strict_validation_covers_updates_and_their_status() {
    let testbed = Testbed::default();
    post(&testbed, AUTOSCALERS, &autoscaler("web")).await;
    for path in ["web", "web/status"] {
        let path = format!("{AUTOSCALERS}/{path}?fieldValidation=Strict");
        let (code, status) = put(&testbed, &path, &misspelled()).await;
        assert_eq!(code, 400);
        assert!(at(&status, "/message").as_str().unwrap().ends_with(UNKNOWN), "{status}");
    }
}

#[rstest]
#[case("merge-patch+json", json!({ "spec": { "minReplicaz": 3 } }))]
#[case("strategic-merge-patch+json", json!({ "spec": { "minReplicaz": 3 } }))]
#[case("json-patch+json", json!([{ "op": "add", "path": "/spec/minReplicaz", "value": 3 }]))]
#[tokio::test]
async fn strict_validation_covers_patches(#[case] kind: &str, #[case] change: Value) {
    let testbed = Testbed::default();
    post(&testbed, AUTOSCALERS, &autoscaler("web")).await;
    let path = format!("{AUTOSCALERS}/web?fieldValidation=Strict");
    let (code, status) = patch(&testbed, &path, kind, &change).await;
    assert_eq!((code, at(&status, "/details/causes/0/field")), (422, &json!("patch")));
    let message = at(&status, "/message").as_str().unwrap();
    assert!(message.starts_with(" \"\" is invalid: patch: Invalid value: "), "{message}");
    assert!(message.ends_with(&format!(": strict decoding error: {UNKNOWN}")), "{message}");
    if kind.starts_with("strategic") {
        assert!(message.contains("\"map[spec:map[minReplicaz:3]]\""), "{message}");
    }
    let (code, stored) = patch(&testbed, &format!("{AUTOSCALERS}/web"), kind, &change).await;
    assert_eq!((code, at(&stored, "/spec/minReplicaz")), (200, &Value::Null));
}

#[tokio::test]
async fn apply_rejects_unknown_fields_in_every_mode() {
    let testbed = Testbed::default();
    for mode in ["Ignore", "Warn", "Strict"] {
        let path = format!("{AUTOSCALERS}/web?fieldManager=x&fieldValidation={mode}");
        let (code, status) = patch(&testbed, &path, "apply-patch+yaml", &misspelled()).await;
        let message = "failed to create typed patch object (/web; autoscaling/v2, \
            Kind=HorizontalPodAutoscaler): .spec.minReplicaz: field not declared in schema";
        assert_eq!((code, at(&status, "/message")), (500, &json!(message)));
    }
}

#[tokio::test]
async fn unknown_mode_is_invalid() {
    let path = format!("{AUTOSCALERS}?fieldValidation=Foo");
    let (code, status) = post(&Testbed::default(), &path, &autoscaler("web")).await;
    let message = "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \
        \"Foo\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"";
    assert_eq!((code, at(&status, "/message")), (422, &json!(message)));
}

#[tokio::test]
async fn value_of_the_wrong_type_is_a_bad_request() {
    let mut object = deployment("web");
    object["spec"]["template"]["spec"]["containers"][0]["ports"] =
        json!([{ "containerPort": "80" }]);
    let (code, status) = post(&Testbed::default(), DEPLOYMENTS, &object).await;
    let message = "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot \
        unmarshal string into Go struct field \
        ContainerPort.spec.template.spec.containers.ports.containerPort of type int32";
    assert_eq!((code, at(&status, "/message")), (400, &json!(message)));
}

#[tokio::test]
async fn custom_resources_are_validated_by_their_schema() {
    let testbed = Testbed::default();
    let mut definition = crd();
    let schema = json!({ "openAPIV3Schema": { "type": "object", "properties": {
        "spec": { "type": "object", "properties": { "workers": { "type": "integer" } } },
        "status": { "x-kubernetes-preserve-unknown-fields": true },
    } } });
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        version["schema"] = schema.clone();
    }
    testbed.apply(definition).unwrap();
    let path = "/apis/example.com/v1/namespaces/default/queues?fieldValidation=Strict";
    assert_eq!(post(&testbed, path, &queue()).await.0, 201);
    let mut object = queue();
    object["spec"]["worker"] = json!(3);
    let (code, status) = post(&testbed, path, &object).await;
    let message = "Queue in version \"v1\" cannot be handled as a Queue: strict decoding error: \
        unknown field \"spec.worker\"";
    assert_eq!((code, at(&status, "/message")), (400, &json!(message)));
}
