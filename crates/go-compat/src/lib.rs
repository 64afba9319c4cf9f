//! Reimplements the parts of Go and its libraries that determine what users' files and environment
//! variables mean.
//!
//! ```text
//!  rules file ──► template (text/template, fmt) ──► queries, labels      hpa-prometheus
//!             ──► yaml (YAML 1.1)               ──► trees with positions hpa-prometheus, hpa lint
//!             ──► regex (regexp, RE2 syntax)    ──► names of metrics     hpa-prometheus
//!  queries    ──► regex                         ──► checked matchers     hpa-prometheus
//!  JSONPath   ──► regex                         ──► filters              hpa-collectors
//!  scenarios  ──► yaml                          ──► positions            hpa-simulate
//!  HTTPS_PROXY, NO_PROXY, proxy-url ──► proxy   ──► direct, or a proxy   every client of a server
//! ```
//!
//! [`Compat`] is the setting with which other crates select whether to reproduce harmful behavior.
//!
//! Go's durations and quoted texts are in `hpa_calc`.

#[cfg(feature = "proxy")]
pub mod proxy;
pub mod regex;
pub mod template;
pub mod yaml;

use std::sync::LazyLock;

use ::regex::Regex;

/// Whether a character can be part of a name in Go: an underscore, a letter (`unicode.IsLetter`) or
/// a decimal digit (`unicode.IsDigit`).
pub(crate) fn is_word_char(char: char) -> bool {
    /// `char::is_alphanumeric` also accepts numbers such as `Ⅳ` and `²`, and marks.
    static LETTER_OR_DIGIT: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"[\p{L}\p{Nd}]").ok());
    if char.is_ascii() {
        return char == '_' || char.is_ascii_alphanumeric();
    }
    let class = LETTER_OR_DIGIT.as_ref();
    class.is_some_and(|class| class.is_match(char.encode_utf8(&mut [0; 4])))
}

/// Truncates a number. `None` if it is NaN or out of range, which Go on amd64 converts to the
/// smallest integer.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "in range, and truncated")]
pub fn truncate_to_i64(number: f64) -> Option<i64> {
    /// 2⁶³, the first float that is out of range.
    const END: f64 = 9_223_372_036_854_775_808.0;
    (-END..END).contains(&number).then_some(number as i64)
}

/// Whether a component reproduces the reference (prometheus-adapter or kube-metrics-adapter) even
/// where its behavior can do harm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// Avoids the harm: for example, values that don't exist or don't fit are errors, and texts in
    /// queries are escaped.
    #[default]
    Off,
    /// Behaves like the reference.
    Reference,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_characters_are_those_of_go() {
        for char in ['_', 'a', '9', 'é', '語', '\u{663}'] {
            assert!(is_word_char(char), "{char:?}");
        }
        // The last ones are a letter number, another number, and an alphabetic mark.
        for char in ['-', '.', 'Ⅳ', '²', '\u{345}'] {
            assert!(!is_word_char(char), "{char:?}");
        }
    }
}
