//! Syntax checks of names, with the API server's texts
//! (k8s.io/apimachinery/pkg/api/validate/content).

/// The maximum length in bytes of a DNS label (RFC 1123) and of the name part of a qualified name.
pub(crate) const MAX_LABEL_LEN: usize = 63;
/// The maximum length in bytes of a DNS subdomain.
const MAX_SUBDOMAIN_LEN: usize = 253;

// The server has two texts for the same limit: one in characters for a name on its own, and one in
// bytes for a part of a qualified name or for a label's value.
pub(crate) const LABEL_TOO_LONG: &str = "must be no more than 63 characters";
const NAME_PART_TOO_LONG: &str = "must be no more than 63 bytes";
pub(crate) const LABEL_HAS_DOTS: &str = "must not contain dots";
pub(crate) const LABEL_MALFORMED: &str = "a lowercase RFC 1123 label must consist of lower case \
    alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. \
    'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
pub(crate) const SUBDOMAIN_TOO_LONG: &str = "must be no more than 253 characters";
const PREFIX_TOO_LONG: &str = "must be no more than 253 bytes";
const SUBDOMAIN_MALFORMED: &str = "a lowercase RFC 1123 subdomain must consist of lower \
    case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric \
    character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const NAME_PART_MALFORMED: &str = "must consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
    '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_MALFORMED: &str = "a valid label must be an empty string or consist of \
    alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
    character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// The violations of the syntax of a DNS subdomain. `too_long` is the text for a name that exceeds
/// the maximum length.
pub(crate) fn dns_subdomain_errors(
    name: &str,
    too_long: &'static str,
) -> impl Iterator<Item = &'static str> {
    let too_long = (name.len() > MAX_SUBDOMAIN_LEN).then_some(too_long);
    let malformed = (!is_dns_subdomain(name)).then_some(SUBDOMAIN_MALFORMED);
    too_long.into_iter().chain(malformed)
}

/// The violations of the syntax of a qualified name, such as a label key or a resource: a name with
/// an optional DNS subdomain and `/` before it.
pub(crate) fn qualified_name_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let (prefix, name) = match text.split_once('/') {
        None => (None, text),
        Some((prefix, name)) => (Some(prefix), name),
    };
    if name.contains('/') {
        let example = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
        return vec![format!("a valid label key {NAME_PART_MALFORMED} {example}")];
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
    } else if name.len() > MAX_LABEL_LEN {
        errors.push(format!("name part {NAME_PART_TOO_LONG}"));
    }
    if !is_name_part(name) {
        errors.push(format!("name part {NAME_PART_MALFORMED}"));
    }
    errors
}

/// The violations of the syntax of a label's value.
pub(crate) fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > MAX_LABEL_LEN {
        errors.push(NAME_PART_TOO_LONG.to_owned());
    }
    if !value.is_empty() && !is_name_part(value) {
        errors.push(LABEL_VALUE_MALFORMED.to_owned());
    }
    errors
}

/// Whether the text is a DNS label, of any length.
pub(crate) fn is_dns_label(text: &str) -> bool {
    let outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    is_delimited(text, outer, |byte| outer(byte) || byte == b'-')
}

/// Whether the text is a DNS subdomain, of any length.
pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

/// Whether the text is a valid name part of a qualified name, of any length. A non-empty label
/// value has the same syntax.
fn is_name_part(text: &str) -> bool {
    let outer = |byte: u8| byte.is_ascii_alphanumeric();
    is_delimited(text, outer, |byte| outer(byte) || matches!(byte, b'-' | b'_' | b'.'))
}

/// Whether the text begins and ends with an `outer` byte and has only `inner` bytes between.
fn is_delimited(text: &str, outer: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [byte] => outer(*byte),
        [first, middle @ .., last] => {
            outer(*first) && outer(*last) && middle.iter().all(|byte| inner(*byte))
        }
    }
}
