//! Conversions from floats and sizes to integers.

/// Rounds up, saturating.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
pub fn ceil(value: f64) -> u32 {
    value.ceil() as u32
}

/// Rounds to the nearest integer, saturating.
#[allow(clippy::cast_possible_truncation, reason = "`as` saturates")]
pub fn round(value: f64) -> i64 {
    value.round() as i64
}

/// Converts a count, saturating.
pub fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
