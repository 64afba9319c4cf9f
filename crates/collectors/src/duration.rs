//! Durations in Go's notation.

/// Why a text is no duration, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text has another form, or is out of range.
    #[error("time: invalid duration {}", quote(.0))]
    Invalid(String),
    /// A number has no unit.
    #[error("time: missing unit in duration {}", quote(.0))]
    MissingUnit(String),
    /// A unit is unknown.
    #[error("time: unknown unit {} in duration {}", quote(.unit), quote(.text))]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

/// The largest number of nanoseconds, plus one.
const LIMIT: u64 = 1 << 63;

/// Parses a duration such as `1h30m` or `-1.5s`, as nanoseconds.
pub fn parse(text: &str) -> Result<i64, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (is_negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or_default()),
        Some(b'+') => (false, text.get(1..).unwrap_or_default()),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (nanos, after) = component(rest, text)?;
        total = total.checked_add(nanos).filter(|total| *total <= LIMIT).ok_or_else(invalid)?;
        rest = after;
    }
    if is_negative {
        return Ok(0_i64.wrapping_sub_unsigned(total));
    }
    i64::try_from(total).map_err(|_| invalid())
}

/// Takes a number and its unit.
fn component<'t>(rest: &'t str, text: &str) -> Result<(u64, &'t str), DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (whole, after) = split_digits(rest);
    let (fraction, after) = match after.strip_prefix('.') {
        Some(after) => split_digits(after),
        None => ("", after),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(invalid());
    }
    let end = after.find(|char: char| char == '.' || char.is_ascii_digit());
    let (unit, after) = after.split_at(end.unwrap_or(after.len()));
    let scale: u64 = match unit {
        "" => return Err(DurationError::MissingUnit(text.to_owned())),
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => {
            let (unit, text) = (unit.to_owned(), text.to_owned());
            return Err(DurationError::UnknownUnit { unit, text });
        }
    };
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
    let nanos = whole.checked_mul(scale).filter(|nanos| *nanos <= LIMIT).ok_or_else(invalid)?;
    // Digits below a nanosecond are dropped; 18 of them fit.
    let fraction: String = fraction.chars().take(18).collect();
    let digits = u32::try_from(fraction.len()).unwrap_or_default();
    let part: u64 = fraction.parse().unwrap_or_default();
    let part = part as f64 * (scale as f64 / 10_f64.powi(digits.cast_signed()));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the unit")]
    let nanos = nanos.checked_add(part as u64).filter(|nanos| *nanos <= LIMIT);
    Ok((nanos.ok_or_else(invalid)?, after))
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|char: char| !char.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// Quotes as the package time does.
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
    #[case("0", Ok(0))]
    #[case("1h30m", Ok(5_400_000_000_000))]
    #[case("-1.5s", Ok(-1_500_000_000))]
    #[case("1µs", Ok(1_000))]
    #[case(".5m", Ok(30_000_000_000))]
    #[case("1.0000000001s", Ok(1_000_000_000))]
    #[case("", Err("time: invalid duration \"\""))]
    #[case("10", Err("time: missing unit in duration \"10\""))]
    #[case("1e3s", Err("time: unknown unit \"e\" in duration \"1e3s\""))]
    #[case("1µ", Err(r#"time: unknown unit "\xc2\xb5" in duration "1\xc2\xb5""#))]
    #[case("99999999h", Err("time: invalid duration \"99999999h\""))]
    #[case("-", Err("time: invalid duration \"-\""))]
    fn duration_is_parsed_as_by_go(#[case] text: &str, #[case] expected: Result<i64, &str>) {
        assert_eq!(parse(text).map_err(|error| error.to_string()), expected.map_err(str::to_owned));
    }
}
