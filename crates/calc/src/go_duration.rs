//! Durations in Go's notation.

use jiff::SignedDuration;

use crate::quantity::split_digits;

/// The error of a text that is not a duration: a number is missing, a unit is missing or unknown,
/// or the result has more than 64 bits of nanoseconds. The messages are those of Go's package
/// `time`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time: {0}")]
pub struct DurationError(String);

/// The largest magnitude of a negative duration, in nanoseconds. That of a positive duration is one
/// less.
const MAX_MAGNITUDE: u64 = 1 << 63;

/// Parses a signed sequence of decimal numbers, each with a unit: `-1.5h`, `1m30s`, `0`.
///
/// The result is within 64 bits of nanoseconds (292 years). Go's `time.ParseDuration` returns the
/// same, also where it rounds a fraction.
///
/// ```
/// use hpa_calc::go_duration;
/// use jiff::SignedDuration;
///
/// assert_eq!(go_duration::parse("1m30s"), Ok(SignedDuration::from_secs(90)));
/// assert_eq!(
///     go_duration::parse("15").unwrap_err().to_string(),
///     "time: missing unit in duration \"15\"",
/// );
/// ```
pub fn parse(text: &str) -> Result<SignedDuration, DurationError> {
    parse_nanos(text).map(SignedDuration::from_nanos)
}

/// Parses a duration as [`parse`] does, and returns nanoseconds.
pub fn parse_nanos(text: &str) -> Result<i64, DurationError> {
    let invalid = || DurationError(format!("invalid duration {}", quote(text)));
    let (is_negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..)),
        Some(b'+') => (false, text.get(1..)),
        _ => (false, Some(text)),
    };
    let mut rest = unsigned.filter(|rest| !rest.is_empty()).ok_or_else(invalid)?;
    if rest == "0" {
        return Ok(0);
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (nanos, after) = parse_component(rest, text)?;
        total =
            total.checked_add(nanos).filter(|total| *total <= MAX_MAGNITUDE).ok_or_else(invalid)?;
        rest = after;
    }
    if is_negative {
        return Ok(0_i64.wrapping_sub_unsigned(total));
    }
    i64::try_from(total).map_err(|_| invalid())
}

/// Parses the number with its unit at the start of `rest`. Returns nanoseconds and the rest after
/// it. `text` is the whole duration, for errors.
fn parse_component<'t>(rest: &'t str, text: &str) -> Result<(u64, &'t str), DurationError> {
    let invalid = || DurationError(format!("invalid duration {}", quote(text)));
    let (whole, after) = split_digits(rest);
    let (fraction, after) = match after.strip_prefix('.') {
        Some(after) => split_digits(after),
        None => ("", after),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(invalid());
    }
    let end = after.find(|char: char| char == '.' || char.is_ascii_digit());
    let (name, after) = after.split_at(end.unwrap_or(after.len()));
    if name.is_empty() {
        return Err(DurationError(format!("missing unit in duration {}", quote(text))));
    }
    let unit = unit_nanos(name).ok_or_else(|| {
        DurationError(format!("unknown unit {} in duration {}", quote(name), quote(text)))
    })?;
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
    let nanos = whole.checked_mul(unit).filter(|nanos| *nanos <= MAX_MAGNITUDE);
    let nanos = nanos.and_then(|nanos| nanos.checked_add(fraction_nanos(fraction, unit)));
    Ok((nanos.filter(|nanos| *nanos <= MAX_MAGNITUDE).ok_or_else(invalid)?, after))
}

