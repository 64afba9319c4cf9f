use ::http::Request;
use axum::body::Body;
use hpa_testbed::Testbed;
use rstest::rstest;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::support::{
    AUTOSCALERS, DEPLOYMENTS, PODS, at, autoscaler, crd, delete, deployment, get, names, patch,
    pod, post, put, queue, send,
};

const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";

async fn with_web() -> (Testbed, Value) {
    let testbed = Testbed::default();
    let (code, object) = post(&testbed, DEPLOYMENTS, &deployment("web")).await;
    assert_eq!(code, 201, "{object}");
    (testbed, object)
}

#[tokio::test]
async fn create_sets_server_managed_fields() {
    let (testbed, object) = with_web().await;
    assert_eq!(at(&object, "/metadata/namespace"), "default");
    assert_eq!(at(&object, "/metadata/generation"), 1);
    assert_eq!(at(&object, "/metadata/uid").as_str().unwrap().len(), 36);
    let version: u64 = at(&object, "/metadata/resourceVersion").as_str().unwrap().parse().unwrap();
    assert_eq!(version, testbed.resource_version());
    assert!(at(&object, "/metadata/creationTimestamp").as_str().unwrap().ends_with('Z'));
    assert_eq!(get(&testbed, WEB).await, (200, object));
}

#[tokio::test]
async fn generate_name_gets_a_suffix() {
    let testbed = Testbed::default();
    let body = json!({ "metadata": { "generateName": "web-" }, "spec": {} });
    let (_, one) = post(&testbed, PODS, &body).await;
    let (_, two) = post(&testbed, PODS, &body).await;
    let (one, two) = (
        at(&one, "/metadata/name").as_str().unwrap(),
        at(&two, "/metadata/name").as_str().unwrap(),
    );
    assert!(one.starts_with("web-") && one.len() == 9 && one != two, "{one} {two}");
}

#[rstest]
#[case::not_found(
    "GET", "/apis/apps/v1/namespaces/default/deployments/no", json!(null), 404, "NotFound",
    "deployments.apps \"no\" not found")]
#[case::core(
    "GET", "/api/v1/namespaces/default/pods/no", json!(null), 404, "NotFound",
    "pods \"no\" not found"
)]
#[case::unknown_namespace(
    "POST",
    "/apis/apps/v1/namespaces/no/deployments",
    deployment("web"),
    404,
    "NotFound",
    "namespaces \"no\" not found"
)]
#[case::exists(
    "POST",
    DEPLOYMENTS,
    deployment("web"),
    409,
    "AlreadyExists",
    "deployments.apps \"web\" already exists"
)]
#[case::no_name("POST", DEPLOYMENTS, json!({ "spec": {} }), 422, "Invalid",
    "Deployment.apps \"\" is invalid: metadata.name: Required value: \
     name or generateName is required")]
#[case::negative(
    "POST", DEPLOYMENTS, json!({ "metadata": { "name": "n" }, "spec": { "replicas": -1 } }),
    422, "Invalid",
    "Deployment.apps \"n\" is invalid: spec.replicas: Invalid value: -1: \
     must be greater than or equal to 0")]
#[case::version_set(
    "POST", DEPLOYMENTS, json!({ "metadata": { "name": "n", "resourceVersion": "1" } }), 500,
    "", "resourceVersion should not be set on objects to be created")]
#[case::other_namespace(
    "POST", DEPLOYMENTS, json!({ "metadata": { "name": "n", "namespace": "x" } }), 400,
    "BadRequest", "the namespace of the provided object does not match the namespace sent on \
     the request")]
#[case::other_version(
    "POST", DEPLOYMENTS, json!({ "apiVersion": "apps/v2", "metadata": { "name": "n" } }), 400,
    "BadRequest", "Deployment in version \"v2\" cannot be handled as a Deployment: \
     no kind \"Deployment\" is registered for version \"apps/v2\"")]
#[case::other_name(
    "PUT",
    WEB,
    deployment("n"),
    400,
    "BadRequest",
    "the name of the object (n) does not match the name on the URL (web)"
)]
#[case::method("PATCH", DEPLOYMENTS, json!({}), 405, "MethodNotAllowed",
    "the server does not allow this method on the requested resource")]
#[case::path("GET", "/apis/apps/v1/namespaces/default/nosuch", json!(null), 404, "NotFound",
    "the server could not find the requested resource")]
#[tokio::test]
async fn invalid_request_is_rejected(
    #[case] method: &str,
    #[case] path: &str,
    #[case] body: Value,
    #[case] code: u16,
    #[case] reason: &str,
    #[case] message: &str,
) {
    let (testbed, _) = with_web().await;
    let before = testbed.resource_version();
    let (actual_code, status) = send(&testbed, method, path, "application/json", &body).await;
    assert_eq!((actual_code, at(&status, "/message")), (code, &json!(message)));
    let actual_reason = at(&status, "/reason").as_str().unwrap_or_default();
    assert_eq!((actual_reason, at(&status, "/code")), (reason, &json!(code)));
    assert_eq!(
        (at(&status, "/kind"), at(&status, "/status")),
        (&json!("Status"), &json!("Failure"))
    );
    assert_eq!(testbed.resource_version(), before);
}

