//! The rules for names in a spec.

use super::field::{Causes, Path};
use crate::{
    go_text::{JsonString, Quoted},
    names::{
        LABEL_HAS_DOTS, LABEL_MALFORMED, LABEL_TOO_LONG, MAX_LABEL_LEN, SUBDOMAIN_TOO_LONG,
        dns_subdomain_errors, is_dns_label, is_dns_subdomain, qualified_name_errors,
    },
};

/// The prefix of resources that a quota counts.
const QUOTA_PREFIX: &str = "requests.";
/// The resources of core/v1, including those that only quotas count.
const STANDARD_RESOURCES: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Validates a name that becomes a segment of a URL path. It may have any length and be empty.
pub(super) fn path_segment(causes: &mut Causes, path: &Path<'_>, name: &str) {
    if matches!(name, "." | "..") {
        causes.invalid(path, Quoted(name), &format!("may not be '{name}'"));
    }
    for char in ['/', '%'].into_iter().filter(|char| name.contains(*char)) {
        causes.invalid(path, Quoted(name), &format!("may not contain '{char}'"));
    }
}

/// Validates a DNS label, such as the name of a container.
pub(super) fn dns_label(causes: &mut Causes, path: &Path<'_>, name: &str) {
    if name.len() > MAX_LABEL_LEN {
        causes.invalid(path, Quoted(name), LABEL_TOO_LONG);
    }
    if !is_dns_label(name) {
        let detail = if is_dns_subdomain(name) { LABEL_HAS_DOTS } else { LABEL_MALFORMED };
        causes.invalid(path, Quoted(name), detail);
    }
}

/// Validates a DNS subdomain, such as the name of an object.
pub(super) fn dns_subdomain(causes: &mut Causes, path: &Path<'_>, name: &str) {
    for detail in dns_subdomain_errors(name, SUBDOMAIN_TOO_LONG) {
        causes.invalid(path, Quoted(name), detail);
    }
}

/// Validates the name of a resource that a container can request: one of core/v1, or an extended
/// resource such as `example.com/gpu`.
pub(super) fn container_resource(causes: &mut Causes, path: &Path<'_>, name: &str) {
    let qualified = qualified_name_errors(name);
    let plain = !name.contains('/');
    if qualified.is_empty() && plain && !is_standard_resource(name) {
        causes.invalid(
            path,
            JsonString(name),
            "must be a standard resource type or fully qualified",
        );
    }
    for detail in qualified {
        causes.invalid(path, Quoted(name), &detail);
    }
    if plain && !is_standard_container_resource(name) {
        causes.invalid(path, JsonString(name), "must be a standard resource for containers");
    }
    if !plain && !name.contains("kubernetes.io/") && !is_extended_resource(name) {
        causes.invalid(path, JsonString(name), "doesn't follow extended resource name standard");
    }
}

fn is_standard_resource(name: &str) -> bool {
    STANDARD_RESOURCES.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}

fn is_standard_container_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

/// Whether the name of an extended resource is valid: without the prefix of quotas, and still a
/// qualified name if that prefix is added.
fn is_extended_resource(name: &str) -> bool {
    !name.starts_with(QUOTA_PREFIX)
        && qualified_name_errors(&format!("{QUOTA_PREFIX}{name}")).is_empty()
}
