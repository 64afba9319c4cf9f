//! Reads the objects to check from a cluster.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::Context;
use hpa_metrics::DiscoveryMapper;
use kube::Client;
use serde_json::Value;

use super::{
    served::{self, CUSTOM, EXTERNAL, METRICS_APIS},
    workspace::{ServedMetrics, Workspace, group},
};
use crate::{
    args::LintArguments,
    kubectl,
    manifests::{Manifest, text},
};

/// The name that KEDA lists instead of its metrics.
const PLACEHOLDER: &str = "externalmetrics";

/// The kinds that are listed: group and version, resource, and kind. All but the first may be
/// missing or forbidden.
const LISTS: [(&str, &str, &str); 9] = [
    ("apis/autoscaling/v2", hpa_crd::PLURAL, hpa_crd::KIND),
    ("apis/autoscaling.hpa-rs.dev/v2", hpa_crd::PLURAL, hpa_crd::KIND),
    ("apis/apps/v1", "deployments", "Deployment"),
    ("apis/apps/v1", "statefulsets", "StatefulSet"),
    ("apis/batch/v1", "cronjobs", "CronJob"),
    ("api/v1", "limitranges", "LimitRange"),
    ("apis/autoscaling.k8s.io/v1", "verticalpodautoscalers", "VerticalPodAutoscaler"),
    ("apis/keda.sh/v1alpha1", "scaledobjects", "ScaledObject"),
    ("apis/apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition"),
];
/// The kind without a namespace.
const CLUSTER_SCOPED: &str = "CustomResourceDefinition";

/// Lists the autoscalers of one or all namespaces, their usual targets, and the metrics of the
/// metrics APIs.
pub(super) async fn read(arguments: &LintArguments) -> anyhow::Result<Workspace> {
    let clients = kubectl::clients(&arguments.cluster).await?;
    let client = clients.api;
    let namespace = arguments.cluster.namespace.as_deref().filter(|_| !arguments.all_namespaces);
    let (mut objects, mut listed) = (Vec::new(), BTreeSet::new());
    for (index, (api, resource, kind)) in LISTS.into_iter().enumerate() {
        let scope = match namespace {
            Some(name) if kind != CLUSTER_SCOPED => format!("namespaces/{name}/"),
            _ => String::new(),
        };
        match list(&client, &format!("/{api}/{scope}{resource}"), kind).await {
            Ok(found) => {
                objects.extend(found);
                let group = group(api.trim_start_matches("apis/"));
                listed.insert((group.to_owned(), kind.to_owned()));
            }
            Err(error) if index == 0 => {
                return Err(error).context("unable to list the autoscalers");
            }
            // Not served, or no right to read it: the checks that need it find nothing.
            Err(_) => {}
        }
    }
    if objects.is_empty() {
        kubectl::require_namespace(&client, namespace).await?;
    }
    let mut served = served_by_apis(&client).await?;
    let mapper = Arc::new(DiscoveryMapper(client));
    if let Some(of_rules) = served::by_rules(&arguments.sources.rules, mapper).await? {
        served.add(of_rules);
    }
    Ok(Workspace::from_cluster(objects, listed, served))
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
            Manifest::new("cluster", 0, object)
        }));
        match text(&page, "/metadata/continue") {
            "" => return Ok(objects),
            next => token = format!("&continue={}", kubectl::escape(next)),
        }
    }
}

/// The metrics APIs with the metrics of their discovery.
async fn served_by_apis(client: &Client) -> anyhow::Result<ServedMetrics> {
    let groups: Value =
        kubectl::get(client, "/apis").await.context("unable to list the API groups")?;
    let groups = groups.get("groups").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut served = ServedMetrics { by: "the cluster", ..ServedMetrics::default() };
    for group in groups {
        let name = text(&group, "/name");
        if !METRICS_APIS.contains(&name) {
            continue;
        }
        served.groups.insert(name.to_owned());
        let version = text(&group, "/preferredVersion/groupVersion");
        match name {
            CUSTOM => served.custom = listed(client, version).await,
            EXTERNAL => served.external = listed(client, version).await,
            _ => {}
        }
    }
    Ok(served)
}

/// The metrics that the discovery of an API lists. `None` if the API is down, or if its server
/// doesn't list them.
async fn listed(client: &Client, version: &str) -> Option<BTreeSet<String>> {
    let resources: Value = kubectl::get(client, &format!("/apis/{version}")).await.ok()?;
    let resources = resources.get("resources")?.as_array()?;
    let names: BTreeSet<String> =
        resources.iter().map(|resource| text(resource, "/name").to_owned()).collect();
    let is_listed = !names.is_empty() && !names.contains(PLACEHOLDER);
    is_listed.then_some(names)
}
