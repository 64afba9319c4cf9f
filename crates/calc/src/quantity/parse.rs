//! The grammar of a quantity.
//!
//! As in the API, there are two paths. The fast path calculates with 64 bits. It applies to up to
//! 18 digits that are not finer than a nano or, with a binary suffix, to fewer digits without a
//! fraction. The exact path calculates in nanos, rounded away from zero. Only the fast path can
//! keep the text as the printed form.

use super::{Format, LargeDecimal, MAX_TEXT_LEN, NANO, QuantityError, ScaledInteger};

/// The number of decimal digits that always fit 64 bits.
const MAX_FAST_DIGITS: usize = 18;
/// The number of decimal digits of `i64::MAX`.
const I64_DIGITS: usize = 19;

pub(super) enum ParsedQuantity {
    Scaled {
        scaled: ScaledInteger,
        /// Whether the API keeps the text and the text differs from the canonical form.
        verbatim: bool,
    },
    Large(LargeDecimal),
}

/// A text split into its parts, before they are interpreted.
struct SplitText<'a> {
    negative: bool,
    /// Digits before the point, without leading zeros.
    integer: &'a str,
    /// Digits after the point.
    fraction: &'a str,
    suffix: &'a str,
    /// Whether there is a digit, even if only a leading zero.
    has_digit: bool,
    /// Whether there is no `+`, no leading zero and no point.
    has_plain_digits: bool,
}

/// Splits a text after its leading digits.
pub(crate) fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn split(text: &str) -> Result<SplitText<'_>, QuantityError> {
    let (negative, plus, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, false, text.get(1..).unwrap_or_default()),
        Some(b'+') => (false, true, text.get(1..).unwrap_or_default()),
        _ => (false, false, text),
    };
    let number = unsigned.trim_start_matches('0');
    let has_zeros = number.len() < unsigned.len();
    let (integer, rest) = split_digits(number);
    let (fraction, suffix, has_point) = match rest.strip_prefix('.') {
        Some(rest) => {
            let (fraction, suffix) = split_digits(rest);
            (fraction, suffix, true)
        }
        None => ("", rest, false),
    };
    let exponent =
        suffix.trim_start_matches(['e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P']);
    let (_, garbage) = split_digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent));
    if !garbage.is_empty() {
        return Err(QuantityError::FormatWrong);
    }
    Ok(SplitText {
        negative,
        integer,
        fraction,
        suffix,
        has_digit: has_zeros || !integer.is_empty() || !fraction.is_empty(),
        has_plain_digits: !plus && !has_zeros && !has_point,
    })
}

/// The exponent of a suffix: a power of 2 for [`Format::BinarySI`], otherwise of 10.
fn parse_suffix(suffix: &str) -> Option<(i32, Format)> {
    Some(match suffix {
        "" => (0, Format::DecimalSI),
        "n" => (-9, Format::DecimalSI),
        "u" => (-6, Format::DecimalSI),
        "m" => (-3, Format::DecimalSI),
        "k" => (3, Format::DecimalSI),
        "M" => (6, Format::DecimalSI),
        "G" => (9, Format::DecimalSI),
        "T" => (12, Format::DecimalSI),
        "P" => (15, Format::DecimalSI),
        "E" => (18, Format::DecimalSI),
        "Ki" => (10, Format::BinarySI),
        "Mi" => (20, Format::BinarySI),
        "Gi" => (30, Format::BinarySI),
        "Ti" => (40, Format::BinarySI),
        "Pi" => (50, Format::BinarySI),
        "Ei" => (60, Format::BinarySI),
        _ => {
            let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            #[allow(clippy::cast_possible_truncation, reason = "the API uses the lower 32 bits")]
            (exponent as i32, Format::DecimalExponent)
        }
    })
}

pub(super) fn parse(text: &str) -> Result<ParsedQuantity, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::FormatWrong);
    }
    if text.len() > MAX_TEXT_LEN {
        return Err(QuantityError::TooLong);
    }
    let split = split(text)?;
    let (exponent, format) = parse_suffix(split.suffix).ok_or(QuantityError::Suffix)?;
    let fast = match format {
        Format::BinarySI => fast_binary(&split, exponent),
        Format::DecimalExponent | Format::DecimalSI => fast_decimal(&split, exponent, format),
    };
    if let Some(parsed) = fast {
        return Ok(parsed);
    }
    if !split.has_digit {
        return Err(QuantityError::Numeric);
    }
    Ok(match format {
        Format::BinarySI => exact_binary(&split, exponent),
        Format::DecimalExponent | Format::DecimalSI => exact_decimal(&split, exponent, format),
    })
}

