//! From floats to whole numbers.

/// The whole number at or above, within the range.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float is held at the bounds"
)]
pub(crate) fn ceil(value: f64) -> u32 {
    value.ceil() as u32
}

/// The nearest whole number, within the range.
#[allow(clippy::cast_possible_truncation, reason = "a float is held at the bounds")]
pub(crate) fn round(value: f64) -> i64 {
    value.round() as i64
}

/// How many, as the API counts.
pub(crate) fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
