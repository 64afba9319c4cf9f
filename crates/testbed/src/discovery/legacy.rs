//! Unaggregated discovery: one document per group and version.

use serde_json::{Value, json};

use super::groups::{SUBRESOURCE_VERBS, all_groups, verbs};
use crate::{
    metrics_provider,
    registry::{Resource, Version, api_version},
    state::State,
};

type Served = [(String, String)];

pub(super) fn versions() -> Value {
    json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] })
}

pub(super) fn groups(state: &State, served: &Served) -> Value {
    let groups: Vec<Value> = all_groups(state, served)
        .iter()
        .map(|(name, versions)| api_group(name, versions))
        .collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

pub(super) fn group(state: &State, served: &Served, name: &str) -> Option<Value> {
    let groups = all_groups(state, served);
    let (_, versions) = groups.iter().find(|(own, _)| *own == name)?;
    let mut group = api_group(name, versions);
    crate::json::set(&mut group, &["kind"], "APIGroup");
    crate::json::set(&mut group, &["apiVersion"], "v1");
    Some(group)
}

fn api_group(name: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({ "groupVersion": api_version(name, version), "version": version }))
        .collect();
    json!({ "name": name, "versions": versions, "preferredVersion": versions.first() })
}

pub(super) fn resources(
    state: &State,
    served: &Served,
    group: &str,
    version: &str,
) -> Option<Value> {
    let is_metrics = served.iter().any(|(own, one)| own == group && one == version);
    let resources: Vec<Value> = if is_metrics {
        metrics_provider::resources(group)
    } else {
        let served = state.registry.iter().filter(|resource| resource.group == group);
        served
            .filter_map(|resource| Some((resource, resource.version(version)?)))
            .flat_map(|(resource, version)| entries(resource, version))
            .collect()
    };
    let exists = is_metrics || !resources.is_empty();
    exists.then(|| {
        let group_version = api_version(group, version);
        json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
            "resources": resources,
        })
    })
}

fn entries(resource: &Resource, version: &Version) -> Vec<Value> {
    let mut main = json!({
        "name": resource.plural, "singularName": resource.singular, "kind": resource.kind,
        "namespaced": resource.namespaced, "verbs": verbs(resource),
    });
    if !resource.short_names.is_empty() {
        crate::json::set(&mut main, &["shortNames"], resource.short_names.clone());
    }
    if !resource.categories.is_empty() {
        crate::json::set(&mut main, &["categories"], resource.categories.clone());
    }
    let mut entries = vec![main];
    if version.scale.is_some() {
        entries.push(json!({
            "name": format!("{}/scale", resource.plural), "singularName": "", "kind": "Scale",
            "group": "autoscaling", "version": "v1", "namespaced": resource.namespaced,
            "verbs": SUBRESOURCE_VERBS,
        }));
    }
    if version.has_status {
        entries.push(json!({
            "name": format!("{}/status", resource.plural), "singularName": "",
            "kind": resource.kind, "namespaced": resource.namespaced, "verbs": SUBRESOURCE_VERBS,
        }));
    }
    entries
}