#[rstest]
#[case::create("POST", DEPLOYMENTS, "application/json", deployment("db"))]
#[case::replace("PUT", WEB, "application/json", deployment("web"))]
#[case::patch("PATCH", WEB, "application/merge-patch+json", json!({ "spec": { "replicas": 5 } }))]
#[case::apply(
    "PATCH",
    "/apis/apps/v1/namespaces/default/deployments/db?fieldManager=test",
    "application/apply-patch+yaml",
    deployment("db")
)]
#[case::delete("DELETE", WEB, "application/json", json!({}))]
#[case::delete_collection("DELETE", DEPLOYMENTS, "application/json", json!({}))]
#[tokio::test]
async fn write_with_an_unacceptable_response_format_changes_nothing(
    #[case] method: &str,
    #[case] path: &str,
    #[case] media_type: &str,
    #[case] body: Value,
) {
    let (testbed, _) = with_web().await;
    let before = testbed.resource_version();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("accept", "application/yaml")
        .header("content-type", media_type)
        .body(Body::from(body.to_string()))
        .unwrap();
    let response = testbed.service().oneshot(request).await.unwrap();
    assert_eq!((response.status().as_u16(), testbed.resource_version()), (406, before));
}

#[tokio::test]
async fn put_of_an_old_resource_version_conflicts() {
    let (testbed, object) = with_web().await;
    let mut changed = object.clone();
    changed["spec"]["replicas"] = json!(5);
    let (code, stored) = put(&testbed, WEB, &changed).await;
    assert_eq!((code, at(&stored, "/metadata/generation")), (200, &json!(2)));
    changed["spec"]["replicas"] = json!(6);
    let (code, status) = put(&testbed, WEB, &changed).await;
    assert_eq!((code, at(&status, "/reason")), (409, &json!("Conflict")));
    let text = "Operation cannot be fulfilled on deployments.apps \"web\": the object has been \
        modified; please apply your changes to the latest version and try again";
    assert_eq!(at(&status, "/message"), text);
    assert_eq!(
        at(&status, "/details"),
        &json!({ "name": "web", "group": "apps", "kind": "deployments" })
    );
}

#[tokio::test]
async fn uid_is_a_precondition_of_put() {
    let (testbed, object) = with_web().await;
    let mut other = object.clone();
    other["metadata"]["uid"] = json!("x");
    assert_eq!(put(&testbed, WEB, &other).await.0, 409);
    let change = json!({ "metadata": { "uid": "x" } });
    let (code, status) = patch(&testbed, WEB, "merge-patch+json", &change).await;
    assert_eq!((code, at(&status, "/details/causes/0/field")), (422, &json!("metadata.uid")));
    let options = json!({ "preconditions": { "uid": "x" } });
    assert_eq!(delete(&testbed, WEB, &options).await.0, 409);
}

#[tokio::test]
async fn put_without_changes_keeps_the_resource_version() {
    let (testbed, object) = with_web().await;
    assert_eq!(put(&testbed, WEB, &object).await, (200, object));
}

#[tokio::test]
async fn status_and_spec_are_written_separately() {
    let (testbed, object) = with_web().await;
    let mut both = object.clone();
    both["status"] = json!({ "replicas": 2 });
    both["spec"]["replicas"] = json!(9);
    both["metadata"]["labels"]["x"] = json!("y");
    let (_, stored) = put(&testbed, &format!("{WEB}/status"), &both).await;
    assert_eq!(
        (at(&stored, "/status/replicas"), at(&stored, "/spec/replicas")),
        (&json!(2), &json!(2))
    );
    assert_eq!(
        (at(&stored, "/metadata/generation"), at(&stored, "/metadata/labels/x")),
        (&json!(1), &Value::Null)
    );
    let change = json!({ "status": { "replicas": 7 }, "spec": { "replicas": 3 } });
    let (_, stored) = patch(&testbed, WEB, "merge-patch+json", &change).await;
    assert_eq!(
        (at(&stored, "/status/replicas"), at(&stored, "/spec/replicas")),
        (&json!(2), &json!(3))
    );
    assert_eq!(at(&stored, "/metadata/generation"), 2);
}

#[tokio::test]
async fn spec_change_of_an_autoscaler_increments_its_generation() {
    let testbed = Testbed::default();
    post(&testbed, AUTOSCALERS, &autoscaler("web")).await;
    let (path, change) = (format!("{AUTOSCALERS}/web"), json!({ "spec": { "maxReplicas": 7 } }));
    let (_, stored) = patch(&testbed, &path, "merge-patch+json", &change).await;
    assert_eq!(at(&stored, "/metadata/generation"), &json!(2));
}

