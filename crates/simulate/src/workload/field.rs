//! Errors of invalid fields.

use hpa_calc::crd::FieldError;

pub(crate) fn field_error(field: impl Into<String>, message: impl ToString) -> FieldError {
    FieldError { field: field.into(), message: message.to_string() }
}

/// Returns an error unless the value of the field is valid.
pub(crate) fn ensure(
    is_valid: bool,
    field: impl Into<String>,
    message: impl ToString,
) -> Result<(), FieldError> {
    if is_valid { Ok(()) } else { Err(field_error(field, message)) }
}

/// Adds the path of a field to the error of one of its parts: `load: steps: must be in order`.
pub(crate) fn within(
    field: impl Into<String>,
    result: Result<(), FieldError>,
) -> Result<(), FieldError> {
    result.map_err(|error| field_error(field, error))
}

pub(crate) fn check_not_negative(field: impl Into<String>, value: f64) -> Result<(), FieldError> {
    let is_valid = value.is_finite() && value >= 0.0;
    ensure(is_valid, field, format!("must be a number of at least 0: {value}"))
}

pub(crate) fn check_positive(field: impl Into<String>, value: f64) -> Result<(), FieldError> {
    ensure(value.is_finite() && value > 0.0, field, "must be more than 0")
}

pub(crate) fn check_fraction(field: &str, value: f64) -> Result<(), FieldError> {
    ensure((0.0..=1.0).contains(&value), field, format!("must be between 0 and 1: {value}"))
}
