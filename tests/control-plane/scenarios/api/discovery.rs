//! API discovery.

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};

use super::{get, send};
use crate::test_env::TestEnv;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The list entry with this value at a pointer.
fn entry<'a>(list: &'a Value, pointer: &str, value: &str) -> Result<&'a Value> {
    let entries = list.as_array().into_iter().flatten();
    let mut found = entries.filter(|entry| entry.pointer(pointer).is_some_and(|it| it == value));
    found.next().with_context(|| format!("no {value} in {list}"))
}

/// An entry without `storageVersionHash`.
fn without_hash(mut entry: Value) -> Value {
    entry.as_object_mut().map(|entry| entry.remove("storageVersionHash"));
    entry
}

/// Discovery by group and version.
pub(in super::super) async fn api_discovery(env: TestEnv) -> Result<()> {
    let verbs =
        json!(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]);
    let sub_verbs = json!(["get", "patch", "update"]);
    let apps = get(&env, "/apis/apps/v1").await?.ok()?;
    ensure!(apps["kind"] == "APIResourceList" && apps["groupVersion"] == "apps/v1", "{apps}");
    let expected = [
        json!({
            "name": "deployments", "singularName": "deployment", "namespaced": true,
            "kind": "Deployment", "verbs": verbs, "shortNames": ["deploy"], "categories": ["all"],
        }),
        json!({
            "name": "deployments/scale", "singularName": "", "namespaced": true,
            "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": sub_verbs,
        }),
        json!({
            "name": "deployments/status", "singularName": "", "namespaced": true,
            "kind": "Deployment", "verbs": sub_verbs,
        }),
    ];
    for expected in expected {
        let name = expected["name"].as_str().unwrap_or_default();
        let got = without_hash(entry(&apps["resources"], "/name", name)?.clone());
        ensure!(got == expected, "{got}");
    }
    let core = get(&env, "/api/v1").await?.ok()?;
    let namespaces = entry(&core["resources"], "/name", "namespaces")?;
    let verbs = json!(["create", "delete", "get", "list", "patch", "update", "watch"]);
    ensure!(namespaces["verbs"] == verbs && namespaces["namespaced"] == false, "{namespaces}");
    let groups = get(&env, "/apis").await?.ok()?;
    let group = entry(&groups["groups"], "/name", "autoscaling")?;
    let preferred = json!({"groupVersion": "autoscaling/v2", "version": "v2"});
    ensure!(group["preferredVersion"] == preferred, "{group}");
    for group in ["metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"] {
        entry(&groups["groups"], "/name", group)?;
    }
    let metrics = get(&env, "/apis/metrics.k8s.io/v1beta1").await?.ok()?;
    ensure!(entry(&metrics["resources"], "/name", "pods")?["kind"] == "PodMetrics", "{metrics}");
    let version = get(&env, "/version").await?.ok()?;
    ensure!(version["major"] == "1" && version["gitVersion"].is_string(), "{version}");
    ensure!(get(&env, "/readyz").await?.body == "ok");
    Ok(())
}

/// Aggregated discovery of all groups.
pub(in super::super) async fn api_aggregated_discovery(env: TestEnv) -> Result<()> {
    let document = send(&env, Method::GET, "/apis", AGGREGATED, &Value::Null).await?.ok()?;
    ensure!(document["kind"] == "APIGroupDiscoveryList", "{document}");
    let group = entry(&document["items"], "/metadata/name", "apps")?;
    let version = entry(&group["versions"], "/version", "v1")?;
    ensure!(version["freshness"] == "Current", "{version}");
    let deployment_kind = json!({"group": "", "version": "", "kind": "Deployment"});
    let scale = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
    let verbs = json!(["get", "patch", "update"]);
    let expected = json!({
        "resource": "deployments", "responseKind": deployment_kind,
        "scope": "Namespaced", "singularResource": "deployment",
        "verbs": [
            "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
        ],
        "shortNames": ["deploy"], "categories": ["all"],
        "subresources": [
            {"subresource": "scale", "responseKind": scale, "verbs": verbs},
            {"subresource": "status", "responseKind": deployment_kind, "verbs": verbs},
        ],
    });
    let deployments = entry(&version["resources"], "/resource", "deployments")?;
    ensure!(*deployments == expected, "{deployments}");
    let core = send(&env, Method::GET, "/api", AGGREGATED, &Value::Null).await?.ok()?;
    let maps = core
        .pointer("/items/0/versions/0/resources")
        .map(|list| entry(list, "/resource", "configmaps"));
    let maps = maps.context("no core group")??;
    ensure!(maps["shortNames"] == json!(["cm"]) && maps.get("subresources").is_none(), "{maps}");
    Ok(())
}
