//! Aggregated discovery (`apidiscovery.k8s.io/v2`).

use serde_json::{Value, json};

use super::groups::{SUBRESOURCE_VERBS, all_groups, verbs};
use crate::{
    json, metrics_provider,
    registry::{Resource, Version},
    state::State,
};

pub(super) fn core(state: &State) -> Value {
    list(vec![group(state, &[], "", &state.registry.versions(""))])
}

pub(super) fn groups(state: &State, served: &[(String, String)]) -> Value {
    let groups = all_groups(state, served);
    list(groups.iter().map(|(name, versions)| group(state, served, name, versions)).collect())
}

fn list(groups: Vec<Value>) -> Value {
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": groups,
    })
}

fn group(state: &State, served: &[(String, String)], name: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            let is_metrics = served.iter().any(|(own, one)| own == name && one == version);
            let resources = if is_metrics {
                metric_resources(name, version)
            } else {
                resources(state, name, version)
            };
            json!({ "version": version, "resources": resources, "freshness": "Current" })
        })
        .collect();
    json!({ "metadata": { "name": name }, "versions": versions })
}

fn resources(state: &State, group: &str, version: &str) -> Vec<Value> {
    let of_group = state.registry.iter().filter(|resource| resource.group == group);
    of_group.filter_map(|resource| Some(entry(resource, resource.version(version)?))).collect()
}

fn entry(resource: &Resource, version: &Version) -> Value {
    // As in kube-apiserver, the kinds of built-in resources have no group and version.
    let own_kind = if resource.is_custom {
        kind(&resource.group, &version.name, &resource.kind)
    } else {
        kind("", "", &resource.kind)
    };
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": own_kind,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": verbs(resource),
    });
    let mut subresources = Vec::new();
    if version.scale.is_some() {
        let kind = kind("autoscaling", "v1", "Scale");
        subresources.push(
            json!({ "subresource": "scale", "responseKind": kind, "verbs": SUBRESOURCE_VERBS }),
        );
    }
    if version.has_status {
        subresources.push(json!({
            "subresource": "status", "responseKind": own_kind, "verbs": SUBRESOURCE_VERBS,
        }));
    }
    for (field, list) in [
        ("shortNames", json!(resource.short_names)),
        ("categories", json!(resource.categories)),
        ("subresources", json!(subresources)),
    ] {
        if list.as_array().is_some_and(|list| !list.is_empty()) {
            json::set(&mut entry, &[field], list);
        }
    }
    entry
}

fn metric_resources(group: &str, version: &str) -> Vec<Value> {
    let entry = |resource: &Value| {
        let is_namespaced = resource.get("namespaced").and_then(Value::as_bool) == Some(true);
        json!({
            "resource": json::str_at(resource, "/name"),
            "responseKind": kind(group, version, json::str_at(resource, "/kind")),
            "scope": if is_namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": json::str_at(resource, "/singularName"),
            "verbs": resource.get("verbs"),
        })
    };
    metrics_provider::resources(group).iter().map(entry).collect()
}

fn kind(group: &str, version: &str, kind: &str) -> Value {
    json!({ "group": group, "version": version, "kind": kind })
}
