//! The resources of the Kubernetes API, and their lookup by name.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

/// A resource without its version: `pods`, `deployments.apps`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// The API group. It is empty for the core group.
    pub group: String,
    /// The plural name in lower case. In a [`CustomQuery`](crate::CustomQuery) of a client, the
    /// name as the client wrote it.
    pub resource: String,
}

impl GroupResource {
    /// A resource of a group. The group is empty for the core group.
    pub fn new(group: &str, resource: &str) -> Self {
        Self { group: group.to_owned(), resource: resource.to_owned() }
    }

    /// `namespaces`.
    pub fn namespaces() -> Self {
        Self::new("", "namespaces")
    }

    /// `nodes`.
    pub fn nodes() -> Self {
        Self::new("", "nodes")
    }

    /// `pods`.
    pub fn pods() -> Self {
        Self::new("", "pods")
    }

    /// Whether metrics of this resource are read per namespace. As in prometheus-adapter, these are
    /// all resources except namespaces, nodes and persistent volumes. Discovery doesn't matter.
    pub fn has_namespaced_metrics(&self) -> bool {
        let is_root_scoped = self.group.is_empty()
            && matches!(&*self.resource, "namespaces" | "nodes" | "persistentvolumes");
        !is_root_scoped
    }
}

impl fmt::Display for GroupResource {
    /// `resource.group`, or `resource` for the core group.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

/// A resource as API discovery describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiResource {
    /// The group and the plural name.
    pub group_resource: GroupResource,
    /// The first version with this resource, in the API server's order of preference.
    pub version: String,
    /// The kind of its objects.
    pub kind: String,
    /// The singular name in lower case.
    pub singular: String,
}

/// The API has no such resource, or the name of the resource is empty. The messages are those of
/// apimachinery's `RESTMapper`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} {group}/, Resource={resource}",
    if resource.is_empty() { "a resource must be present, got:" } else { "no matches for" }
)]
pub struct ResourceError {
    /// The requested group.
    pub group: String,
    /// The requested name.
    pub resource: String,
}

/// The resources that the API server has.
#[derive(Clone, Debug, Default)]
pub struct ApiResources {
    resources: Vec<ApiResource>,
    /// The positions of resources by plural and singular name.
    by_name: HashMap<String, Vec<usize>>,
}

impl ApiResources {
    /// Resources in the order of discovery. Leaves out a resource that an earlier version of its
    /// group has. If several groups have a resource of the same name, a lookup without a group
    /// returns the first one.
    pub fn new(resources: impl IntoIterator<Item = ApiResource>) -> Self {
        let mut all = Self::default();
        let mut known = HashSet::new();
        for resource in resources {
            if !known.insert(resource.group_resource.clone()) {
                continue;
            }
            let position = all.resources.len();
            let mut add = |name: &str| {
                let positions = all.by_name.entry(name.to_owned()).or_default();
                // The singular name may be the same as the plural one.
                if positions.last() != Some(&position) {
                    positions.push(position);
                }
            };
            add(&resource.group_resource.resource);
            add(&resource.singular);
            all.resources.push(resource);
        }
        all
    }

    /// Looks up a resource by its plural or singular name, ignoring case. An empty group means any
    /// group. If no group equals `group`, the first group that starts with `group` counts.
    pub fn resolve(&self, group: &str, name: &str) -> Result<&ApiResource, ResourceError> {
        let positions = self.by_name.get(&name.to_lowercase()).filter(|_| !name.is_empty());
        let positions = positions.map(Vec::as_slice).unwrap_or_default();
        let named = || positions.iter().filter_map(|position| self.resources.get(*position));
        let found = if group.is_empty() {
            named().next()
        } else {
            let exact = named().find(|resource| resource.group_resource.group == group);
            exact.or_else(|| {
                named().find(|resource| resource.group_resource.group.starts_with(group))
            })
        };
        found.ok_or_else(|| ResourceError { group: group.to_owned(), resource: name.to_owned() })
    }

    /// The first resource of exactly this group and kind.
    pub fn of_kind(&self, group: &str, kind: &str) -> Option<&ApiResource> {
        let is_of_kind = |resource: &&ApiResource| {
            resource.kind == kind && resource.group_resource.group == group
        };
        self.resources.iter().find(is_of_kind)
    }

    /// The plural names of all resources.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.resources.iter().map(|resource| &*resource.group_resource.resource)
    }

    /// The resource with exactly this group and plural name.
    pub fn get(&self, resource: &GroupResource) -> Option<&ApiResource> {
        let positions = self.by_name.get(&resource.resource)?;
        let mut named = positions.iter().filter_map(|position| self.resources.get(*position));
        named.find(|known| known.group_resource == *resource)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::test_doubles::resources;

    #[rstest]
    #[case::plural("", "pods", "pods")]
    #[case::singular("", "pod", "pods")]
    #[case::other_case("", "Pod", "pods")]
    #[case::any_group("", "ingress", "ingresses.networking.k8s.io")]
    #[case::exact_group("apps", "deployment", "deployments.apps")]
    #[case::group_prefix("networking", "ingress", "ingresses.networking.k8s.io")]
    #[case::first_of_several("", "event", "events")]
    #[case::second_of_several("events.k8s.io", "event", "events.events.k8s.io")]
    fn plural_and_singular_names_resolve(
        #[case] group: &str,
        #[case] name: &str,
        #[case] expected: &str,
    ) {
        let resources = resources();
        let resolved = resources.resolve(group, name).unwrap();
        assert_eq!(resolved.group_resource.to_string(), expected);
    }

    #[rstest]
    #[case::unknown("", "Widget", "no matches for /, Resource=Widget")]
    #[case::other_group("apps", "pod", "no matches for apps/, Resource=pod")]
    #[case::short_name("", "po", "no matches for /, Resource=po")]
    #[case::empty("apps", "", "a resource must be present, got: apps/, Resource=")]
    fn unknown_name_is_an_error(#[case] group: &str, #[case] name: &str, #[case] expected: &str) {
        let error = resources().resolve(group, name).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn resource_of_a_later_version_is_left_out() {
        let deployments = |version: &str| ApiResource {
            group_resource: GroupResource::new("apps", "deployments"),
            version: version.to_owned(),
            kind: "Deployment".to_owned(),
            singular: "deployment".to_owned(),
        };
        let resources = ApiResources::new(["v1", "v1beta1"].map(deployments));
        assert_eq!(resources.names().collect::<Vec<_>>(), ["deployments"]);
        assert_eq!(resources.resolve("", "deployment").unwrap().version, "v1");
    }
}
