//! Compares resources with kinds.

use hpa_calc::api::plural;
use hpa_metrics::resource::GroupResource;

/// The group of an API version. Empty for the core group.
pub(super) fn group(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

/// Whether the requested `resource` names this kind. Clients may use the plural or the singular. If
/// the resource or the API version has no group, the groups are not compared.
pub(super) fn is_of_kind(resource: &GroupResource, api_version: &str, kind: &str) -> bool {
    let group = group(api_version);
    let is_group = resource.group == group || resource.group.is_empty() || group.is_empty();
    is_group && (resource.resource == plural(kind) || resource.resource == kind.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_plural_and_singular_names() {
        let ingresses = GroupResource::new("networking.k8s.io", "ingresses");
        assert!(is_of_kind(&ingresses, "networking.k8s.io/v1", "Ingress"));
        assert!(is_of_kind(&GroupResource::new("", "ingress"), "networking.k8s.io/v1", "Ingress"));
        assert!(!is_of_kind(&ingresses, "example.org/v1", "Ingress"));
        assert!(!is_of_kind(&ingresses, "networking.k8s.io/v1", "RouteGroup"));
    }
}
