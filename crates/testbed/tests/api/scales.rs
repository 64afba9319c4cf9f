use hpa_testbed::Testbed;
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v1::Scale};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{at, crd, deployment, get, patch, put, queue};

fn workload(api_version: &str, kind: &str) -> Value {
    let mut object = deployment("web");
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    object
}

fn replication_controller() -> Value {
    let mut object = workload("v1", "ReplicationController");
    object["spec"].as_object_mut().unwrap().remove("selector");
    object
}

#[rstest]
#[case(
    workload("apps/v1", "Deployment"),
    "/apis/apps/v1/namespaces/default/deployments/web",
    2,
    "app=web"
)]
#[case(
    workload("apps/v1", "ReplicaSet"),
    "/apis/apps/v1/namespaces/default/replicasets/web",
    2,
    "app=web"
)]
#[case(
    workload("apps/v1", "StatefulSet"),
    "/apis/apps/v1/namespaces/default/statefulsets/web",
    2,
    "app=web"
)]
#[case(
    replication_controller(),
    "/api/v1/namespaces/default/replicationcontrollers/web",
    2,
    "app=web"
)]
#[case(queue(), "/apis/example.com/v1/namespaces/default/queues/jobs", 3, "app=jobs")]
#[case(queue(), "/apis/example.com/v1alpha1/namespaces/default/queues/jobs", 3, "app=jobs")]
#[tokio::test]
async fn scale_of_each_kind_is_read_and_written(
    #[case] object: Value,
    #[case] path: &str,
    #[case] replicas: i64,
    #[case] selector: &str,
) {
    let testbed = Testbed::default();
    testbed.apply(crd()).unwrap();
    testbed.apply(object).unwrap();
    let path = format!("{path}/scale");
    let (code, mut scale) = get(&testbed, &path).await;
    assert_eq!((code, at(&scale, "/spec/replicas")), (200, &json!(replicas)));
    assert_eq!(at(&scale, "/status/selector"), selector);
    scale["spec"]["replicas"] = json!(6);
    let (code, written) = put(&testbed, &format!("{path}?fieldManager=test"), &scale).await;
    assert_eq!((code, at(&written, "/spec/replicas")), (200, &json!(6)));
    let (_, object) = get(&testbed, path.trim_end_matches("/scale")).await;
    assert_eq!(at(&object, "/metadata/managedFields/0/subresource"), "scale");
    let (code, status) = put(&testbed, &path, &scale).await;
    assert_eq!((code, at(&status, "/reason")), (409, &json!("Conflict")));
    let (_, written) =
        patch(&testbed, &path, "merge-patch+json", &json!({ "spec": { "replicas": 0 } })).await;
    assert_eq!((at(&written, "/kind"), at(&written, "/spec")), (&json!("Scale"), &json!({})));
    let (code, _) =
        patch(&testbed, &path, "merge-patch+json", &json!({ "spec": { "replicas": -1 } })).await;
    assert_eq!(code, 422);
}

#[tokio::test]
async fn kube_client_reads_and_writes_scales() {
    let testbed = Testbed::default();
    testbed.apply(deployment("web")).unwrap();
    let api: Api<Deployment> = Api::default_namespaced(testbed.client());
    let scale: Scale = api.get_scale("web").await.unwrap();
    let mut changed = scale.clone();
    changed.spec.as_mut().unwrap().replicas = Some(4);
    api.replace_scale("web", &PostParams::default(), &changed).await.unwrap();
    let error = api.replace_scale("web", &PostParams::default(), &scale).await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.is_conflict()), "{error}");
    let change = json!({ "spec": { "replicas": 9 } });
    api.patch_scale("web", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    assert_eq!(
        at(
            &testbed.get("apps/v1", "Deployment", "default", "web").unwrap(),
            "/metadata/generation"
        ),
        3
    );
}

#[tokio::test]
async fn custom_resources_are_served_until_their_crd_is_deleted() {
    let testbed = Testbed::default();
    let path = "/apis/example.com/v1/namespaces/default/queues/jobs";
    assert_eq!(get(&testbed, path).await.0, 404);
    let crd = testbed.apply(crd()).unwrap();
    assert_eq!(at(&crd, "/status/conditions/1/type"), "Established");
    testbed.apply(queue()).unwrap();
    let (_, object) =
        get(&testbed, "/apis/example.com/v1alpha1/namespaces/default/queues/jobs").await;
    assert_eq!(at(&object, "/apiVersion"), "example.com/v1alpha1");
    testbed
        .delete("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "queues.example.com")
        .unwrap();
    assert_eq!(get(&testbed, path).await.0, 404);
}
