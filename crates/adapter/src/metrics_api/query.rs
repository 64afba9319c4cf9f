//! Parses the query of a URL, and list options in it.

use std::borrow::Cow;

use hpa_calc::{Selector, go_text::Quoted};
use percent_encoding::percent_decode_str;

use crate::metrics_api::field_selector::FieldSelector;

/// The parameters of a query, like Go's `url.Values`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UrlQuery {
    pairs: Vec<(String, String)>,
}

impl UrlQuery {
    /// Parses a query. As in Go, invalid parameters are left out.
    pub fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        let pairs = pairs.filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode_component(key)?, decode_component(value)?))
        });
        Self { pairs: pairs.collect() }
    }

    /// The first value of a parameter.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.all(key).next()
    }

    /// The values of a parameter, in their order.
    pub fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        let pairs = self.pairs.iter().filter(move |(name, _)| name == key);
        pairs.map(|(_, value)| value.as_str())
    }
}

fn decode_component(text: &str) -> Option<String> {
    let text = if text.contains('+') { Cow::Owned(text.replace('+', " ")) } else { text.into() };
    decode(&text)
}

/// Decodes percent-encoded text. `None` if an escape is invalid, or the text is not UTF-8.
pub fn decode(text: &str) -> Option<String> {
    let has_invalid_escape = text.split('%').skip(1).any(|part| {
        let digits = part.get(..2).unwrap_or_default();
        digits.len() != 2 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    if has_invalid_escape {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned)
}

/// The list options that metrics support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListOptions {
    /// Selects objects by labels.
    pub label_selector: Selector,
    /// Selects objects by name and namespace.
    pub field_selector: FieldSelector,
    pub watch: bool,
}

impl ListOptions {
    /// The error is the message of apimachinery.
    pub fn parse(query: &UrlQuery) -> Result<Self, String> {
        for key in ["timeoutSeconds", "limit"] {
            query.get(key).map_or(Ok(()), check_integer)?;
        }
        let label_selector = Selector::parse(query.get("labelSelector").unwrap_or_default());
        Ok(Self {
            label_selector: label_selector.map_err(|error| error.to_string())?,
            field_selector: FieldSelector::parse(query.get("fieldSelector").unwrap_or_default())?,
            watch: is_watch(query),
        })
    }
}

/// Whether a query asks for a watch.
pub(crate) fn is_watch(query: &UrlQuery) -> bool {
    let is_off = |value: &str| value == "0" || value.eq_ignore_ascii_case("false");
    query.get("watch").is_some_and(|value| !is_off(value))
}

fn check_integer(text: &str) -> Result<(), String> {
    let Err(error) = text.parse::<i64>() else { return Ok(()) };
    let reason = match error.kind() {
        std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => {
            "value out of range"
        }
        _ => "invalid syntax",
    };
    Err(format!("strconv.ParseInt: parsing {}: {reason}", Quoted(text)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn first_value_is_used() {
        let query = UrlQuery::parse("a=1&b=x%3Dy+z&a=2&c");
        assert_eq!(query.get("a"), Some("1"));
        assert_eq!(query.get("b"), Some("x=y z"));
        assert_eq!(query.get("c"), Some(""));
        assert_eq!(query.get("d"), None);
    }

    #[test]
    fn invalid_parameters_are_left_out() {
        let query = UrlQuery::parse("a=%zz&b=%4&c=1;d=2&%ff=1&e=3");
        assert_eq!(query, UrlQuery::parse("e=3"));
    }

    #[rstest]
    #[case("limit=x", "strconv.ParseInt: parsing \"x\": invalid syntax")]
    #[case(
        "limit=99999999999999999999",
        "strconv.ParseInt: parsing \"99999999999999999999\": value out of range"
    )]
    #[case("labelSelector=%2C", "found ',', expected: !, identifier, or 'end of string'")]
    #[case("fieldSelector=x", "invalid selector: 'x'; can't understand 'x'")]
    fn invalid_options_are_reported(#[case] query: &str, #[case] message: &str) {
        let error = ListOptions::parse(&UrlQuery::parse(query)).unwrap_err();
        assert_eq!(error, message);
    }

    #[rstest]
    #[case("watch=true", true)]
    #[case("watch", true)]
    #[case("watch=0", false)]
    #[case("watch=False", false)]
    #[case("", false)]
    fn watch_is_a_flag(#[case] query: &str, #[case] watch: bool) {
        assert_eq!(ListOptions::parse(&UrlQuery::parse(query)).unwrap().watch, watch);
    }
}
