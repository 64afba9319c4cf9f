//! The resources that the server has: built-in ones, and those that CRDs define.

mod builtin;
mod resource;

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

pub(crate) use self::resource::{Resource, ScalePaths, ScaleSelector, Version, api_version};
use crate::{json_fields, store::ResourceKey};

/// All resources, by group and plural name.
#[derive(Clone, Debug)]
pub(crate) struct Registry {
    resources: BTreeMap<ResourceKey, Arc<Resource>>,
}

impl Registry {
    /// A registry with the built-in resources.
    pub(crate) fn new() -> Self {
        let resources = builtin::resources().map(|resource| (resource.key(), Arc::new(resource)));
        Self { resources: resources.collect() }
    }

    pub(crate) fn insert(&mut self, resource: Resource) {
        self.resources.insert(resource.key(), Arc::new(resource));
    }

    pub(crate) fn remove(&mut self, key: &ResourceKey) {
        self.resources.remove(key);
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let resource = self.resources.get(&(group.to_owned(), plural.to_owned()))?;
        resource.version(version).map(|_| resource)
    }

    pub(crate) fn find_kind(
        &self,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Option<&Arc<Resource>> {
        self.iter()
            .find(|one| one.group == group && one.kind == kind && one.version(version).is_some())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// The versions of a group, the preferred one first. Empty if the group doesn't exist.
    pub(crate) fn versions(&self, group: &str) -> Vec<&str> {
        let mut versions: Vec<&str> = Vec::new();
        for version in self.iter().filter(|one| one.group == group).flat_map(|one| &one.versions) {
            if !versions.contains(&version.name.as_str()) {
                versions.push(&version.name);
            }
        }
        versions
    }

    /// All groups except the core group.
    pub(crate) fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = self.iter().map(|one| one.group.as_str()).collect();
        groups.retain(|group| !group.is_empty());
        // The resources are sorted by group.
        groups.dedup();
        groups
    }
}

pub(crate) fn resource_from_crd(crd: &Value) -> Resource {
    let name = |field: &str| json_fields::str_at(crd, &format!("/spec/names/{field}")).to_owned();
    let names = |field: &str| {
        json_fields::array_at(crd, &format!("/spec/names/{field}"))
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect()
    };
    let mut versions: Vec<Version> = json_fields::array_at(crd, "/spec/versions")
        .filter(|version| version.get("served").and_then(Value::as_bool).unwrap_or(true))
        .map(version_from_crd)
        .collect();
    versions.sort_by_cached_key(|version| {
        Reverse(kube::core::Version::parse(&version.name).priority())
    });
    let kind = name("kind");
    Resource {
        group: json_fields::str_at(crd, "/spec/group").to_owned(),
        versions,
        plural: name("plural"),
        singular: non_empty_or(name("singular"), kind.to_lowercase()),
        list_kind: non_empty_or(name("listKind"), format!("{kind}List")),
        kind,
        short_names: names("shortNames"),
        categories: names("categories"),
        namespaced: json_fields::str_at(crd, "/spec/scope") != "Cluster",
        has_generation: true,
        is_custom: true,
    }
}

/// Sets the status of a CRD. Unlike in kube-apiserver, the CRD is established at once.
pub(crate) fn establish(crd: &mut Value, now: &str) {
    let resource = resource_from_crd(crd);
    let names = json!({
        "plural": resource.plural, "singular": resource.singular, "kind": resource.kind,
        "listKind": resource.list_kind, "shortNames": resource.short_names,
        "categories": resource.categories,
    });
    let condition = |name: &str, reason: &str, message: &str| {
        json!({
            "type": name, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": now,
        })
    };
    let accepted = "the initial names have been accepted";
    let stored: Vec<&str> = json_fields::array_at(crd, "/spec/versions")
        .filter(|version| version.get("storage").and_then(Value::as_bool) == Some(true))
        .map(|version| json_fields::str_at(version, "/name"))
        .collect();
    let status = json!({
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", accepted),
        ],
        "acceptedNames": names,
        "storedVersions": stored,
    });
    json_fields::set(crd, &["status"], status);
}

fn version_from_crd(version: &Value) -> Version {
    Version {
        name: json_fields::str_at(version, "/name").to_owned(),
        has_status: version.pointer("/subresources/status").is_some(),
        scale: version.pointer("/subresources/scale").map(scale_from_crd),
        columns: json_fields::array_at(version, "/additionalPrinterColumns").cloned().collect(),
        schema: version.pointer("/schema/openAPIV3Schema").cloned(),
    }
}

fn scale_from_crd(scale: &Value) -> ScalePaths {
    let path = |field: &str| json_fields::pointer_from_json_path(json_fields::str_at(scale, field));
    let selector = match path("/labelSelectorPath") {
        pointer if pointer.is_empty() => ScaleSelector::None,
        pointer => ScaleSelector::Text(pointer),
    };
    let (spec_replicas, status_replicas) = (path("/specReplicasPath"), path("/statusReplicasPath"));
    ScalePaths { spec_replicas, status_replicas, selector }
}

fn non_empty_or(text: String, fallback: String) -> String {
    if text.is_empty() { fallback } else { text }
}
