//! What a name may be, and the texts for those that are not (k8s.io/apimachinery/pkg/api/validate/content).

/// The longest label of a DNS name in bytes (RFC 1123), and the longest name part of a qualified name.
pub(crate) const LABEL_LEN: usize = 63;
/// The longest DNS name in bytes.
pub(crate) const SUBDOMAIN_LEN: usize = 253;

// The server has two texts for the same limit: one where the name stands alone, one inside a qualified name.
pub(crate) const LABEL_TOO_LONG: &str = "must be no more than 63 characters";
pub(crate) const NAME_PART_TOO_LONG: &str = "must be no more than 63 bytes";
pub(crate) const LABEL_WITH_DOTS: &str = "must not contain dots";
pub(crate) const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
pub(crate) const SUBDOMAIN_TOO_LONG: &str = "must be no more than 253 characters";
pub(crate) const PREFIX_TOO_LONG: &str = "must be no more than 253 bytes";
pub(crate) const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
pub(crate) const NAME_PART: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// What is wrong with a DNS name.
pub(crate) fn dns_subdomain_errors(
    name: &str,
    too_long: &'static str,
) -> impl Iterator<Item = &'static str> {
    let too_long = (name.len() > SUBDOMAIN_LEN).then_some(too_long);
    let malformed = (!is_dns_subdomain(name)).then_some(SUBDOMAIN);
    too_long.into_iter().chain(malformed)
}

/// What is wrong with a name that may have a DNS name before it: a label's key, a resource.
pub(crate) fn qualified_name_errors(text: &str) -> Vec<String> {
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
                dns_subdomain_errors(prefix, PREFIX_TOO_LONG)
                    .map(|error| format!("prefix part {error}")),
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

/// Whether it is a label of a DNS name, of any length.
pub(crate) fn is_dns_label(text: &str) -> bool {
    let outer = |one: u8| one.is_ascii_lowercase() || one.is_ascii_digit();
    is_delimited(text, outer, |one| outer(one) || one == b'-')
}

/// Whether it is a DNS name, of any length.
pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

/// Whether it is a name such as a label's value, of any length and not empty.
pub(crate) fn is_name_part(text: &str) -> bool {
    let outer = |one: u8| one.is_ascii_alphanumeric();
    is_delimited(text, outer, |one| outer(one) || matches!(one, b'-' | b'_' | b'.'))
}

/// Whether the text begins and ends with an `outer` character and has only `inner` ones between.
fn is_delimited(text: &str, outer: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [one] => outer(*one),
        [first, middle @ .., last] => {
            outer(*first) && outer(*last) && middle.iter().all(|one| inner(*one))
        }
    }
}
