//! What a label's key and value may be, and the texts for those that are not
//! (k8s.io/apimachinery/pkg/api/validate/content).

use std::fmt::Write as _;

use super::{Operator, Requirement, SelectorError};

/// The longest name of a key, and the longest value, in bytes.
const NAME_LEN: usize = 63;
/// The longest prefix of a key, in bytes.
const SUBDOMAIN_LEN: usize = 253;

const KEY_ERROR: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_ERROR: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN_ERROR: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
    or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

impl Requirement {
    /// Go's `labels.NewRequirement`: all that is wrong is reported at once.
    pub(super) fn new(key: &str, operator: Operator, values: &[String]) -> Result<Self, SelectorError> {
        let mut errors: Vec<String> = Vec::new();
        errors.extend(self::key(key, "key").err());
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                errors.push(invalid_values(values, "for 'in', 'notin' operators, values set can't be empty"));
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
                errors.push(invalid_values(values, "exact-match compatibility requires one single value"));
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                errors.push(invalid_values(values, "values set must be empty for exists and does not exist"));
            }
            Operator::GreaterThan | Operator::LessThan => {
                if values.len() != 1 {
                    errors.push(invalid_values(
                        values,
                        "for 'Gt', 'Lt' operators, exactly one value is required",
                    ));
                }
                for (index, value) in
                    values.iter().enumerate().filter(|(_, value)| value.parse::<i64>().is_err())
                {
                    let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                    errors.push(invalid(&format!("values[{index}]"), &quote(value), detail));
                }
            }
            _ => {}
        }
        for (index, value) in values.iter().enumerate() {
            let reasons = value_errors(value);
            if !reasons.is_empty() {
                errors.push(invalid(&format!("values[{index}][{key}]"), &quote(value), &reasons.join("; ")));
            }
        }
        if errors.is_empty() {
            let mut values: Vec<Box<str>> = values.iter().map(|value| value.as_str().into()).collect();
            values.sort_unstable();
            return Ok(Self { key: key.into(), operator, values });
        }
        Err(SelectorError::Invalid(aggregate(errors)))
    }
}

/// Several messages as Go's aggregated errors print them: each once, in brackets if more than one is left.
fn aggregate(errors: Vec<String>) -> String {
    let mut seen: Vec<String> = Vec::with_capacity(errors.len());
    for error in errors {
        if !seen.contains(&error) {
            seen.push(error);
        }
    }
    match seen.as_slice() {
        [one] => one.clone(),
        more => format!("[{}]", more.join(", ")),
    }
}

fn invalid(path: &str, value: &str, detail: &str) -> String {
    format!("{path}: Invalid value: {value}: {detail}")
}

/// The message for a list of values, which is printed as JSON, `null` if it is empty.
fn invalid_values(values: &[String], detail: &str) -> String {
    let list = if values.is_empty() {
        "null".to_owned()
    } else {
        let values: Vec<String> = values.iter().map(|value| json(value)).collect();
        format!("[{}]", values.join(","))
    };
    invalid("values", &list, detail)
}

/// Checks a label's key; the error is the message for the field `path`.
pub(super) fn key(key: &str, path: &str) -> Result<(), String> {
    let reasons = key_errors(key);
    if reasons.is_empty() { Ok(()) } else { Err(invalid(path, &quote(key), &reasons.join("; "))) }
}

fn key_errors(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {KEY_ERROR} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > SUBDOMAIN_LEN {
                    errors.push(format!("prefix part must be no more than {SUBDOMAIN_LEN} bytes"));
                }
                if !is_subdomain(prefix) {
                    errors.push(format!("prefix part {SUBDOMAIN_ERROR}"));
                }
            }
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME_LEN {
        errors.push(format!("name part must be no more than {NAME_LEN} bytes"));
    }
    if !is_name(name) {
        errors.push(format!("name part {KEY_ERROR}"));
    }
    errors
}

fn value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > NAME_LEN {
        errors.push(format!("must be no more than {NAME_LEN} bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        errors.push(VALUE_ERROR.to_owned());
    }
    errors
}

fn is_name(name: &str) -> bool {
    let inner = |one: u8| one.is_ascii_alphanumeric() || matches!(one, b'-' | b'_' | b'.');
    is_delimited(name, |one| one.is_ascii_alphanumeric(), inner)
}

fn is_subdomain(name: &str) -> bool {
    let outer = |one: u8| one.is_ascii_lowercase() || one.is_ascii_digit();
    name.split('.').all(|label| is_delimited(label, outer, |one| outer(one) || one == b'-'))
}

/// Whether `text` begins and ends with an `outer` character and has only `inner` ones between.
fn is_delimited(text: &str, outer: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [one] => outer(*one),
        [first, middle @ .., last] => outer(*first) && outer(*last) && middle.iter().all(|one| inner(*one)),
    }
}

/// `text` as Go's `%q` prints it.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for one in text.chars() {
        match one {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            _ if is_printable(one) => quoted.push(one),
            // Writing to a string cannot fail.
            _ => {
                let _ = match u32::from(one) {
                    code @ (..0x20 | 0x7f) => write!(quoted, "\\x{code:02x}"),
                    code @ 0x80..0x1_0000 => write!(quoted, "\\u{code:04x}"),
                    code => write!(quoted, "\\U{code:08x}"),
                };
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Letters, marks, numbers, punctuation, symbols and the ASCII space.
fn is_printable(one: char) -> bool {
    // Debug escapes what is not printable, and combining marks at the start of a text; hence the letter before.
    let mut text = String::from("a");
    text.push(one);
    one.is_ascii_graphic() || one == ' ' || text.escape_debug().count() == 2
}

/// `text` as Go's `encoding/json` writes it, with HTML's special characters escaped.
fn json(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for one in text.chars() {
        match one {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\0'..' ' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a string cannot fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(one));
            }
            _ => quoted.push(one),
        }
    }
    quoted.push('"');
    quoted
}
