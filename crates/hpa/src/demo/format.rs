//! Numbers and times for people.

pub(crate) use hpa_calc::explain::{minutes, number};

/// Formats `part / whole` as a percentage, or `-` if `whole` is zero.
pub(crate) fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.1}%", part / whole * 100.0) } else { "-".to_owned() }
}
