//! Escaped characters.

use super::error::{RegexError, RegexProblem, before, error};

/// An escaped character at the start of the text, and what follows.
pub(super) fn escape(text: &str) -> Result<(u32, &str), RegexError> {
    let mut chars = text.chars();
    chars.next();
    let Some(char) = chars.next() else {
        return Err(error(RegexProblem::TrailingBackslash, ""));
    };
    let rest = chars.as_str();
    let code_point = match char {
        'a' => 0x07,
        'f' => 0x0c,
        'n' => 0x0a,
        'r' => 0x0d,
        't' => 0x09,
        'v' => 0x0b,
        '0' => return Ok(octal(0, rest)),
        '1'..='7' if rest.starts_with(|next: char| next.is_digit(8)) => {
            return Ok(octal(char.to_digit(8).unwrap_or(0), rest));
        }
        'x' => return hexadecimal(text, rest),
        char if char.is_ascii() && !char.is_ascii_alphanumeric() => char.into(),
        _ => return Err(error(RegexProblem::InvalidEscape, before(text, rest))),
    };
    Ok((code_point, rest))
}

/// Up to two further octal digits.
fn octal(first: u32, mut rest: &str) -> (u32, &str) {
    let mut value = first;
    for _ in 0..2 {
        let Some(digit) = rest.chars().next().and_then(|char| char.to_digit(8)) else {
            break;
        };
        value = value * 8 + digit;
        rest = rest.get(1..).unwrap_or_default();
    }
    (value, rest)
}

/// Two digits, or any number of digits in braces.
fn hexadecimal<'t>(text: &'t str, digits: &'t str) -> Result<(u32, &'t str), RegexError> {
    let mut chars = digits.chars();
    let mut next = || (chars.next(), chars.as_str());
    let invalid = |rest: &str| Err(error(RegexProblem::InvalidEscape, before(text, rest)));
    let (first, _) = next();
    if first != Some('{') {
        let (second, rest) = next();
        let digit = |char: Option<char>| char.and_then(|char| char.to_digit(16));
        return match (digit(first), digit(second)) {
            (Some(high), Some(low)) => Ok((high * 16 + low, rest)),
            _ => invalid(rest),
        };
    }
    let mut value = None;
    loop {
        let (char, rest) = next();
        match (char, char.and_then(|char| char.to_digit(16)), value) {
            (Some('}'), _, Some(value)) => return Ok((value, rest)),
            (_, Some(digit), _) => {
                value = Some(value.unwrap_or(0) * 16 + digit);
                if value > Some(u32::from(char::MAX)) {
                    return invalid(rest);
                }
            }
            _ => return invalid(rest),
        }
    }
}
