//! Classes of characters.

use std::{fmt::Write as _, ops::RangeInclusive};

use regex::Regex;

use super::{
    error::{RegexError, RegexProblem, error},
    escape::escape,
};

/// Code points that no text has.
const SURROGATES: RangeInclusive<u32> = 0xd800..=0xdfff;

/// A class without characters. Surrogates are translated to it, because no text has them.
pub(super) const NOTHING: &str = r"[^\x{0}-\x{10FFFF}]";

/// The items of a Perl class (`\d`), and whether it is negated.
pub(super) fn perl_class(letter: char) -> Option<(&'static str, bool)> {
    let items = match letter.to_ascii_lowercase() {
        'd' => "0-9",
        's' => r"\t\n\x0C\r ",
        'w' => "0-9A-Z_a-z",
        _ => return None,
    };
    Some((items, letter.is_ascii_uppercase()))
}

/// The items of a POSIX class (`[:alpha:]`).
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

/// A class of Unicode characters at the start of the text (`\pL`, `\p{^Greek}`), in the syntax of
/// the `regex` crate, and what follows. `None` if there is no such class.
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
    let positive = name.strip_prefix('^');
    is_negated ^= positive.is_some();
    let Some(class) = class_with_name(positive.unwrap_or(name), is_negated) else {
        let class = text.strip_suffix(rest).unwrap_or(text);
        return Err(error(RegexProblem::InvalidRange, class));
    };
    Ok(Some((class, rest)))
}

/// Only general categories and scripts: the crate has further properties, which Go hasn't.
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

/// A class in brackets at the start of the text, and what follows.
pub(super) fn bracketed(text: &str) -> Result<(String, &str), RegexError> {
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
        rest = item(rest, text, &mut class)?;
    }
}

/// Appends an item of a class and returns what follows.
fn item<'t>(text: &'t str, whole: &str, class: &mut String) -> Result<&'t str, RegexError> {
    if let Some(after) = text.strip_prefix("[:")
        && let Some((name, rest)) = after.split_once(":]")
    {
        let positive = name.strip_prefix('^');
        let Some(items) = posix_class(positive.unwrap_or(name)) else {
            return Err(error(RegexProblem::InvalidRange, &format!("[:{name}:]")));
        };
        push_items(class, items, positive.is_some());
        return Ok(rest);
    }
    if let Some((items, rest)) = unicode_class(text)? {
        class.push_str(&items);
        return Ok(rest);
    }
    if let Some(after) = text.strip_prefix('\\')
        && let Some(letter) = after.chars().next()
        && let Some((items, is_negated)) = perl_class(letter)
    {
        push_items(class, items, is_negated);
        return Ok(after.get(1..).unwrap_or_default());
    }
    let (low, mut rest) = character(text, whole)?;
    let mut high = low;
    // A hyphen before the bracket is a character.
    if let Some(after) =
        rest.strip_prefix('-').filter(|after| !after.is_empty() && !after.starts_with(']'))
    {
        (high, rest) = character(after, whole)?;
        if high < low {
            let range = text.strip_suffix(rest).unwrap_or(text);
            return Err(error(RegexProblem::InvalidRange, range));
        }
    }
    push_range(class, low, high);
    Ok(rest)
}

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

fn push_items(class: &mut String, items: &str, is_negated: bool) {
    let negation = if is_negated { "^" } else { "" };
    let _ = write!(class, "[{negation}{items}]");
}

/// A character of a class, which can be escaped, and what follows.
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