/// The value in milli-units, if the text is 1 to 15 digits and a common suffix, as in nearly all
/// responses of the metrics APIs. `None` for any other text, and if the value exceeds 64 bits.
pub(super) fn parse_common_milli(text: &str) -> Option<i64> {
    const MAX_DIGITS: usize = 15;
    let (digits, suffix) = split_digits(text);
    if digits.is_empty() || digits.len() > MAX_DIGITS {
        return None;
    }
    let value = i64::try_from(value_of(digits.bytes())).ok()?;
    // Rounded up, since the value isn't negative.
    let divided_by = |parts: i64| value / parts + i64::from(value % parts != 0);
    match suffix {
        "n" => Some(divided_by(1_000_000)),
        "u" => Some(divided_by(1000)),
        "m" => Some(value),
        "" => value.checked_mul(1000),
        "k" => value.checked_mul(1_000_000),
        "Ki" => value.checked_mul(1000 << 10),
        "Mi" => value.checked_mul(1000 << 20),
        _ => None,
    }
}

fn value_of(digits: impl Iterator<Item = u8>) -> u64 {
    digits.fold(0, |value, digit| value * 10 + u64::from(digit - b'0'))
}

fn trailing_zeros(digits: &str) -> usize {
    digits.bytes().rev().take_while(|digit| *digit == b'0').count()
}

/// The number of digits of the fraction, at most [`MAX_TEXT_LEN`].
fn places(split: &SplitText<'_>) -> i32 {
    i32::try_from(split.fraction.len()).unwrap_or(i32::MAX)
}

fn signed(negative: bool, magnitude: u64) -> Option<i64> {
    let value = i64::try_from(magnitude).ok()?;
    Some(if negative { -value } else { value })
}

fn fast_decimal(split: &SplitText<'_>, exponent: i32, format: Format) -> Option<ParsedQuantity> {
    let &SplitText { negative, integer, fraction, has_plain_digits, .. } = split;
    if integer.len().max(1) + fraction.len() > MAX_FAST_DIGITS {
        return None;
    }
    // The API's exponents have 32 bits and wrap.
    let scale = exponent.wrapping_sub(places(split));
    if scale < NANO {
        return None;
    }
    let value = signed(negative, value_of(integer.bytes().chain(fraction.bytes())))?;
    let zeros = match trailing_zeros(fraction) {
        zeros if zeros == fraction.len() => zeros + trailing_zeros(integer),
        zeros => zeros,
    };
    let keeps_text = scale % 3 == 0 && zeros < 3 && !integer.is_empty();
    // `ParseQuantity` keeps a text that looks canonical by this check. If it has plain digits and
    // an SI suffix, it is canonical. Any other text must be stored.
    let canonical = has_plain_digits && format == Format::DecimalSI;
    Some(ParsedQuantity::Scaled {
        scaled: ScaledInteger { value, scale, format },
        verbatim: keeps_text && !canonical,
    })
}

fn fast_binary(split: &SplitText<'_>, exponent: i32) -> Option<ParsedQuantity> {
    let &SplitText { negative, integer, fraction, has_plain_digits, .. } = split;
    // The number of digits that fit 64 bits after multiplying by 2^exponent, by the API's estimate.
    let max_digits = usize::try_from(14 - exponent * 3 / 10).ok()?;
    if !fraction.is_empty() || integer.len().max(1) > max_digits {
        return None;
    }
    let digits = value_of(integer.bytes());
    let value = signed(negative, digits.checked_mul(1 << exponent)?)?;
    // As in the API: only a multiple of 1024, and therefore of 8, can have a larger suffix.
    let keeps_text = digits % 8 != 0;
    let scaled = ScaledInteger { value, scale: 0, format: Format::BinarySI };
    Some(ParsedQuantity::Scaled { scaled, verbatim: keeps_text && !has_plain_digits })
}

