//! Validation of requirements, with the texts of k8s.io/apimachinery/pkg/labels. The texts about
//! keys and values are in [`crate::names`].

use std::fmt::Display;

use super::{Operator, Requirement, SelectorError};
use crate::{
    go_text::{JsonString, Quoted, join_errors},
    names::{label_value_errors, qualified_name_errors},
};

/// The maximum number of errors of values in a message, since a selector can have very many values.
const MAX_ERRORS: usize = 100;
/// Above this length of a message in bytes, no errors of values are added. Each repeats the key,
/// which may be long if it is invalid.
const MAX_ERROR_BYTES: usize = 64 << 10;

impl Requirement {
    /// Go's `labels.NewRequirement`. It reports all violations at once.
    pub(super) fn new(
        key: &str,
        operator: Operator,
        values: &[String],
    ) -> Result<Self, SelectorError> {
        let mut errors: Vec<String> = Vec::new();
        errors.extend(key_error(key, "key"));
        let has_one_value = values.len() == 1;
        let (has_valid_count, expected) = match operator {
            Operator::In | Operator::NotIn => {
                (!values.is_empty(), "for 'in', 'notin' operators, values set can't be empty")
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals => {
                (has_one_value, "exact-match compatibility requires one single value")
            }
            Operator::Exists | Operator::DoesNotExist => {
                (values.is_empty(), "values set must be empty for exists and does not exist")
            }
            Operator::GreaterThan | Operator::LessThan => {
                (has_one_value, "for 'Gt', 'Lt' operators, exactly one value is required")
            }
        };
        if !has_valid_count {
            errors.push(invalid_values(values, expected));
        }
        if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
            let non_integers =
                values.iter().enumerate().filter(|(_, value)| value.parse::<i64>().is_err());
            for (index, value) in non_integers.take(MAX_ERRORS) {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(invalid(&format!("values[{index}]"), Quoted(value), detail));
            }
        }
        let mut bytes: usize = errors.iter().map(String::len).sum();
        for (index, value) in values.iter().enumerate() {
            if errors.len() >= MAX_ERRORS || bytes > MAX_ERROR_BYTES {
                break;
            }
            let reasons = label_value_errors(value);
            if !reasons.is_empty() {
                let path = format!("values[{index}][{key}]");
                let error = invalid(&path, Quoted(value), &reasons.join("; "));
                bytes += error.len();
                errors.push(error);
            }
        }
        if !errors.is_empty() {
            return Err(SelectorError::Invalid(join_errors(errors)));
        }
        let mut values: Vec<Box<str>> = values.iter().map(|value| value.as_str().into()).collect();
        values.sort_unstable();
        Ok(Self { key: key.into(), operator, values })
    }
}

fn invalid(path: &str, value: impl Display, detail: &str) -> String {
    format!("{path}: Invalid value: {value}: {detail}")
}

/// The message for an invalid list of values. The list is printed as JSON, an empty one as `null`.
fn invalid_values(values: &[String], detail: &str) -> String {
    let list = if values.is_empty() {
        "null".to_owned()
    } else {
        let values: Vec<String> =
            values.iter().map(|value| JsonString(value).to_string()).collect();
        format!("[{}]", values.join(","))
    };
    invalid("values", list, detail)
}

/// The message for the field `path` if `key` is not a label key.
pub(super) fn key_error(key: &str, path: &str) -> Option<String> {
    let reasons = qualified_name_errors(key);
    (!reasons.is_empty()).then(|| invalid(path, Quoted(key), &reasons.join("; ")))
}
