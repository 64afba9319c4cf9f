//! Reads what is checked from a cluster.

use anyhow::Context;
use kube::Client;
use serde_json::Value;

use super::workspace::{ServedMetrics, Workspace};
use crate::{
    args::KubectlArguments,
    kubectl,
    manifests::{Manifest, text},
};

const METRICS_APIS: [&str; 3] =
    ["metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"];

/// What is listed: path and kind. The kinds after the first may be missing or forbidden.
const LISTS: [(&str, &str); 6] = [
    ("/apis/autoscaling/v2/horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    ("/apis/autoscaling.hpa-rs.dev/v2/horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    ("/apis/apps/v1/deployments", "Deployment"),
    ("/apis/apps/v1/statefulsets", "StatefulSet"),
    ("/apis/autoscaling.k8s.io/v1/verticalpodautoscalers", "VerticalPodAutoscaler"),
    ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "CustomResourceDefinition"),
];

/// Lists the autoscalers of all namespaces, their usual targets, and what the metrics APIs serve.
pub(super) async fn read(arguments: &KubectlArguments) -> anyhow::Result<Workspace> {
    let client = kubectl::clients(arguments).await?.api;
    let mut objects = Vec::new();
    for (index, (path, kind)) in LISTS.into_iter().enumerate() {
        match list(&client, path, kind).await {
            Ok(found) => objects.extend(found),
            Err(error) if index == 0 => {
                return Err(error).context("unable to list the autoscalers");
            }
            // Not served, or no right to read it: the checks that need it find nothing.
            Err(_) => {}
        }
    }
    let served = served(&client).await?;
    Ok(Workspace::from_cluster(objects, served))
}

async fn list(client: &Client, path: &str, kind: &str) -> anyhow::Result<Vec<Manifest>> {
    let (mut objects, mut token) = (Vec::new(), String::new());
    loop {
        let page: Value = kubectl::get(client, &format!("{path}?limit=500{token}")).await?;
        let api_version = text(&page, "/apiVersion").to_owned();
        let items = page.get("items").and_then(Value::as_array).into_iter().flatten();
        objects.extend(items.map(|item| {
            let mut object = item.clone();
            if let Some(members) = object.as_object_mut() {
                members.insert("kind".to_owned(), kind.into());
                members.insert("apiVersion".to_owned(), api_version.clone().into());
            }
            Manifest { file: "cluster".to_owned(), line: 0, object }
        }));
        match text(&page, "/metadata/continue") {
            "" => return Ok(objects),
            next => token = format!("&continue={}", kubectl::escape(next)),
        }
    }
}

async fn served(client: &Client) -> anyhow::Result<ServedMetrics> {
    let groups: Value =
        kubectl::get(client, "/apis").await.context("unable to list the API groups")?;
    let groups = groups.get("groups").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut served = ServedMetrics::default();
    for group in groups {
        let name = text(&group, "/name");
        if !METRICS_APIS.contains(&name) {
            continue;
        }
        served.groups.insert(name.to_owned());
        if name != "custom.metrics.k8s.io" {
            continue;
        }
        let version = text(&group, "/preferredVersion/groupVersion");
        let resources: Value = kubectl::get(client, &format!("/apis/{version}")).await?;
        let resources = resources.get("resources").and_then(Value::as_array).cloned();
        let names = resources.into_iter().flatten();
        served.custom.extend(names.map(|resource| text(&resource, "/name").to_owned()));
    }
    Ok(served)
}
