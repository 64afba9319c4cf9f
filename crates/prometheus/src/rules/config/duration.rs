//! Prometheus durations, such as `5m` or `1h30m`.

use std::time::Duration;

use hpa_calc::go_text::Quoted;

/// An invalid duration, with the message of Prometheus.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DurationError(String);

/// The units in milliseconds, from the largest to the smallest.
const UNITS: [(&str, u64); 7] = [
    ("y", 365 * 24 * 3_600_000),
    ("w", 7 * 24 * 3_600_000),
    ("d", 24 * 3_600_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];
/// `i64::MAX` nanoseconds, in milliseconds.
const MAX_MS: u64 = 9_223_372_036_854;

/// Parses a duration of Prometheus (`model.ParseDuration`).
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    match text {
        "0" => return Ok(Duration::ZERO),
        "" => return Err(DurationError("empty duration string".to_owned())),
        _ => {}
    }
    let invalid = || DurationError(format!("not a valid duration string: {}", Quoted(text)));
    let out_of_range = || DurationError("duration out of range".to_owned());
    let mut total_ms: u64 = 0;
    let mut units = UNITS.iter();
    let mut rest = text;
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|char: char| char.is_ascii_digit());
        let number = rest.strip_suffix(after).unwrap_or_default();
        let number: u64 = number.parse().map_err(|_| invalid())?;
        rest = after.trim_start_matches(|char: char| !char.is_ascii_digit());
        let unit = after.strip_suffix(rest).filter(|unit| !unit.is_empty()).ok_or_else(invalid)?;
        if !UNITS.iter().any(|(known, _)| *known == unit) {
            let (unit, text) = (Quoted(unit), Quoted(text));
            return Err(DurationError(format!("unknown unit {unit} in duration {text}")));
        }
        let (_, unit_ms) = units.find(|(known, _)| *known == unit).ok_or_else(invalid)?;
        let added = number.checked_mul(*unit_ms).and_then(|ms| ms.checked_add(total_ms));
        total_ms = added.filter(|ms| *ms <= MAX_MS).ok_or_else(out_of_range)?;
    }
    Ok(Duration::from_millis(total_ms))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::zero("0", 0)]
    #[case::minutes("5m", 300_000)]
    #[case::milliseconds("5ms", 5)]
    #[case::several("1h30m", 5_400_000)]
    #[case::all("1y1w1d1h1m1s1ms", 32_230_861_001)]
    #[case::longest("106751d", 9_223_286_400_000)]
    fn durations_parse(#[case] text: &str, #[case] ms: u64) {
        assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)));
    }

    #[rstest]
    #[case::empty("", "empty duration string")]
    #[case::no_unit("3", r#"not a valid duration string: "3""#)]
    #[case::unknown_unit("3x", r#"unknown unit "x" in duration "3x""#)]
    #[case::wrong_order("1m1h", r#"not a valid duration string: "1m1h""#)]
    #[case::repeated("1m1m", r#"not a valid duration string: "1m1m""#)]
    #[case::negative("-1m", r#"not a valid duration string: "-1m""#)]
    #[case::fraction("1.5m", r#"unknown unit "." in duration "1.5m""#)]
    #[case::too_long("300y", "duration out of range")]
    fn invalid_durations_are_errors(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(parse_duration(text).unwrap_err().to_string(), expected);
    }
}