#[tokio::test]
async fn object_with_finalizers_is_only_marked_as_deleted() {
    let testbed = Testbed::default();
    let mut object = deployment("web");
    object["metadata"]["finalizers"] = json!(["example.com/wait"]);
    post(&testbed, DEPLOYMENTS, &object).await;
    let (code, marked) = delete(&testbed, WEB, &Value::Null).await;
    assert_eq!((code, at(&marked, "/kind")), (200, &json!("Deployment")));
    assert!(at(&marked, "/metadata/deletionTimestamp").is_string());
    let change = json!({ "metadata": { "finalizers": null } });
    assert_eq!(patch(&testbed, WEB, "merge-patch+json", &change).await.0, 200);
    assert_eq!(get(&testbed, WEB).await.0, 404);
}

/// Marks an object as deleted, then removes its finalizers. Meanwhile, `contained` exists.
async fn finalize(testbed: &Testbed, path: &str, contained: &str) {
    assert!(at(&delete(testbed, path, &Value::Null).await.1, "/metadata/name").is_string());
    assert_eq!(get(testbed, contained).await.0, 200);
    let change = json!({ "metadata": { "finalizers": null } });
    assert_eq!(patch(testbed, path, "merge-patch+json", &change).await.0, 200);
    assert_eq!(get(testbed, path).await.0, 404);
}

#[tokio::test]
async fn finalized_namespace_is_removed_with_its_objects() {
    let testbed = Testbed::default();
    let metadata = json!({ "name": "shop", "finalizers": ["example.com/wait"] });
    let (code, namespace) =
        post(&testbed, "/api/v1/namespaces", &json!({ "metadata": metadata })).await;
    assert_eq!(code, 201, "{namespace}");
    let deployments = DEPLOYMENTS.replace("default", "shop");
    post(&testbed, &deployments, &deployment("web")).await;
    let web = format!("{deployments}/web");
    finalize(&testbed, "/api/v1/namespaces/shop", &web).await;
    assert_eq!(get(&testbed, &web).await.0, 404);
}

#[tokio::test]
async fn finalized_crd_is_removed_with_its_resource() {
    let testbed = Testbed::default();
    let mut definition = crd();
    definition["metadata"]["finalizers"] = json!(["example.com/wait"]);
    testbed.apply(definition.clone()).unwrap();
    let queues = "/apis/example.com/v1/namespaces/default/queues";
    post(&testbed, queues, &queue()).await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/queues.example.com";
    finalize(&testbed, path, queues).await;
    assert_eq!(get(&testbed, queues).await.0, 404);
    // The objects are gone as well.
    testbed.apply(definition).unwrap();
    assert_eq!(at(&get(&testbed, queues).await.1, "/items"), &json!([]));
}

#[tokio::test]
async fn delete_returns_a_status() {
    let (testbed, object) = with_web().await;
    let (code, status) = delete(&testbed, WEB, &Value::Null).await;
    assert_eq!((code, at(&status, "/status")), (200, &json!("Success")));
    assert_eq!(at(&status, "/details/uid"), at(&object, "/metadata/uid"));
    assert_eq!(delete(&testbed, WEB, &Value::Null).await.0, 404);
}

#[tokio::test]
async fn deletecollection_deletes_matching_objects() {
    let testbed = Testbed::default();
    for (name, app) in [("a", "web"), ("b", "web"), ("c", "db")] {
        post(&testbed, PODS, &pod(name, json!({ "app": app }))).await;
    }
    for (dry_run, remaining) in [("&dryRun=All", 3), ("", 1)] {
        let path = format!("{PODS}?labelSelector=app%3Dweb{dry_run}");
        let (code, list) = delete(&testbed, &path, &Value::Null).await;
        assert_eq!((code, names(&list)), (200, vec!["a", "b"]));
        assert_eq!(testbed.list("v1", "Pod").len(), remaining);
    }
}

#[tokio::test]
async fn deleting_a_namespace_deletes_its_objects() {
    let testbed = Testbed::default();
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } });
    let (code, created) = post(&testbed, "/api/v1/namespaces", &namespace).await;
    assert_eq!((code, at(&created, "/status/phase")), (201, &json!("Active")));
    post(&testbed, "/api/v1/namespaces/shop/pods", &pod("a", json!({}))).await;
    assert_eq!(delete(&testbed, "/api/v1/namespaces/shop", &Value::Null).await.0, 200);
    assert_eq!(testbed.list("v1", "Pod"), Vec::<Value>::new());
}

#[tokio::test]
async fn dry_run_stores_nothing() {
    let testbed = Testbed::default();
    let (code, _) = post(&testbed, &format!("{DEPLOYMENTS}?dryRun=All"), &deployment("web")).await;
    assert_eq!((code, get(&testbed, WEB).await.0), (201, 404));
}
