//! Strings as Go prints them, in messages of the API and in queries of Prometheus.

use std::{
    collections::HashSet,
    fmt::{self, Write as _},
};

/// A string as `fmt` prints it with `%q`: in quotes, with unprintable characters escaped.
///
/// ```
/// use hpa_calc::go_text::Quoted;
///
/// assert_eq!(Quoted("a \"b\"\n").to_string(), r#""a \"b\"\n""#);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for char in self.0.chars() {
            match char {
                '"' | '\\' => write!(f, "\\{char}"),
                '\x07' => f.write_str("\\a"),
                '\x08' => f.write_str("\\b"),
                '\x0c' => f.write_str("\\f"),
                '\n' => f.write_str("\\n"),
                '\r' => f.write_str("\\r"),
                '\t' => f.write_str("\\t"),
                '\x0b' => f.write_str("\\v"),
                _ if is_printable(char) => f.write_char(char),
                '\0'..' ' | '\x7f' => write!(f, "\\x{:02x}", u32::from(char)),
                ..='\u{ffff}' => write!(f, "\\u{:04x}", u32::from(char)),
                _ => write!(f, "\\U{:08x}", u32::from(char)),
            }?;
        }
        f.write_char('"')
    }
}

/// The first `max` characters of a text, followed by `…` if there are more.
pub fn truncate(text: String, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Joins errors like Go's aggregated errors: without duplicates, and in brackets if there are
/// several.
pub(crate) fn join_errors(errors: impl IntoIterator<Item = String>) -> String {
    let mut seen = HashSet::new();
    let distinct: Vec<_> = errors.into_iter().filter(|error| seen.insert(error.clone())).collect();
    let joined = distinct.join(", ");
    if distinct.len() > 1 { format!("[{joined}]") } else { joined }
}

/// A string as `encoding/json` prints it, with the characters of HTML escaped. The API server
/// prints strings of named types (`MetricTargetType`, `ResourceName`) like this.
pub(crate) struct JsonString<'a>(pub(crate) &'a str);

impl fmt::Display for JsonString<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for char in self.0.chars() {
            match char {
                '"' | '\\' => write!(f, "\\{char}"),
                '\x08' => f.write_str("\\b"),
                '\x0c' => f.write_str("\\f"),
                '\n' => f.write_str("\\n"),
                '\r' => f.write_str("\\r"),
                '\t' => f.write_str("\\t"),
                '\0'..' ' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                    write!(f, "\\u{:04x}", u32::from(char))
                }
                _ => f.write_char(char),
            }?;
        }
        f.write_char('"')
    }
}

/// Whether a character is a letter, a mark, a number, punctuation, a symbol or the ASCII space
/// (Go's `unicode.IsPrint`).
pub fn is_printable(char: char) -> bool {
    if char.is_ascii() {
        return char.is_ascii_graphic() || char == ' ';
    }
    // The standard library exposes its table of printable characters only through `escape_debug`.
    // That also escapes a combining mark at the start of a text, hence the letter before it.
    String::from_iter(['a', char]).escape_debug().nth(1) == Some(char)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::empty("", r#""""#)]
    #[case::quote_and_backslash("\"\\", r#""\"\\""#)]
    #[case::named_escapes("\x07\x08\x0c\n\r\t\x0b", r#""\a\b\f\n\r\t\v""#)]
    #[case::last_control("\x1f", r#""\x1f""#)]
    #[case::first_printable(" ", r#"" ""#)]
    #[case::last_printable_ascii("~", r#""~""#)]
    #[case::delete("\x7f", r#""\x7f""#)]
    #[case::c1_control("\u{80}", r#""\u0080""#)]
    #[case::other_space("\u{a0}", r#""\u00a0""#)]
    #[case::format_character("\u{200d}", r#""\u200d""#)]
    #[case::combining_mark("\u{301}", "\"\u{301}\"")]
    #[case::letters("ä語", "\"ä語\"")]
    #[case::replacement_character("\u{fffd}", "\"\u{fffd}\"")]
    #[case::noncharacter_in_four_digits("\u{ffff}", r#""\uffff""#)]
    #[case::emoji("\u{1f600}", "\"\u{1f600}\"")]
    #[case::private_use_in_eight_digits("\u{100000}", r#""\U00100000""#)]
    #[case::html_stays("<>&", r#""<>&""#)]
    fn quoted_escapes_like_go(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(Quoted(text).to_string(), expected);
    }

    #[rstest]
    #[case::empty("", r#""""#)]
    #[case::quote_and_backslash("\"\\", r#""\"\\""#)]
    #[case::named_escapes("\x08\x0c\n\r\t", r#""\b\f\n\r\t""#)]
    #[case::bell_and_vertical_tab("\x07\x0b", r#""\u0007\u000b""#)]
    #[case::last_control("\x1f", r#""\u001f""#)]
    #[case::html("<>&", r#""\u003c\u003e\u0026""#)]
    #[case::delete_stays("\x7f", "\"\x7f\"")]
    #[case::line_separators("\u{2028}\u{2029}", r#""\u2028\u2029""#)]
    #[case::just_before_and_after_them("\u{2027}\u{202a}", "\"\u{2027}\u{202a}\"")]
    fn json_escapes_like_go(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(JsonString(text).to_string(), expected);
    }
}
