//! Formats numbers, times and lists, and escapes texts from the cluster.

use std::{borrow::Cow, fmt::Display};

/// Formats seconds as minutes and seconds, with hours if there are any: `4:05`, `1:04:05`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
pub fn minutes_and_seconds(seconds: f64) -> String {
    let total = seconds as u64;
    let (hours, minutes, seconds) = (total / 3600, total / 60 % 60, total % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// Formats a number with three significant digits, but at most two decimals and all digits before
/// the point: `1234`, `56.7`, `0.25`.
pub fn number(value: f64) -> String {
    let decimals = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A number and a noun, which is plural unless the number is one: `1 pod`, `2 pods`.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let plural = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// The first `limit` texts with a separator between them, and the number of the others:
/// `a, b and 3 more`.
pub fn list_first<T: AsRef<str>>(texts: &[T], limit: usize, separator: &str) -> String {
    let listed: Vec<&str> = texts.iter().take(limit).map(AsRef::as_ref).collect();
    let listed = listed.join(separator);
    match texts.len().saturating_sub(limit) {
        0 => listed,
        others => format!("{listed} and {others} more"),
    }
}

/// Whether a text has the name of an object as a whole word. `shop/web-2` doesn't name `shop/web`.
pub fn has_name(text: &str, name: &str) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || "-./_".contains(c);
    let mut words = text.split(|c: char| !is_of_name(c));
    // A full stop may end a sentence.
    words.any(|word| word.trim_end_matches('.') == name)
}

/// Escapes the control and format characters of a text, including line ends and tabs. Names and
/// messages from a cluster may contain them. They must not forge a line of output, control a
/// terminal, or change the direction of the text around them.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escape_chars(text, |c| c.is_control() || is_format(c))
}

/// Escapes the selected characters of a text as in Rust: `\n`, `\u{1b}`.
pub fn escape_chars(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_escaped(c) { escaped.extend(c.escape_default()) } else { escaped.push(c) }
    }
    Cow::Owned(escaped)
}

/// Whether the character has the category Cf (format) of Unicode 16, or separates lines or
/// paragraphs. Such characters are invisible and can make two names look alike, or change the
/// direction of the text around them.
pub fn is_format(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{890}'..='\u{891}'
            | '\u{8e2}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{110bd}'
            | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0001}'
            | '\u{e0020}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0.4, "0:00")]
    #[case(65.9, "1:05")]
    #[case(3_845.0, "1:04:05")]
    fn minutes_and_seconds_have_hours_if_needed(#[case] seconds: f64, #[case] expected: &str) {
        assert_eq!(minutes_and_seconds(seconds), expected);
    }

    #[test]
    fn noun_is_plural_unless_the_number_is_one() {
        let all =
            [counted(0, "pod"), counted(1_usize, "pod"), counted(-1, "pod"), counted(2, "pod")];
        assert_eq!(all, ["0 pods", "1 pod", "-1 pods", "2 pods"]);
    }

    #[rstest]
    #[case(&[], "")]
    #[case(&["a", "b"], "a; b")]
    #[case(&["a", "b", "c"], "a; b and 1 more")]
    fn texts_after_the_limit_are_counted(#[case] texts: &[&str], #[case] expected: &str) {
        assert_eq!(list_first(texts, 2, "; "), expected);
    }

    #[rstest]
    #[case("Zürich: a \\n √", "Zürich: a \\n √")]
    #[case("a\nb\r\t\x1b[2J\u{85}\u{2028}", r"a\nb\r\t\u{1b}[2J\u{85}\u{2028}")]
    #[case("a\u{202e}b\u{2066}c\u{ad}d\u{e0041}", r"a\u{202e}b\u{2066}c\u{ad}d\u{e0041}")]
    fn text_of_several_lines_becomes_one(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(one_line(text), expected);
    }

    #[rstest]
    #[case(0.0, "0")]
    #[case(0.25, "0.25")]
    #[case(5.0, "5")]
    #[case(12.34, "12.3")]
    #[case(100.0, "100")]
    #[case(1234.5, "1234")]
    fn numbers_have_three_significant_digits(#[case] value: f64, #[case] expected: &str) {
        assert_eq!(number(value), expected);
    }
}
