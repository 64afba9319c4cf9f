//! Which resources the server has.

mod builtin;
mod crd;
mod resource;

use std::{collections::BTreeMap, sync::Arc};

pub(crate) use self::{
    crd::{establish, resource_of},
    resource::{Resource, ScalePaths, ScaleSelector, Version, api_version},
};
use crate::store::Key;

/// All resources, by group and plural.
#[derive(Clone, Debug)]
pub(crate) struct Registry {
    resources: BTreeMap<Key, Arc<Resource>>,
}

impl Registry {
    /// The built-in resources.
    pub(crate) fn new(autoscalers_count_generations: bool) -> Self {
        let mut registry = Self { resources: BTreeMap::new() };
        for mut resource in builtin::resources() {
            if resource.is_autoscaler() {
                resource.counts_generations = autoscalers_count_generations;
            }
            registry.insert(resource);
        }
        registry
    }

    pub(crate) fn insert(&mut self, resource: Resource) {
        self.resources.insert(resource.key(), Arc::new(resource));
    }

    pub(crate) fn remove(&mut self, key: &Key) {
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

    /// The versions of a group, the preferred one first; none if there is no such group.
    pub(crate) fn versions(&self, group: &str) -> Vec<&str> {
        let mut versions: Vec<&str> = Vec::new();
        for version in self.iter().filter(|one| one.group == group).flat_map(|one| &one.versions) {
            if !versions.contains(&version.name.as_str()) {
                versions.push(&version.name);
            }
        }
        versions
    }

    /// All groups but the core one.
    pub(crate) fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = self.iter().map(|one| one.group.as_str()).collect();
        groups.retain(|group| !group.is_empty());
        groups.dedup();
        groups
    }
}
