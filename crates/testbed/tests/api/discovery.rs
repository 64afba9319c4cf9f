use hpa_testbed::Testbed;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Discovery, core::GroupVersionKind, discovery};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{at, crd, get, send};

#[rstest]
#[case("/healthz")]
#[case("/readyz?verbose=true")]
#[case("/livez/ping")]
#[tokio::test]
async fn health_endpoints_return_ok(#[case] path: &str) {
    assert_eq!(get(&Testbed::default(), path).await, (200, json!("ok")));
}

#[tokio::test]
async fn version_is_returned() {
    let version = Testbed::default().client().apiserver_version().await.unwrap();
    assert_eq!(
        (version.major.as_str(), version.minor.as_str(), version.git_version.as_str()),
        ("1", "37", "v1.37.0")
    );
}

#[rstest]
#[case(false)]
#[case(true)]
#[tokio::test]
async fn kube_client_discovers_resources(#[case] aggregated: bool) {
    let testbed = Testbed::default();
    testbed.apply(crd()).unwrap();
    let discovery = Discovery::new(testbed.client());
    let discovery =
        if aggregated { discovery.run_aggregated().await } else { discovery.run().await }.unwrap();
    for (group, version, kind, plural) in [
        ("", "v1", "Pod", "pods"),
        ("apps", "v1", "StatefulSet", "statefulsets"),
        ("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
        ("example.com", "v1", "Queue", "queues"),
        ("example.com", "v1alpha1", "Queue", "queues"),
    ] {
        let (resource, capabilities) =
            discovery.resolve_gvk(&GroupVersionKind::gvk(group, version, kind)).unwrap();
        assert_eq!(resource.plural, plural);
        assert!(capabilities.supports_operation(discovery::verbs::WATCH));
    }
    let group = discovery.get("example.com").unwrap();
    assert_eq!(group.preferred_version_or_latest(), "v1");
}

#[tokio::test]
async fn discovery_lists_subresources() {
    let gvk = GroupVersionKind::gvk("apps", "v1", "Deployment");
    let (_, capabilities) =
        discovery::pinned_kind(&Testbed::default().client(), &gvk).await.unwrap();
    let subresources: Vec<&str> =
        capabilities.subresources.iter().map(|(resource, _)| resource.plural.as_str()).collect();
    assert_eq!(subresources, ["scale", "status"]);
}

#[tokio::test]
async fn accept_header_selects_aggregated_discovery() {
    let accept =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let (_, list) = send(&Testbed::default(), "GET", "/apis", accept, &Value::Null).await;
    assert_eq!(at(&list, "/kind"), "APIGroupDiscoveryList");
}

#[tokio::test]
async fn unknown_paths_are_not_found() {
    for path in [
        "/apis/none",
        "/apis/none/v1",
        "/apis/metrics.k8s.io/v1beta1",
        "/nothing",
        "/openapi/v3/apis/none/v1",
    ] {
        assert_eq!(get(&Testbed::default(), path).await.0, 404, "{path}");
    }
}

#[tokio::test]
async fn openapi_documents_patch_operations() {
    let (_, index) = get(&Testbed::default(), "/openapi/v3").await;
    let path = at(&index, "/paths/apis~1apps~1v1/serverRelativeURL").as_str().unwrap();
    let (_, document) = get(&Testbed::default(), path).await;
    assert!(
        document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
            .is_object()
    );
}

#[tokio::test]
async fn openapi_describes_the_fields_of_served_kinds() {
    let testbed = Testbed::default();
    let mut definition = crd();
    definition["spec"]["versions"][1]["schema"] = json!({ "openAPIV3Schema": {
        "type": "object", "properties": { "spec": { "description": "What to run." } },
    } });
    testbed.apply(definition).unwrap();
    for (path, schema, description) in [
        (
            "apis/autoscaling/v2",
            "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec/properties/maxReplicas",
            "maxReplicas is the upper limit",
        ),
        ("apis/apps/v1", "io.k8s.api.core.v1.Container/properties/image", "Container image name."),
        ("apis/example.com/v1", "com.example.v1.Queue/properties/spec", "What to run."),
    ] {
        let (code, document) = get(&testbed, &format!("/openapi/v3/{path}")).await;
        let text = at(&document, &format!("/components/schemas/{schema}/description"));
        assert!(code == 200 && text.as_str().unwrap().starts_with(description), "{schema}: {text}");
    }
}

#[tokio::test]
async fn typed_kube_client_lists() {
    let api: kube::Api<Deployment> = kube::Api::all(Testbed::default().client());
    assert_eq!(api.list(&kube::api::ListParams::default()).await.unwrap().items, []);
}
