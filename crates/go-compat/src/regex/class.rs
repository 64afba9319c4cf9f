//! Translates character classes and escaped characters.

use std::{fmt::Write as _, ops::RangeInclusive};

use regex::Regex;

use super::{RegexError, RegexProblem, consumed, error};

/// Code points that UTF-8 can't encode.
const SURROGATES: RangeInclusive<u32> = 0xd800..=0xdfff;

/// A class that matches no character. It replaces surrogates, because no text contains them.
pub(super) const NOTHING: &str = r"[^\x{0}-\x{10FFFF}]";

/// The Perl class with this letter (`\d`), in the syntax of the `regex` crate.
pub(super) fn perl_class(letter: char) -> Option<&'static str> {
    Some(match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => r"[\t\n\x0C\r ]",
        'S' => r"[^\t\n\x0C\r ]",
        'w' => "[0-9A-Z_a-z]",
        'W' => "[^0-9A-Z_a-z]",
        _ => return None,
    })
}

/// The items of a POSIX class such as `[:alpha:]`, in the syntax of the `regex` crate.
fn posix_class(name: &str) -> Option<&'static str> {
    Some(match name {
        "alnum" => "0-9A-Za-z",
        "alpha" => "A-Za-z",
        "ascii" => r"\x00-\x7F",
        "blank" => r"\t ",
        "cntrl" => r"\x00-\x1F\x7F",
        "digit" => "0-9",
        "graph" => r"\x21-\x7E",
        "lower" => "a-z",
        "print" => r"\x20-\x7E",
        "punct" => r"\x21-\x2F\x3A-\x40\x5B-\x60\x7B-\x7E",
        "space" => r"\t\n\x0B\x0C\r ",
        "upper" => "A-Z",
        "word" => "0-9A-Z_a-z",
        "xdigit" => "0-9A-Fa-f",
        _ => return None,
    })
}

/// Translates a class of Unicode characters (`\pL`, `\p{^Greek}`) at the start of the text. Returns
/// it and the rest of the text, or `None` if the text doesn't start with such a class.
pub(super) fn unicode_class(text: &str) -> Result<Option<(String, &str)>, RegexError> {
    let (mut is_negated, after) = match (text.strip_prefix(r"\p"), text.strip_prefix(r"\P")) {
        (Some(after), _) => (false, after),
        (_, Some(after)) => (true, after),
        _ => return Ok(None),
    };
    let Some(first) = after.chars().next() else {
        return Ok(None);
    };
    let (name, rest) = match after.strip_prefix('{') {
        Some(braced) => {
            braced.split_once('}').ok_or_else(|| error(RegexProblem::InvalidRange, text))?
        }
        None => after.split_at_checked(first.len_utf8()).unwrap_or_default(),
    };
    let negated = name.strip_prefix('^');
    is_negated ^= negated.is_some();
    let Some(class) = class_with_name(negated.unwrap_or(name), is_negated) else {
        return Err(error(RegexProblem::InvalidRange, consumed(text, rest)));
    };
    Ok(Some((class, rest)))
}

/// Returns the Unicode class with a name. Like Go, accepts only general categories and scripts, not
/// the other properties of the `regex` crate.
fn class_with_name(name: &str, is_negated: bool) -> Option<String> {
    let is_name = |char: char| char.is_ascii_alphabetic() || matches!(char, '_' | '-' | ' ');
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    let letter = if is_negated { 'P' } else { 'p' };
    ["gc", "sc"].into_iter().find_map(|property| {
        let class = format!("\\{letter}{{{property}={name}}}");
        Regex::new(&class).is_ok().then_some(class)
    })
}

/// Translates the class in brackets at the start of the text. Returns it and the rest of the text.
pub(super) fn bracketed_class(text: &str) -> Result<(String, &str), RegexError> {
    let mut rest = text.strip_prefix('[').unwrap_or(text);
    let mut class = String::from("[");
    if let Some(after) = rest.strip_prefix('^') {
        class.push('^');
        rest = after;
    }
    let mut is_first = true;
    loop {
        if let Some(after) = rest.strip_prefix(']').filter(|_| !is_first) {
            class.push(']');
            return Ok((class, after));
        }
        is_first = false;
        rest = push_item(rest, text, &mut class)?;
    }
}

/// Translates an item of a class and appends it to `class`. Returns the rest of the text. `whole`
/// is the text from the opening bracket on, for errors.
fn push_item<'t>(text: &'t str, whole: &str, class: &mut String) -> Result<&'t str, RegexError> {
    if let Some(after) = text.strip_prefix("[:")
        && let Some((name, rest)) = after.split_once(":]")
    {
        let negated = name.strip_prefix('^');
        let Some(items) = posix_class(negated.unwrap_or(name)) else {
            return Err(error(RegexProblem::InvalidRange, &format!("[:{name}:]")));
        };
        class.push_str(if negated.is_some() { "[^" } else { "[" });
        class.push_str(items);
        class.push(']');
        return Ok(rest);
    }
    if let Some((items, rest)) = unicode_class(text)? {
        class.push_str(&items);
        return Ok(rest);
    }
    if let Some(after) = text.strip_prefix('\\')
        && let Some(letter) = after.chars().next()
        && let Some(perl) = perl_class(letter)
    {
        class.push_str(perl);
        return Ok(after.get(1..).unwrap_or_default());
    }
    let (low, mut rest) = character(text, whole)?;
    let mut high = low;
    // A hyphen before the closing bracket is a literal character.
    if let Some(after) =
        rest.strip_prefix('-').filter(|after| !after.is_empty() && !after.starts_with(']'))
    {
        (high, rest) = character(after, whole)?;
        if high < low {
            return Err(error(RegexProblem::InvalidRange, consumed(text, rest)));
        }
    }
    push_range(class, low, high);
    Ok(rest)
}

/// Appends a range. A bound that is a surrogate moves to the next character inside the range.
fn push_range(class: &mut String, low: u32, high: u32) {
    let low = if SURROGATES.contains(&low) { 0xe000 } else { low };
    let high = if SURROGATES.contains(&high) { 0xd7ff } else { high };
    if low > high {
        class.push_str(NOTHING);
    } else {
        // Writing to a string can't fail.
        let _ = write!(class, "\\x{{{low:X}}}-\\x{{{high:X}}}");
    }
}

/// Returns a character of a class, which can be escaped, and the rest of the text.
fn character<'t>(text: &'t str, whole: &str) -> Result<(u32, &'t str), RegexError> {
    if text.starts_with('\\') {
        return escape(text);
    }
    let mut chars = text.chars();
    match chars.next() {
        Some(char) => Ok((char.into(), chars.as_str())),
        None => Err(error(RegexProblem::MissingBracket, whole)),
    }
}

/// Returns the escaped character at the start of the text, and the rest of the text.
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
        _ => return Err(error(RegexProblem::InvalidEscape, consumed(text, rest))),
    };
    Ok((code_point, rest))
}

/// Parses up to two octal digits after a first one, whose value is `first`.
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

/// Parses the digits after `\x`: two, or any number of them in braces.
fn hexadecimal<'t>(text: &'t str, digits: &'t str) -> Result<(u32, &'t str), RegexError> {
    let mut chars = digits.chars();
    let mut next = || (chars.next(), chars.as_str());
    let invalid = |rest: &str| Err(error(RegexProblem::InvalidEscape, consumed(text, rest)));
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
