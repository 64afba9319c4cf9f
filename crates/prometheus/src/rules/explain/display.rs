//! Formats the parts of explanations, with advice.

use std::fmt;

use hpa_calc::explain::counted;

use super::{RequestProblem, RuleOutcome, SeriesRefusal, Warning};
use crate::rules::query::{QueryError, with_single_spaces};

/// Advice for series that may be of no object.
const OR_EXTERNAL: &str = ". If the series are of no object, use externalRules";

impl fmt::Display for RequestProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoObjects => f.write_str("no objects: the selector selects none"),
            Self::UnknownResource(error) => write!(f, "the API has no such resource: {error}"),
            Self::NeedsNamespace(resource) => {
                write!(f, "metrics of {resource} are read in a namespace: add --namespace NAME")
            }
            Self::HasNamespace(resource) => {
                write!(f, "metrics of {resource} are read without a namespace: remove --namespace")
            }
            Self::ExternalNeedsNamespace => {
                f.write_str("external metrics are read in a namespace: add --namespace NAME")
            }
        }
    }
}

impl RuleOutcome {
    /// The outcome as text. `rule_name` names another rule by its index.
    pub fn describe(&self, rule_name: impl Fn(usize) -> String) -> String {
        let Self::Shadowed { by, query } = self else { return self.to_string() };
        format!(
            "{} also has the metric, and the last rule takes precedence. Rename the metric in one \
             of them, or change their order. Not used: {}",
            rule_name(*by),
            with_single_spaces(query)
        )
    }
}

impl fmt::Display for RuleOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "the rule is refused: {}", error.describe()),
            Self::NoSeries { series_query, .. } => write!(
                f,
                "Prometheus has no series for the seriesQuery `{series_query}`. Check names and \
                 labels in it, and whether the series is older than the maximum age"
            ),
            Self::AllFiltered { names } => {
                let names = names.iter().map(|(name, refusal)| format!("{name} ({refusal})"));
                let names = names.collect::<Vec<_>>().join(", ");
                write!(f, "seriesFilters and name.matches accept no series: {names}")
            }
            Self::SeriesFiltered(refusal) => write!(f, "the series exists, but {refusal}"),
            Self::DifferentMetricName { metric } => {
                write!(
                    f,
                    "the series exists, but its metric is named `{metric}`: request that name"
                )
            }
            Self::OtherMetrics { similar, count } => {
                match count {
                    1 => f.write_str("its only metric has another name")?,
                    _ => write!(f, "none of its {} has that name", counted(*count, "metric"))?,
                }
                if similar.is_empty() {
                    return Ok(());
                }
                write!(f, ". Similar: {}", similar.join(", "))
            }
            Self::OtherResources { resources, labels, expected } => {
                f.write_str("it has the metric, but not for this resource")?;
                if !resources.is_empty() {
                    let names: Vec<String> = resources.iter().map(ToString::to_string).collect();
                    write!(f, ", only for {}", names.join(", "))?;
                }
                let labels = labels.join(", ");
                match expected {
                    Ok(label) => write!(
                        f,
                        ". No series has the label `{label}`; the labels are {labels}. Change the \
                         override or the template to the label with the object's name{OR_EXTERNAL}"
                    ),
                    Err(_) => write!(
                        f,
                        ". No override and no template has the resource; the labels are {labels}. \
                         Add an override for the label with the object's name{OR_EXTERNAL}"
                    ),
                }
            }
            Self::NoQuery { series, error } => {
                let field = if error.template_mistake().is_some() { "metricsQuery: " } else { "" };
                let error_text = error.describe();
                write!(f, "the query for the series {series} can't be built: {field}{error_text}")?;
                f.write_str(advice(error))
            }
            Self::Shadowed { .. } => f.write_str(&self.describe(|by| format!("rule {by}"))),
            Self::Applies { series, query, warnings, .. } => {
                write!(f, "applies with the series {series}: {}", with_single_spaces(query))?;
                warnings.iter().try_for_each(|warning| write!(f, "\n  warning: {warning}"))?;
                self.sharing().map_or(Ok(()), |sharing| write!(f, "\n  {sharing}"))
            }
        }
    }
}

/// Advice for a query that can't be built.
fn advice(error: &QueryError) -> &'static str {
    match error {
        QueryError::Label(_) => {
            ". Add an override or a template for it, or, in an external rule, set \
             resources.namespaced to false"
        }
        QueryError::UnsupportedOperator => ". Don't use < and > in the selector",
        QueryError::Template(_) => "",
        QueryError::Empty => ". metricsQuery must not be empty",
    }
}

impl fmt::Display for SeriesRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filter { index, expression, must_match: true } => {
                write!(f, "seriesFilters[{index}].is `{expression}` doesn't match it")
            }
            Self::Filter { index, expression, must_match: false } => {
                write!(f, "seriesFilters[{index}].isNot `{expression}` matches it")
            }
            Self::Name { expression } => write!(f, "name.matches `{expression}` doesn't match it"),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CounterWithoutRate { series } => write!(
                f,
                "{series} looks like a counter, which only grows: use rate({series}{{…}}[2m])"
            ),
            Self::QuantileWithoutLe { aggregation } => write!(
                f,
                "histogram_quantile has no result, because `{aggregation}` drops the label `le` of \
                 the buckets: group by `le` too, as in by (le, …)"
            ),
            Self::NoMatchers => f.write_str(
                "the query selects no objects: use <<.LabelMatchers>> in metricsQuery, or the \
                 result can be that of other objects",
            ),
            Self::Unit { series, unit, hint } => {
                write!(f, "the values of {series} are in {unit}: {hint}")
            }
            Self::NotGroupedBy { label } => write!(
                f,
                "the query aggregates, but not by `{label}`: use by (<<.GroupBy>>), or no object \
                 is found in its result"
            ),
        }
    }
}
