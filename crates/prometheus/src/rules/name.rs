//! Derives metric names from the names of series.

use hpa_calc::go_text::Quoted;

use crate::rules::config::{NameMapping, RegexFilter};
use hpa_go_compat::regex::{GoRegex, RegexError};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// A filter has both expressions.
    #[error(
        "cannot have both an `is` ({}) and `isNot` ({}) expression in a single filter",
        Quoted(is),
        Quoted(is_not)
    )]
    Both { is: String, is_not: String },
    /// A filter has no expression.
    #[error("must have either an `is` or `isNot` expression in a filter")]
    Neither,
    /// The expression is invalid.
    #[error("unable to compile series filter {}: {source}", Quoted(expression))]
    Regex { expression: String, source: RegexError },
}

/// A condition on the name of a series.
#[derive(Debug)]
pub struct SeriesFilter {
    pub regex: GoRegex,
    /// `true` for `is`, `false` for `isNot`.
    pub must_match: bool,
}

impl SeriesFilter {
    /// Compiles a filter.
    pub fn new(filter: &RegexFilter) -> Result<Self, FilterError> {
        let RegexFilter { is, is_not } = filter;
        let (expression, must_match) = match (is.is_empty(), is_not.is_empty()) {
            (false, true) => (is, true),
            (true, false) => (is_not, false),
            (true, true) => return Err(FilterError::Neither),
            (false, false) => {
                return Err(FilterError::Both { is: is.clone(), is_not: is_not.clone() });
            }
        };
        let regex = GoRegex::new(expression)
            .map_err(|source| FilterError::Regex { expression: expression.clone(), source })?;
        Ok(Self { regex, must_match })
    }

    /// Whether the name passes the filter.
    pub fn accepts(&self, series: &str) -> bool {
        self.regex.is_match(series) == self.must_match
    }
}

/// Derives metric names from the names of series.
#[derive(Debug)]
pub struct NameRule {
    pub regex: GoRegex,
    template: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The expression is invalid.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The expression has several groups, and there is no template.
    #[error("must specify an 'as' value for name matcher {}", Quoted(.0))]
    NoTemplate(String),
}

impl NameRule {
    /// Compiles the mapping. Without a template, the metric is named after the only group of the
    /// expression, or after the expression's whole match if it has no group. Several groups need a
    /// template.
    pub fn new(mapping: &NameMapping) -> Result<Self, NameError> {
        let expression = if mapping.matches.is_empty() { ".*" } else { &mapping.matches };
        let regex = GoRegex::new(expression)
            .map_err(|source| FilterError::Regex { expression: expression.to_owned(), source })?;
        let template = match (&*mapping.as_template, regex.group_count()) {
            ("", 0) => "$0",
            ("", 1) => "$1",
            ("", _) => return Err(NameError::NoTemplate(mapping.matches.clone())),
            (template, _) => template,
        };
        Ok(Self { template: template.to_owned(), regex })
    }

    /// The metric's name. `None` if the expression doesn't match the series.
    pub fn metric(&self, series: &str) -> Option<String> {
        self.regex.expand(&self.template, series)
    }

    /// The name of all metrics, if it doesn't depend on the series.
    fn constant(&self) -> Option<&str> {
        (!self.template.contains('$')).then_some(&*self.template)
    }

    /// Whether there can be series that have this metric. `series` is the name of all series of the
    /// rule, if they have one. `true` if neither the series nor the metric has a fixed name.
    pub(super) fn may_derive(&self, series: Option<&str>, metric: &str) -> bool {
        match (series, self.constant()) {
            (Some(series), _) => self.metric(series).as_deref() == Some(metric),
            (None, Some(constant)) => constant == metric,
            (None, None) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::all("", "", "http_requests_total", Some("http_requests_total"))]
    #[case::only_group("^(.*)_total$", "", "http_requests_total", Some("http_requests"))]
    #[case::first_match_only("foo", "$0", "xfooy", Some("foo"))]
    #[case::braces("^(.*)_total$", "${1}_per_second", "a_total", Some("a_per_second"))]
    #[case::longest_name("^(.*)_total$", "$1_x", "a_total", Some(""))]
    #[case::named("(?P<base>.*)_total", "${base}_rate", "a_total", Some("a_rate"))]
    #[case::dollar("(.*)", "$$1", "a", Some("$1"))]
    #[case::malformed("(.*)", "${a-b}$", "a", Some("${a-b}$"))]
    #[case::no_match("^b", "", "a", None)]
    fn series_are_named(
        #[case] matches: &str,
        #[case] template: &str,
        #[case] series: &str,
        #[case] expected: Option<&str>,
    ) {
        let mapping = NameMapping { matches: matches.to_owned(), as_template: template.to_owned() };
        assert_eq!(NameRule::new(&mapping).unwrap().metric(series).as_deref(), expected);
    }

    #[test]
    fn several_groups_need_a_template() {
        let mapping = NameMapping { matches: "(a)(b)".to_owned(), as_template: String::new() };
        let error = NameRule::new(&mapping).unwrap_err().to_string();
        assert_eq!(error, r#"must specify an 'as' value for name matcher "(a)(b)""#);
    }

    #[rstest]
    #[case::is("_total$", "", "a_total", true)]
    #[case::is_anywhere("tot", "", "a_total", true)]
    #[case::is_not("", "_total$", "a_total", false)]
    #[case::is_not_other("", "_total$", "a", true)]
    fn filters_accept(
        #[case] is: &str,
        #[case] is_not: &str,
        #[case] series: &str,
        #[case] expected: bool,
    ) {
        let filter = RegexFilter { is: is.to_owned(), is_not: is_not.to_owned() };
        assert_eq!(SeriesFilter::new(&filter).unwrap().accepts(series), expected);
    }
}
