//! Groups, versions and verbs, for both forms of discovery.

use crate::{registry::Resource, state::State};

/// The verbs of a resource. Namespaces have no `deletecollection`.
pub(super) fn verbs(resource: &Resource) -> Vec<&'static str> {
    let spared = if resource.is_namespace() { "deletecollection" } else { "" };
    VERBS.iter().copied().filter(|verb| *verb != spared).collect()
}

const VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The verbs of a subresource.
pub(super) const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];

/// All groups except the core group with their versions, the metrics APIs included.
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
