//! The resources of the objects that metrics describe.

use hpa_calc::api::{CrossVersionObjectReference, plural};
use hpa_metrics::resource::GroupResource;

/// The resource of an object.
pub(super) fn resource_of(object: &CrossVersionObjectReference) -> GroupResource {
    GroupResource::new(object.group(), &plural(&object.kind))
}

/// Whether `requested` names the resource of an object. Clients may use the plural or the singular.
/// If one of the two has no group, the groups are not compared.
pub(super) fn is_resource_of(
    requested: &GroupResource,
    object: &CrossVersionObjectReference,
) -> bool {
    let GroupResource { group, resource } = resource_of(object);
    let is_group = requested.group == group || requested.group.is_empty() || group.is_empty();
    let name = &requested.resource;
    is_group && (*name == resource || *name == object.kind.to_lowercase())
}

/// Whether `requested` names pods. Clients may use the plural or the singular.
pub(super) fn is_pods(requested: &GroupResource) -> bool {
    requested.group.is_empty() && matches!(&*requested.resource, "pods" | "pod")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_plural_and_singular_names() {
        let object = |api_version: &str, kind: &str| CrossVersionObjectReference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            ..CrossVersionObjectReference::default()
        };
        let ingress = object("networking.k8s.io/v1", "Ingress");
        let ingresses = GroupResource::new("networking.k8s.io", "ingresses");
        assert!(is_resource_of(&ingresses, &ingress));
        assert!(is_resource_of(&GroupResource::new("", "ingress"), &ingress));
        assert!(!is_resource_of(&ingresses, &object("example.org/v1", "Ingress")));
        assert!(!is_resource_of(&ingresses, &object("networking.k8s.io/v1", "RouteGroup")));
        assert!(is_pods(&GroupResource::pods()) && is_pods(&GroupResource::new("", "pod")));
        assert!(!is_pods(&GroupResource::new("example.org", "pods")));
    }
}
