//! Times as Prometheus writes them: seconds with up to three decimals.

use jiff::Timestamp;

/// Formats a time for a URL parameter.
pub(crate) fn format_seconds(time: Timestamp) -> String {
    let ms = time.as_millisecond();
    let sign = if ms < 0 { "-" } else { "" };
    let ms = ms.unsigned_abs();
    let text = format!("{sign}{}.{:03}", ms / 1000, ms % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Parses seconds into milliseconds, truncated.
pub(crate) fn parse_ms(text: &str) -> Option<i64> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_negative = seconds.starts_with('-');
    let seconds: i64 = seconds.parse().ok()?;
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    let fraction: i64 = digits.parse().ok()?;
    let fraction = if is_negative { -fraction } else { fraction };
    seconds.checked_mul(1000)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1700000000.123", Some(1_700_000_000_123))]
    #[case("1700000000.1239", Some(1_700_000_000_123))]
    #[case("1700000000.5", Some(1_700_000_000_500))]
    #[case("1700000000", Some(1_700_000_000_000))]
    #[case("-1.5", Some(-1500))]
    #[case("1e3", None)]
    #[case("x", None)]
    fn times_are_parsed(#[case] text: &str, #[case] ms: Option<i64>) {
        assert_eq!(parse_ms(text), ms);
    }

    #[rstest]
    #[case(1_700_000_000_123, "1700000000.123")]
    #[case(1_700_000_000_500, "1700000000.5")]
    #[case(1_700_000_000_000, "1700000000")]
    #[case(0, "0")]
    #[case(-1500, "-1.5")]
    #[case(-500, "-0.5")]
    fn times_are_written(#[case] ms: i64, #[case] text: &str) {
        assert_eq!(format_seconds(Timestamp::from_millisecond(ms).unwrap()), text);
    }
}
