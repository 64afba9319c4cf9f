//! Discovery from API servers with invalid or missing parts.

use serde_json::{Value, json};

use super::*;
use crate::test_support::{Reply, Server};

fn group_list(groups: &Value) -> Reply {
    let list = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": groups,
    });
    Reply::json(list.to_string())
}

fn group(name: &str, version: &str, resources: &Value) -> Value {
    let version = json!({ "version": version, "freshness": "Current", "resources": resources });
    json!({ "metadata": { "name": name }, "versions": [version] })
}

fn resource(plural: &str, kind: &str) -> Value {
    json!({
        "resource": plural, "singularResource": kind.to_lowercase(), "verbs": ["get", "list"],
        "responseKind": { "group": "", "version": "", "kind": kind }, "scope": "Namespaced",
    })
}

/// The group of a server that has only the legacy discovery, with the resource
/// `pods/http_requests`, as in the aggregated discovery of kube-apiserver.
fn custom_metrics() -> Value {
    let kind = json!({ "group": "", "version": "", "kind": "MetricValueList" });
    let subresource =
        json!({ "subresource": "http_requests", "responseKind": kind, "verbs": ["get"] });
    let pods = json!({
        "resource": "pods", "scope": "Namespaced", "singularResource": "", "verbs": null,
        "responseKind": { "group": "", "version": "", "kind": "" }, "subresources": [subresource],
    });
    group("custom.metrics.k8s.io", "v1beta1", &json!([pods]))
}

/// Loads the resources from an API server with this `/apis`. Its `/api` has pods.
async fn load(groups: Reply) -> Result<ApiResources, MapperError> {
    let server = Server::new(move |uri| match uri {
        "/api" => group_list(&json!([group("", "v1", &json!([resource("pods", "Pod")]))])),
        _ => groups.clone(),
    });
    let resources = DiscoveryMapper(server.client()).load().await;
    assert_eq!(server.take_requests(), ["/api", "/apis"]);
    resources
}

#[tokio::test]
async fn metrics_api_with_legacy_discovery_hides_no_resources() {
    let apps = group("apps", "v1", &json!([resource("deployments", "Deployment")]));
    let broken = group("broken.example", "v1", &json!("none"));
    let batch = group("batch", "v1", &json!([resource("jobs", "Job")]));
    let groups = group_list(&json!([apps, custom_metrics(), broken, batch]));
    let resources = load(groups).await.unwrap();
    assert_eq!(resources.names().collect::<Vec<_>>(), ["pods", "deployments", "jobs"]);
    assert_eq!(resources.resolve("", "pod").unwrap().group_resource, GroupResource::pods());
}

#[tokio::test]
async fn error_names_the_unusable_response() {
    let start = "unable to read the resources of the API server: ";
    let groups_are_text = load(group_list(&json!("none"))).await.unwrap_err();
    let expected = format!("{start}unable to decode the response to /apis: items: invalid type: ");
    let text = describe(&groups_are_text);
    assert!(text.starts_with(&expected), "{text}");
    let text = describe(&load(Reply::json("<html>")).await.unwrap_err());
    let expected = format!("{start}unable to decode the response to /apis: expected value");
    assert!(text.starts_with(&expected), "{text}");
    let text = describe(&load(Reply::text(502, "bad gateway")).await.unwrap_err());
    assert!(text.starts_with(start) && text.contains("bad gateway"), "{text}");
}

#[tokio::test]
async fn legacy_discovery_has_the_same_resources() {
    let server = Server::new(|uri| {
        Reply::json(match uri {
            "/api" => r#"{"kind":"APIVersions","versions":["v1"]}"#,
            "/api/v1" => r#"{"resources":[{"name":"pods","kind":"Pod","verbs":null}]}"#,
            "/apis" => {
                r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[
                    {"name":"a","versions":[{"groupVersion":"a/v1","version":"v1"},
                                            {"groupVersion":"a/v2","version":"v2"}],
                     "preferredVersion":{"groupVersion":"a/v2","version":"v2"}},
                    {"name":"down","versions":[{"groupVersion":"down/v1","version":"v1"}]}]}"#
            }
            "/apis/a/v1" | "/apis/a/v2" => {
                r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"a/v1","resources":[
                    {"name":"cogs","singularName":"cog","kind":"Cog","namespaced":true,
                     "verbs":null,"shortNames":null},
                    {"name":"cogs/scale","kind":"Scale","verbs":["get"]}]}"#
            }
            _ => return Reply::text(503, "down"),
        })
    });
    let resources = DiscoveryMapper(server.client()).load().await.unwrap();
    assert_eq!(resources.names().collect::<Vec<_>>(), ["pods", "cogs"]);
    assert_eq!(resources.resolve("a", "cog").unwrap().version, "v2");
}

#[tokio::test]
async fn long_response_is_refused() {
    let body = |text: &str| Body::from(text.as_bytes().to_vec());
    assert_eq!(read_body("/apis", body("12345"), 5).await.unwrap(), b"12345");
    let error = read_body("/apis", body("123456"), 5).await.unwrap_err();
    assert_eq!(error.to_string(), "the response to /apis is longer than 5 bytes");
}
