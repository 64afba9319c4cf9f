//! Conversions from floats and sizes to integers.

/// Rounds up, saturating.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
pub fn ceil(value: f64) -> u32 {
    value.ceil() as u32
}

/// The number of pods that a load needs. A rounding error of the division doesn't add a pod.
pub fn pods_for(load: f64, per_pod: f64) -> u32 {
    ceil(load / per_pod * (1.0 - 1e-12))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inexact_division_needs_no_additional_pod() {
        let needed =
            [(2.1, 0.7), (2.2, 0.7), (0.0, 0.7)].map(|(load, per_pod)| pods_for(load, per_pod));
        assert_eq!(needed, [3, 4, 0]);
    }
}