fn unit_nanos(name: &str) -> Option<u64> {
    Some(match name {
        "ns" => 1,
        // Micro sign and Greek mu.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Converts the digits after a point to nanoseconds, with the float arithmetic of Go. Like Go,
/// ignores digits that don't fit into 63 bits.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "less than the unit")]
fn fraction_nanos(digits: &str, unit: u64) -> u64 {
    let (mut value, mut scale) = (0_u64, 1.0);
    for digit in digits.bytes().map(|digit| u64::from(digit.wrapping_sub(b'0'))) {
        let next = value.checked_mul(10).and_then(|value| value.checked_add(digit));
        let Some(next) = next.filter(|next| *next <= MAX_MAGNITUDE) else { break };
        value = next;
        scale *= 10.0;
    }
    (value as f64 * (unit as f64 / scale)) as u64
}

/// Quotes as Go's package `time` does: escapes control characters below the space, and each byte of
/// a character outside of ASCII.
fn quote(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            ' '..='\u{7f}' => quoted.push(char),
            _ => {
                let mut buffer = [0; 4];
                let bytes = char.encode_utf8(&mut buffer).bytes();
                quoted.extend(bytes.map(|byte| format!("\\x{byte:02x}")));
            }
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("0", 0)]
    #[case("-0", 0)]
    #[case("0s", 0)]
    #[case("15s", 15_000_000_000)]
    #[case("1m30s", 90_000_000_000)]
    #[case("5m0s", 300_000_000_000)]
    #[case("1h30m", 5_400_000_000_000)]
    #[case("1.5h", 5_400_000_000_000)]
    #[case(".5s", 500_000_000)]
    #[case(".5m", 30_000_000_000)]
    #[case("5.s", 5_000_000_000)]
    #[case("-1m", -60_000_000_000)]
    #[case("-1.5s", -1_500_000_000)]
    #[case("+2s", 2_000_000_000)]
    #[case("3ns", 3)]
    #[case("-0.5ns", 0)]
    #[case("3us", 3_000)]
    #[case("3\u{b5}s", 3_000)]
    #[case("3\u{3bc}s", 3_000)]
    #[case("1.0000000001s", 1_000_000_000)]
    #[case("1.0000000009s", 1_000_000_000)]
    #[case("20ms", 20_000_000)]
    #[case("1h2m3.004s", 3_723_004_000_000)]
    #[case("0.3333333333333333333h", 1_200_000_000_000)]
    #[case("0.9999999999999999999h", 3_600_000_000_000)]
    #[case("0.9223372036854775808h", 3_320_413_933_267)]
    #[case("2562047.788015215h", 9_223_372_036_854_774_000)]
    #[case("9223372036854775807ns", i64::MAX)]
    #[case("9223372036854775807.9ns", i64::MAX)]
    #[case("-9223372036854775808ns", i64::MIN)]
    fn valid_duration_is_parsed_as_by_go(#[case] text: &str, #[case] nanos: i64) {
        assert_eq!(parse_nanos(text), Ok(nanos));
        assert_eq!(parse(text), Ok(SignedDuration::from_nanos(nanos)));
    }

    #[rstest]
    #[case("", r#"time: invalid duration """#)]
    #[case("-", r#"time: invalid duration "-""#)]
    #[case("s", r#"time: invalid duration "s""#)]
    #[case(".s", r#"time: invalid duration ".s""#)]
    #[case("--1s", r#"time: invalid duration "--1s""#)]
    #[case("10", r#"time: missing unit in duration "10""#)]
    #[case("1m30", r#"time: missing unit in duration "1m30""#)]
    #[case("1d", r#"time: unknown unit "d" in duration "1d""#)]
    #[case("1e3s", r#"time: unknown unit "e" in duration "1e3s""#)]
    #[case("1s 2s", r#"time: unknown unit "s " in duration "1s 2s""#)]
    #[case("1\"s", r#"time: unknown unit "\"s" in duration "1\"s""#)]
    #[case("1µ", r#"time: unknown unit "\xc2\xb5" in duration "1\xc2\xb5""#)]
    #[case("1sé2", r#"time: unknown unit "s\xc3\xa9" in duration "1s\xc3\xa92""#)]
    #[case("99999999h", r#"time: invalid duration "99999999h""#)]
    #[case("9223372036854775808ns", r#"time: invalid duration "9223372036854775808ns""#)]
    #[case("99999999999999999999s", r#"time: invalid duration "99999999999999999999s""#)]
    fn invalid_duration_is_rejected_as_by_go(#[case] text: &str, #[case] message: &str) {
        assert_eq!(parse_nanos(text).unwrap_err().to_string(), message);
    }
}
