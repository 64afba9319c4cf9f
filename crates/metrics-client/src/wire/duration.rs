//! Parses Go durations such as `1m30s`, like `time.ParseDuration`.

use jiff::SignedDuration;

/// Why a text is not a duration. The messages match Go's time package.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// Not a number, or more than 64 bits of nanoseconds.
    #[error("time: invalid duration {0:?}")]
    Invalid(Box<str>),
    /// A number without a unit. Only `0` needs none.
    #[error("time: missing unit in duration {0:?}")]
    MissingUnit(Box<str>),
    /// A unit other than h, m, s, ms, us (µs), ns.
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// The unit.
        unit: Box<str>,
        /// The whole text.
        text: Box<str>,
    },
}

/// Parses a signed sequence of decimal numbers, each with a unit: `-1.5h`, `1m30s`, `0`.
///
/// Fractions of a nanosecond are truncated. The result is within 64 bits of nanoseconds (292
/// years).
///
/// ```
/// use hpa_metrics_client::wire::parse_duration;
/// use jiff::SignedDuration;
///
/// assert_eq!(parse_duration("1m30s"), Ok(SignedDuration::from_secs(90)));
/// assert_eq!(
///     parse_duration("15").unwrap_err().to_string(),
///     "time: missing unit in duration \"15\"",
/// );
/// ```
pub fn parse_duration(text: &str) -> Result<SignedDuration, DurationError> {
    let invalid = || DurationError::Invalid(text.into());
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..)),
        Some(b'+') => (false, text.get(1..)),
        _ => (false, Some(text)),
    };
    let mut rest = unsigned.filter(|rest| !rest.is_empty()).ok_or_else(invalid)?;
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    // The range has one more nanosecond on the negative side.
    let limit = u128::from(i64::MAX.unsigned_abs()) + u128::from(negative);
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let (part, after) = component(rest, text)?;
        nanos += part;
        if nanos > limit {
            return Err(invalid());
        }
        rest = after;
    }
    let magnitude = i128::try_from(nanos).map_err(|_| invalid())?;
    let signed =
        i64::try_from(if negative { -magnitude } else { magnitude }).map_err(|_| invalid())?;
    Ok(SignedDuration::from_nanos(signed))
}

/// Parses one number with its unit. Returns nanoseconds and the rest of the text.
fn component<'a>(rest: &'a str, text: &str) -> Result<(u128, &'a str), DurationError> {
    let invalid = || DurationError::Invalid(text.into());
    let (whole, after) = digits(rest);
    let (fraction, after) = match after.strip_prefix('.') {
        Some(after) => digits(after),
        None => ("", after),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(invalid());
    }
    let end = after.bytes().take_while(|byte| *byte != b'.' && !byte.is_ascii_digit()).count();
    let (name, after) = after.split_at_checked(end).ok_or_else(invalid)?;
    if name.is_empty() {
        return Err(DurationError::MissingUnit(text.into()));
    }
    let unit = unit_nanos(name)
        .ok_or_else(|| DurationError::UnknownUnit { unit: name.into(), text: text.into() })?;
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
    Ok((u128::from(whole) * u128::from(unit) + fraction_nanos(fraction, unit), after))
}

/// Splits off the leading digits.
fn digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at_checked(end).unwrap_or((text, ""))
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

/// Converts the digits after a point to nanoseconds. Digits after the 18th are below a nanosecond
/// for every unit.
fn fraction_nanos(digits: &str, unit: u64) -> u128 {
    if digits.is_empty() {
        return 0;
    }
    let (value, scale) = digits.bytes().take(18).fold((0_u128, 1_u128), |(value, scale), digit| {
        (value * 10 + u128::from(digit.wrapping_sub(b'0')), scale * 10)
    });
    value * u128::from(unit) / scale
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
    #[case("1.5h", 5_400_000_000_000)]
    #[case(".5s", 500_000_000)]
    #[case("5.s", 5_000_000_000)]
    #[case("-1m", -60_000_000_000)]
    #[case("+2s", 2_000_000_000)]
    #[case("3ns", 3)]
    #[case("3us", 3_000)]
    #[case("3\u{b5}s", 3_000)]
    #[case("3\u{3bc}s", 3_000)]
    #[case("1.0000000009s", 1_000_000_000)]
    #[case("20ms", 20_000_000)]
    #[case("1h2m3.004s", 3_723_004_000_000)]
    #[case("0.3333333333333333333h", 1_200_000_000_000 - 1)]
    #[case("9223372036854775807ns", i64::MAX)]
    #[case("-9223372036854775808ns", i64::MIN)]
    fn valid_durations_are_parsed(#[case] text: &str, #[case] nanos: i64) {
        assert_eq!(parse_duration(text), Ok(SignedDuration::from_nanos(nanos)));
    }

    #[rstest]
    #[case("", r#"time: invalid duration """#)]
    #[case("-", r#"time: invalid duration "-""#)]
    #[case("s", r#"time: invalid duration "s""#)]
    #[case(".s", r#"time: invalid duration ".s""#)]
    #[case("--1s", r#"time: invalid duration "--1s""#)]
    #[case("15", r#"time: missing unit in duration "15""#)]
    #[case("1m30", r#"time: missing unit in duration "1m30""#)]
    #[case("1d", r#"time: unknown unit "d" in duration "1d""#)]
    #[case("1s 2s", r#"time: unknown unit "s " in duration "1s 2s""#)]
    #[case("9223372036854775808ns", r#"time: invalid duration "9223372036854775808ns""#)]
    #[case("99999999999999999999s", r#"time: invalid duration "99999999999999999999s""#)]
    fn invalid_durations_are_rejected(#[case] text: &str, #[case] message: &str) {
        assert_eq!(parse_duration(text).unwrap_err().to_string(), message);
    }
}
