//! The options of a list request.

use hpa_calc::{Selector, go_text::Quoted, selector::SelectorError};

use crate::metrics_api::{
    field_selector::{FieldSelector, FieldSelectorError},
    query::Query,
};

/// The options of a list request that metrics have a use for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListOptions {
    /// Selects objects by labels.
    pub label_selector: Selector,
    /// Selects objects by name and namespace.
    pub field_selector: FieldSelector,
    /// Whether the client asks for a watch.
    pub watch: bool,
}

/// Why options are invalid. The messages are those of the API's libraries.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListOptionsError {
    /// A number is expected.
    #[error("strconv.ParseInt: parsing {}: {reason}", Quoted(text))]
    Number {
        /// The parameter's value.
        text: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// The label selector.
    #[error(transparent)]
    LabelSelector(#[from] SelectorError),
    /// The field selector.
    #[error(transparent)]
    FieldSelector(#[from] FieldSelectorError),
}

impl ListOptions {
    /// Reads the options of a query.
    pub fn parse(query: &Query) -> Result<Self, ListOptionsError> {
        for key in ["timeoutSeconds", "limit"] {
            query.get(key).map_or(Ok(()), check_integer)?;
        }
        Ok(Self {
            label_selector: Selector::parse(query.get("labelSelector").unwrap_or_default())?,
            field_selector: FieldSelector::parse(query.get("fieldSelector").unwrap_or_default())?,
            watch: is_watch(query),
        })
    }
}

/// Whether a query asks for a watch.
pub(crate) fn is_watch(query: &Query) -> bool {
    let is_off = |value: &str| value == "0" || value.eq_ignore_ascii_case("false");
    query.get("watch").is_some_and(|value| !is_off(value))
}

fn check_integer(text: &str) -> Result<(), ListOptionsError> {
    let Err(error) = text.parse::<i64>() else { return Ok(()) };
    let reason = match error.kind() {
        std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => {
            "value out of range"
        }
        _ => "invalid syntax",
    };
    Err(ListOptionsError::Number { text: text.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("limit=x", "strconv.ParseInt: parsing \"x\": invalid syntax")]
    #[case(
        "limit=99999999999999999999",
        "strconv.ParseInt: parsing \"99999999999999999999\": value out of range"
    )]
    #[case("labelSelector=%2C", "found ',', expected: !, identifier, or 'end of string'")]
    #[case("fieldSelector=x", "invalid selector: 'x'; can't understand 'x'")]
    fn invalid_options_are_reported(#[case] query: &str, #[case] message: &str) {
        let error = ListOptions::parse(&Query::parse(query)).unwrap_err();
        assert_eq!(error.to_string(), message);
    }

    #[rstest]
    #[case("watch=true", true)]
    #[case("watch", true)]
    #[case("watch=0", false)]
    #[case("watch=False", false)]
    #[case("", false)]
    fn watch_is_a_flag(#[case] query: &str, #[case] watch: bool) {
        assert_eq!(ListOptions::parse(&Query::parse(query)).unwrap().watch, watch);
    }
}
