//! Compiles a rule of custom or external metrics, and builds its queries.

use hpa_calc::{Selector, go_text::Quoted};

use crate::promql::{self, Expr, Node};
use crate::rules::{
    Compat,
    config::DiscoveryRule,
    labels::{MappingError, ResourceLabels},
    name::{FilterError, NameError, NameRule, SeriesFilter},
    query::{ObjectQuery, QueriedObjects, QueryContext, QueryError, QueryTemplate},
    regex_budget::RegexBudget,
};
use hpa_go_compat::{regex::GoRegex, template::TemplateError};
use hpa_metrics::resource::ApiResources;

/// An invalid rule. prometheus-adapter exits at the start with the same message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The mapping of labels is invalid.
    #[error(transparent)]
    Mapping(#[from] MappingError),
    /// The query's template is invalid.
    #[error(
        "unable to construct metrics query associated with series query {}: unable to parse \
         metrics query template {}: {source}",
        Quoted(series_query),
        Quoted(template)
    )]
    Query { series_query: String, template: String, source: TemplateError },
    /// A filter is invalid.
    #[error(
        "unable to generate series name filter associated with series query {}: {source}",
        Quoted(series_query)
    )]
    Filter {
        series_query: String,
        /// The position of the filter.
        index: usize,
        source: FilterError,
    },
    /// `name.matches` is invalid.
    #[error(
        "unable to generate series name filter from name rules associated with series query {}: \
         {source}",
        Quoted(series_query)
    )]
    NameMatches { series_query: String, source: FilterError },
    /// `name.as` is missing.
    #[error("{source} associated with series query {}", Quoted(series_query))]
    NameTemplate { series_query: String, source: NameError },
}

impl RuleError {
    /// The path of the invalid field, relative to the rule.
    pub fn field(&self) -> String {
        match self {
            Self::Mapping(error) => error.field(),
            Self::Query { .. } => "metricsQuery".to_owned(),
            Self::Filter { index, .. } => format!("seriesFilters[{index}]"),
            Self::NameMatches { .. } => "name.matches".to_owned(),
            Self::NameTemplate { .. } => "name".to_owned(),
        }
    }
}

/// A rule of custom or external metrics.
#[derive(Debug)]
pub struct Rule {
    /// The selector of the rule's series.
    pub series_query: String,
    pub filters: Vec<SeriesFilter>,
    pub name: NameRule,
    pub labels: ResourceLabels,
    pub query: QueryTemplate,
    /// Whether queries of external metrics select the namespace of the request.
    pub is_namespaced: bool,
}

/// The metric that a rule derives from the name of a series, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Naming {
    Metric(String),
    /// The filter at this position doesn't accept the name.
    Filtered(usize),
    /// `name.matches` doesn't match.
    NoMatch,
}

impl Rule {
    /// Compiles a rule.
    pub fn new(rule: &DiscoveryRule, resources: &ApiResources) -> Result<Self, RuleError> {
        Self::with_budget(rule, resources, &mut RegexBudget::default())
    }

    /// Compiles a rule of a file. The budget is for all rules of the file.
    pub(crate) fn with_budget(
        rule: &DiscoveryRule,
        resources: &ApiResources,
        budget: &mut RegexBudget,
    ) -> Result<Self, RuleError> {
        let series_query = || rule.series_query.clone();
        let labels = ResourceLabels::new(&rule.resources, resources)?;
        labels.charge(budget)?;
        let query = QueryTemplate::new(&rule.metrics_query).map_err(|source| RuleError::Query {
            series_query: series_query(),
            template: rule.metrics_query.clone(),
            source,
        })?;
        let filters = rule.series_filters.iter().enumerate().map(|(index, filter)| {
            let filter = SeriesFilter::new(filter)
                .and_then(|filter| charge(&filter.regex, budget).map(|()| filter));
            filter.map_err(|source| RuleError::Filter {
                series_query: series_query(),
                index,
                source,
            })
        });
        let filters = filters.collect::<Result<_, _>>()?;
        let invalid_matches =
            |source| RuleError::NameMatches { series_query: series_query(), source };
        let name = NameRule::new(&rule.name).map_err(|error| match error {
            NameError::Filter(source) => invalid_matches(source),
            source => RuleError::NameTemplate { series_query: series_query(), source },
        })?;
        charge(&name.regex, budget).map_err(invalid_matches)?;
        let is_namespaced = rule.resources.namespaced.unwrap_or(true);
        Ok(Self { series_query: series_query(), filters, name, labels, query, is_namespaced })
    }

    /// Derives the metric of a series.
    pub fn naming(&self, series: &str) -> Naming {
        if let Some(index) = self.filters.iter().position(|filter| !filter.accepts(series)) {
            return Naming::Filtered(index);
        }
        self.name.metric(series).map_or(Naming::NoMatch, Naming::Metric)
    }

