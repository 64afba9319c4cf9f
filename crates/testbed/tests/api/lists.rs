use hpa_testbed::Testbed;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{PODS, at, get, names, pod, post, send};

async fn with_pods() -> Testbed {
    let testbed = Testbed::default();
    for (name, app) in [("a", "web"), ("b", "db"), ("c", "web"), ("d", "web")] {
        post(&testbed, PODS, &pod(name, json!({ "app": app }))).await;
    }
    let mut other = pod("e", json!({ "app": "web" }));
    other["metadata"]["namespace"] = json!("kube-system");
    other["status"]["phase"] = json!("Running");
    testbed.apply(other).unwrap();
    testbed
}

#[rstest]
#[case::all(PODS, "", &["a", "b", "c", "d"])]
#[case::all_namespaces("/api/v1/pods", "", &["a", "b", "c", "d", "e"])]
#[case::label(PODS, "labelSelector=app%3Dweb", &["a", "c", "d"])]
#[case::label_set(PODS, "labelSelector=app+notin+(web)", &["b"])]
#[case::name(PODS, "fieldSelector=metadata.name%3Dc", &["c"])]
#[case::not_name(PODS, "fieldSelector=metadata.name!%3Dc", &["a", "b", "d"])]
#[case::namespace("/api/v1/pods", "fieldSelector=metadata.namespace%3Dkube-system", &["e"])]
#[case::phase("/api/v1/pods", "fieldSelector=status.phase%3DRunning", &["e"])]
#[case::both(PODS, "labelSelector=app%3Dweb&fieldSelector=metadata.name!%3Da", &["c", "d"])]
#[tokio::test]
async fn list_selects_objects(#[case] path: &str, #[case] query: &str, #[case] expected: &[&str]) {
    let testbed = with_pods().await;
    let (code, list) = get(&testbed, &format!("{path}?{query}")).await;
    assert_eq!((code, names(&list)), (200, expected.to_vec()));
    assert_eq!(
        at(&list, "/metadata/resourceVersion"),
        &json!(testbed.resource_version().to_string())
    );
    assert_eq!(at(&list, "/kind"), "PodList");
}

#[rstest]
#[case("labelSelector=%3D", "found '=', expected: !, identifier, or 'end of string'")]
#[case("fieldSelector=spec.x%3Dy", "field label not supported: spec.x")]
#[case("resourceVersion=x", "invalid resource version: resourceVersion: Invalid value: \"x\"")]
#[case("continue=x", "continue key is not valid")]
#[tokio::test]
async fn invalid_list_parameter_is_rejected(#[case] query: &str, #[case] text: &str) {
    let (code, status) = get(&Testbed::default(), &format!("{PODS}?{query}")).await;
    assert_eq!(code, 400);
    assert!(at(&status, "/message").as_str().unwrap().contains(text), "{status}");
}

#[rstest]
#[case::services("/api/v1/services", "field label not supported: status.replicas")]
#[case::replica_sets("/apis/apps/v1/replicasets", "is not a known field selector")]
#[tokio::test]
async fn error_about_a_field_depends_on_the_resource(#[case] path: &str, #[case] text: &str) {
    let path = format!("{path}?fieldSelector=status.replicas%3D1");
    let (code, status) = get(&Testbed::default(), &path).await;
    assert_eq!(code, 400);
    assert!(at(&status, "/message").as_str().unwrap().contains(text), "{status}");
}

#[rstest]
#[case::involved_object("involvedObject.name%3Da,involvedObject.kind%3DPod")]
#[case::source("source%3Da")]
#[tokio::test]
async fn events_are_selected_by_their_fields(#[case] selector: &str) {
    let testbed = Testbed::default();
    for name in ["a", "b"] {
        let about = json!({ "kind": "Pod", "name": name, "uid": name });
        let metadata = json!({ "generateName": "e" });
        let event = json!({
            "metadata": metadata, "involvedObject": about, "message": name,
            "source": { "component": name },
        });
        post(&testbed, "/api/v1/namespaces/default/events", &event).await;
    }
    let path = format!("/api/v1/namespaces/default/events?fieldSelector={selector}");
    let (_, list) = get(&testbed, &path).await;
    assert_eq!((names(&list).len(), at(&list, "/items/0/message")), (1, &json!("a")));
}

#[tokio::test]
async fn all_pages_have_the_same_resource_version() {
    let testbed = with_pods().await;
    let (_, first) = get(&testbed, &format!("{PODS}?limit=2")).await;
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(at(&first, "/metadata/remainingItemCount"), 2);
    testbed.delete("v1", "Pod", "default", "c").unwrap();
    post(&testbed, PODS, &pod("cc", json!({}))).await;
    let token = at(&first, "/metadata/continue").as_str().unwrap().replace('/', "%2F");
    let next = format!("{PODS}?limit=2&continue={token}");
    let (_, second) = get(&testbed, &next).await;
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(at(&second, "/metadata/resourceVersion"), at(&first, "/metadata/resourceVersion"));
    assert_eq!(at(&second, "/metadata/continue"), &Value::Null);
    testbed.compact();
    let (code, status) = get(&testbed, &next).await;
    assert_eq!((code, at(&status, "/reason")), (410, &json!("Expired")));
}

#[tokio::test]
async fn partial_object_metadata_is_listed() {
    let testbed = with_pods().await;
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let (_, list) = send(&testbed, "GET", PODS, accept, &Value::Null).await;
    assert_eq!(at(&list, "/kind"), "PartialObjectMetadataList");
    assert_eq!(
        (at(&list, "/items/0/kind"), at(&list, "/items/0/spec")),
        (&json!("PartialObjectMetadata"), &Value::Null)
    );
}
