//! Groups, versions and verbs.

use crate::{registry::Resource, state::State};

/// What can be done with a resource: namespaces are deleted one by one.
pub(super) fn verbs(resource: &Resource) -> Vec<&'static str> {
    let spared = if resource.is_namespace() { "deletecollection" } else { "" };
    VERBS.iter().copied().filter(|verb| *verb != spared).collect()
}

const VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// What a subresource can do.
pub(super) const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];

/// The groups but the core one, with their versions, the metrics APIs among them.
pub(super) fn all_groups<'a>(
    state: &'a State,
    served: &'a [(String, String)],
) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = state
        .registry
        .groups()
        .into_iter()
        .map(|group| (group, state.registry.versions(group)))
        .collect();
    for (group, version) in served {
        match groups.iter_mut().find(|(name, _)| name == group) {
            Some((_, versions)) => versions.push(version),
            None => groups.push((group, vec![version])),
        }
    }
    groups
}
