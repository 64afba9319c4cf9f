//! Literals of Go: strings, characters and numbers.

use hpa_calc::go_text::Quoted;

use super::ast::Number;

/// The text of a string in double quotes or backquotes, quotes included.
pub(super) fn text(literal: &str) -> Option<String> {
    if let Some(raw) = literal.strip_prefix('`') {
        return Some(raw.strip_suffix('`')?.replace('\r', ""));
    }
    let quoted = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut bytes = Vec::with_capacity(quoted.len());
    let mut rest = quoted;
    while !rest.is_empty() {
        rest = unescape(rest, '"', &mut bytes)?;
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Appends the first character of `text`, which can be escaped, and returns the rest.
fn unescape<'t>(text: &'t str, quote: char, bytes: &mut Vec<u8>) -> Option<&'t str> {
    let mut chars = text.chars();
    let first = chars.next()?;
    let push = |bytes: &mut Vec<u8>, char: char| {
        bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
    };
    if first != '\\' {
        push(bytes, first);
        return Some(chars.as_str());
    }
    let escape = chars.next()?;
    let rest = chars.as_str();
    let digits = |len: usize, radix: u32, from: &'t str| -> Option<(u32, &'t str)> {
        let (digits, rest) = from.split_at_checked(len)?;
        let is_valid = digits.chars().all(|digit| digit.is_digit(radix));
        Some((u32::from_str_radix(digits, radix).ok().filter(|_| is_valid)?, rest))
    };
    let char = match escape {
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        '\\' => '\\',
        _ if escape == quote => quote,
        // A byte, which is not necessarily a character.
        'x' => {
            let (value, rest) = digits(2, 16, rest)?;
            bytes.push(u8::try_from(value).ok()?);
            return Some(rest);
        }
        '0'..='7' => {
            let (value, rest) = digits(3, 8, text.get(1..)?)?;
            bytes.push(u8::try_from(value).ok()?);
            return Some(rest);
        }
        'u' | 'U' => {
            let (value, rest) = digits(if escape == 'u' { 4 } else { 8 }, 16, rest)?;
            push(bytes, char::from_u32(value)?);
            return Some(rest);
        }
        _ => return None,
    };
    push(bytes, char);
    Some(rest)
}

/// A number or a character.
pub(super) fn number(literal: &str) -> Result<Number, String> {
    if let Some(char) = literal.strip_prefix('\'') {
        let code_point = char.strip_suffix('\'').and_then(char_code);
        return code_point
            .map(Number::Int)
            .ok_or_else(|| format!("malformed character constant: {literal}"));
    }
    if let Some(int) = int(literal) {
        return Ok(int);
    }
    if literal.contains(['.', 'e', 'E'])
        && !literal.contains('_')
        && let Ok(float) = literal.parse()
    {
        return Ok(Number::Float(float));
    }
    let is_decimal = |char: char| char.is_ascii_digit() || matches!(char, '+' | '-');
    let problem =
        if literal.chars().all(is_decimal) { "integer overflow" } else { "illegal number syntax" };
    Err(format!("{problem}: {}", Quoted(literal)))
}

fn char_code(quoted: &str) -> Option<i64> {
    let mut bytes = Vec::new();
    let rest = unescape(quoted, '\'', &mut bytes)?;
    if !rest.is_empty() {
        return None;
    }
    match str::from_utf8(&bytes) {
        Ok(text) => text.chars().next().map(|char| i64::from(u32::from(char))),
        Err(_) => bytes.first().map(|byte| i64::from(*byte)),
    }
}

/// An integer with an optional sign, base prefix and underscores between digits.
fn int(literal: &str) -> Option<Number> {
    let unsigned = literal.strip_prefix(['+', '-']).unwrap_or(literal);
    let lower = unsigned.to_ascii_lowercase();
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, lower.get(2..)?),
        Some("0o") => (8, lower.get(2..)?),
        Some("0b") => (2, lower.get(2..)?),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, lower.get(1..)?),
        _ => (10, &*lower),
    };
    let starts_number = radix == 10;
    if (starts_number && digits.starts_with('_')) || digits.ends_with('_') || digits.contains("__")
    {
        return None;
    }
    let digits = digits.replace('_', "");
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    let sign = if literal.starts_with('-') { "-" } else { "" };
    match i64::from_str_radix(&format!("{sign}{digits}"), radix) {
        Ok(value) => Some(Number::Int(value)),
        Err(_) => Some(Number::Overflow),
    }
}
