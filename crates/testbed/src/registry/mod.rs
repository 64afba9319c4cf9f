//! The resources that are served.

mod builtin;
mod crd;
mod resource;

use std::{collections::BTreeMap, sync::Arc};

pub(crate) use self::{
    crd::{establish, resource_from_crd},
    resource::{Resource, ScalePaths, ScaleSelector, Version, api_version},
};
use crate::store::ResourceKey;

/// All resources, by group and plural name.
#[derive(Clone, Debug)]
pub(crate) struct Registry {
    resources: BTreeMap<ResourceKey, Arc<Resource>>,
}

impl Registry {
    /// A registry with the built-in resources.
    pub(crate) fn new(hpa_generation: bool) -> Self {
        let mut registry = Self { resources: BTreeMap::new() };
        for mut resource in builtin::resources() {
            if resource.is_autoscaler() {
                resource.has_generation = hpa_generation;
            }
            registry.insert(resource);
        }
        registry
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
        groups.dedup();
        groups
    }
}
