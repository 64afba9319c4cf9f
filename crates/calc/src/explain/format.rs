//! Formats numbers and times, and escapes texts from the cluster.

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

/// Escapes the control characters and line separators of a text. Names and messages from a cluster
/// may have any, and must not be mistaken for a line of the program that prints them.
pub fn one_line(text: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) { escaped.extend(c.escape_default()) } else { escaped.push(c) }
    }
    Cow::Owned(escaped)
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
    #[case("Zürich: a \\n √", "Zürich: a \\n √")]
    #[case("a\nb\r\t\x1b[2J\u{85}\u{2028}", r"a\nb\r\t\u{1b}[2J\u{85}\u{2028}")]
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
