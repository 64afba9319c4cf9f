//! What a name may be, and the texts for those that are not (k8s.io/apimachinery/pkg/api/validate/content and the
//! resource names of core/v1).

use super::{
    field::{Causes, Path},
    text::{Json, Quoted},
};

/// The longest label of a DNS name in bytes (RFC 1123), and the longest name part of a qualified name.
const LABEL_LEN: usize = 63;
/// The longest DNS name in bytes.
const SUBDOMAIN_LEN: usize = 253;

// The server has two texts for the same limit: one where the name stands alone, one inside a qualified name.
const LABEL_TOO_LONG: &str = "must be no more than 63 characters";
const NAME_PART_TOO_LONG: &str = "must be no more than 63 bytes";
const LABEL_WITH_DOTS: &str = "must not contain dots";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_TOO_LONG: &str = "must be no more than 253 characters";
const PREFIX_TOO_LONG: &str = "must be no more than 253 bytes";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const NAME_PART: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// The prefix under which a quota counts a resource.
const QUOTA_PREFIX: &str = "requests.";
/// The resources that core/v1 names, with what a quota may count.
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

/// A name that becomes a segment of a URL's path. It may be empty, and as long as it likes.
pub(super) fn path_segment(causes: &mut Causes, path: &Path<'_>, name: &str) {
    let forbidden: &[(bool, &str)] = match name {
        "." => &[(true, "may not be '.'")],
        ".." => &[(true, "may not be '..'")],
        _ => &[(name.contains('/'), "may not contain '/'"), (name.contains('%'), "may not contain '%'")],
    };
    for (_, detail) in forbidden.iter().filter(|(found, _)| *found) {
        causes.invalid(path, Quoted(name), detail);
    }
}

/// A label of a DNS name, as containers have it.
pub(super) fn dns_label(causes: &mut Causes, path: &Path<'_>, name: &str) {
    if name.len() > LABEL_LEN {
        causes.invalid(path, Quoted(name), LABEL_TOO_LONG);
    }
    if !is_dns_label(name) {
        let detail = if is_dns_subdomain(name) { LABEL_WITH_DOTS } else { LABEL };
        causes.invalid(path, Quoted(name), detail);
    }
}

/// A DNS name, as objects have it.
pub(super) fn dns_subdomain(causes: &mut Causes, path: &Path<'_>, name: &str) {
    for detail in dns_subdomain_errors(name, SUBDOMAIN_TOO_LONG) {
        causes.invalid(path, Quoted(name), detail);
    }
}

/// A resource that a container can request: one of core/v1, or an extended resource like `example.com/gpu`.
pub(super) fn container_resource(causes: &mut Causes, path: &Path<'_>, name: &str) {
    let qualified = qualified_name_errors(name);
    let plain = !name.contains('/');
    if qualified.is_empty() && plain && !is_standard_resource(name) {
        causes.invalid(path, Json(name), "must be a standard resource type or fully qualified");
    }
    for detail in qualified {
        causes.invalid(path, Quoted(name), &detail);
    }
    if plain && !is_standard_container_resource(name) {
        causes.invalid(path, Json(name), "must be a standard resource for containers");
    }
    if !plain && !name.contains("kubernetes.io/") && !is_extended_resource(name) {
        causes.invalid(path, Json(name), "doesn't follow extended resource name standard");
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

/// Whether a quota can count the resource under its own prefix; the name is known not to be Kubernetes' own.
fn is_extended_resource(name: &str) -> bool {
    !name.starts_with(QUOTA_PREFIX) && qualified_name_errors(&format!("{QUOTA_PREFIX}{name}")).is_empty()
}

fn dns_subdomain_errors(name: &str, too_long: &'static str) -> impl Iterator<Item = &'static str> {
    let too_long = (name.len() > SUBDOMAIN_LEN).then_some(too_long);
    let malformed = (!is_dns_subdomain(name)).then_some(SUBDOMAIN);
    too_long.into_iter().chain(malformed)
}

fn qualified_name_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let (prefix, name) = match text.split_once('/') {
        None => (None, text),
        Some((prefix, name)) => (Some(prefix), name),
    };
    if name.contains('/') {
        let example = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
        return vec![format!("a valid label key {NAME_PART} {example}")];
    }
    match prefix {
        None => {}
        Some("") => errors.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            errors.extend(
                dns_subdomain_errors(prefix, PREFIX_TOO_LONG).map(|error| format!("prefix part {error}")),
            );
        }
    }
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_LEN {
        errors.push(format!("name part {NAME_PART_TOO_LONG}"));
    }
    if !is_name_part(name) {
        errors.push(format!("name part {NAME_PART}"));
    }
    errors
}

fn is_dns_label(text: &str) -> bool {
    let outer = |one: u8| one.is_ascii_lowercase() || one.is_ascii_digit();
    is_delimited(text, outer, |one| outer(one) || one == b'-')
}

fn is_dns_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

fn is_name_part(text: &str) -> bool {
    let outer = |one: u8| one.is_ascii_alphanumeric();
    is_delimited(text, outer, |one| outer(one) || matches!(one, b'-' | b'_' | b'.'))
}

/// Whether the text begins and ends with an `outer` character and has only `inner` ones between.
fn is_delimited(text: &str, outer: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [one] => outer(*one),
        [first, middle @ .., last] => outer(*first) && outer(*last) && middle.iter().all(|one| inner(*one)),
    }
}