/// ±`digits` (numbers, not characters) × 10^`exponent` nanos, in the smallest representation.
fn from_nanos(
    negative: bool,
    mut digits: Vec<u8>,
    mut exponent: i64,
    format: Format,
) -> ParsedQuantity {
    while digits.last() == Some(&0) {
        digits.pop();
        exponent += 1;
    }
    if digits.is_empty() {
        return ParsedQuantity::Scaled {
            scaled: ScaledInteger { format, ..ScaledInteger::ZERO },
            verbatim: false,
        };
    }
    let zeros = usize::try_from(exponent).unwrap_or(usize::MAX);
    if digits.len().saturating_add(zeros) <= I64_DIGITS {
        let magnitude = digits.iter().copied().chain(std::iter::repeat_n(0, zeros));
        let magnitude = magnitude.fold(0, |value, digit| value * 10 + u64::from(digit));
        if let Some(value) = signed(negative, magnitude) {
            return ParsedQuantity::Scaled {
                scaled: ScaledInteger { value, scale: NANO, format },
                verbatim: false,
            };
        }
    }
    let digits: String = digits.into_iter().map(|digit| char::from(b'0' + digit)).collect();
    ParsedQuantity::Large(LargeDecimal {
        digits: digits.into_boxed_str(),
        exponent: exponent + i64::from(NANO),
        negative,
        format,
    })
}

fn exact_decimal(split: &SplitText<'_>, exponent: i32, format: Format) -> ParsedQuantity {
    let digits = split.integer.bytes().chain(split.fraction.bytes()).map(|digit| digit - b'0');
    let mut digits: Vec<u8> = digits.skip_while(|digit| *digit == 0).collect();
    // Wraps like the API's scale of 32 bits.
    let shift = exponent.wrapping_sub(places(split)).wrapping_sub(NANO);
    if shift >= 0 {
        return from_nanos(split.negative, digits, shift.into(), format);
    }
    let whole_nanos = digits.len().saturating_sub(shift.unsigned_abs() as usize);
    if digits.split_off(whole_nanos).into_iter().any(|digit| digit != 0) {
        increment(&mut digits);
    }
    from_nanos(split.negative, digits, 0, format)
}

fn increment(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit < 9 {
            *digit += 1;
            return;
        }
        *digit = 0;
    }
    digits.insert(0, 1);
}

fn exact_binary(split: &SplitText<'_>, exponent: i32) -> ParsedQuantity {
    const NANOS: u128 = 1_000_000_000;
    const MAX: u128 = i64::MAX as u128;

    let negative = split.negative;
    let limit = if negative { -i64::MAX } else { i64::MAX };
    let limit = ScaledInteger { value: limit, scale: 0, format: Format::BinarySI };
    let limit = ParsedQuantity::Scaled { scaled: limit, verbatim: false };
    if split.integer.len() > I64_DIGITS {
        return limit;
    }
    let integer = u128::from(value_of(split.integer.bytes()));
    if integer > MAX >> exponent {
        return limit;
    }

    // Split the fraction into nanos and finer digits. Multiplied by 2^exponent, the finer digits
    // add a carry to the nanos and leave a remainder, which rounds up. One pass from the last digit
    // to the first finds both.
    let (nanos, finer) = split.fraction.split_at(split.fraction.len().min(9));
    let nanos = value_of(nanos.bytes().chain(std::iter::repeat_n(b'0', 9 - nanos.len())));
    let mut carry = 0_u64;
    let mut inexact = false;
    for digit in finer.bytes().rev() {
        // Below 10 × 2^60.
        let scaled = (u64::from(digit - b'0') << exponent) + carry;
        carry = scaled / 10;
        inexact |= !scaled.is_multiple_of(10);
    }
    // Below 2^63 × 10^9.
    let nanos = ((integer * NANOS + u128::from(nanos)) << exponent)
        + u128::from(carry)
        + u128::from(inexact);
    if nanos > MAX * NANOS {
        return limit;
    }
    // The API turns quantities below 1 into decimal ones.
    let format = if nanos < NANOS { Format::DecimalSI } else { Format::BinarySI };
    let format = if nanos == 0 { Format::BinarySI } else { format };
    from_nanos(negative, nanos.to_string().bytes().map(|digit| digit - b'0').collect(), 0, format)
}