    /// Whether the rule gets the metric as soon as its series exist: `seriesQuery` states one
    /// series name, from which the rule derives the metric.
    pub fn will_have(&self, metric: &str) -> bool {
        let metric = Naming::Metric(metric.to_owned());
        self.series_name().is_some_and(|series| self.naming(series) == metric)
    }

    /// Whether there can be series from which the rule derives the metric. `true` if the rule
    /// states neither a series name nor a metric name.
    pub fn may_have(&self, metric: &str) -> bool {
        let series = self.series_name();
        let is_filtered = |series| matches!(self.naming(series), Naming::Filtered(_));
        self.name.may_derive(series, metric) && !series.is_some_and(is_filtered)
    }

    /// The name of all series that `seriesQuery` selects. `None` if it doesn't state one.
    pub(super) fn series_name(&self) -> Option<&str> {
        series_name(&self.series_query)
    }

    /// The query for a custom metric.
    pub fn custom_query<'a>(
        &'a self,
        series: &'a str,
        objects: QueriedObjects<'a>,
        selector: &'a Selector,
        resources: &'a ApiResources,
        compat: Compat,
    ) -> ObjectQuery<'a> {
        let context = QueryContext { labels: &self.labels, resources, compat };
        let (template, extra_label) = (&self.query, None);
        ObjectQuery { template, series, objects, selector, extra_label, context }
    }

    /// The query for an external metric. The namespace can be empty.
    pub fn external_query(
        &self,
        series: &str,
        namespace: &str,
        selector: &Selector,
        resources: &ApiResources,
        compat: Compat,
    ) -> Result<String, QueryError> {
        let namespace = if self.is_namespaced { namespace } else { "" };
        let context = QueryContext { labels: &self.labels, resources, compat };
        self.query.for_external(series, namespace, selector, context)
    }
}

impl DiscoveryRule {
    /// Like [`Rule::may_have`], but ignores the filters, and works for an invalid rule. `true` if
    /// `name` is invalid.
    pub fn may_have(&self, metric: &str) -> bool {
        let Ok(name) = NameRule::new(&self.name) else { return true };
        name.may_derive(series_name(&self.series_query), metric)
    }
}

/// The name of all series that a selector selects. `None` if it doesn't state one.
fn series_name(series_query: &str) -> Option<&str> {
    let name = match promql::parse_without_regex_checks(series_query) {
        Ok(Expr { node: Node::Selector(selector), .. }) => selector.metric_name(),
        _ => None,
    };
    // A name with escapes would have to be decoded.
    name.filter(|name| !name.contains('\\'))
}

fn charge(regex: &GoRegex, budget: &mut RegexBudget) -> Result<(), FilterError> {
    budget.charge(regex).map_err(|source| {
        let expression = regex.as_str().to_owned();
        FilterError::Regex { expression, source }
    })
}

#[cfg(test)]
mod tests {
    use hpa_metrics::test_doubles::resources;
    use rstest::rstest;

    use super::*;
    use crate::rules::config::NameMapping;

    #[rstest]
    #[case::same_name("jobs_total", "", "", "jobs_total", true)]
    #[case::other_name("jobs_total", "", "", "orders", false)]
    #[case::matcher(r#"{__name__="jobs_total"}"#, "^(.*)_total$", "", "jobs", true)]
    #[case::replaced_name("jobs_total", "^(.*)_total$", "", "jobs_total", false)]
    #[case::unmatched_name("jobs_total", "^x", "", "jobs_total", false)]
    #[case::constant_metric(r#"{pod!=""}"#, "", "busy", "busy", true)]
    #[case::other_than_the_constant(r#"{pod!=""}"#, "", "busy", "orders", false)]
    #[case::any_series(r#"{pod!=""}"#, "", "", "orders", true)]
    #[case::pattern(r#"{__name__=~"jobs_.*"}"#, "", "", "orders", true)]
    #[case::other_names(r#"{__name__!="jobs"}"#, "", "", "orders", true)]
    #[case::second_matcher(r#"{__name__!="a",__name__="jobs"}"#, "", "", "orders", false)]
    #[case::escaped_name(r#"{__name__="jobs\u005f1"}"#, "", "", "jobs_1", true)]
    #[case::no_promql(r#"{__name__="a" or __name__="orders"}"#, "", "", "orders", true)]
    fn rule_may_have_a_metric_unless_its_names_exclude_it(
        #[case] series_query: &str,
        #[case] matches: &str,
        #[case] template: &str,
        #[case] metric: &str,
        #[case] expected: bool,
    ) {
        let definition = DiscoveryRule {
            series_query: series_query.to_owned(),
            name: NameMapping { matches: matches.to_owned(), as_template: template.to_owned() },
            metrics_query: "<<.Series>>".to_owned(),
            ..DiscoveryRule::default()
        };
        let rule = Rule::new(&definition, &resources()).unwrap();
        assert_eq!(rule.may_have(metric), expected);
    }
}
