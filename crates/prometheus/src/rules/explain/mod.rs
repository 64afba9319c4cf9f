//! Explains, rule by rule, why a metric was found or not found.

mod advice;
mod display;
#[cfg(test)]
mod tests;

use hpa_calc::Selector;

use crate::rules::{
    Compat,
    per_object::NotPerObject,
    query::{QueriedObjects, QueryError},
    registry::DiscoveredRule,
    rule::Naming,
    ruleset::InvalidRule,
    series::{MetricSeries, RuleSeries},
};
pub use advice::expression_warnings;
pub(super) use advice::object_warnings;
use advice::{similar_names, warnings};
use hpa_metrics::{
    CustomQuery,
    resource::{ApiResources, GroupResource, ResourceError},
};

/// The maximum number of example names in an outcome.
const MAX_EXAMPLES: usize = 5;

/// A rule of the file, with its series if it compiles.
#[derive(Clone, Copy, Debug)]
pub enum Candidate<'a> {
    /// A rule with its series.
    Compiled(&'a DiscoveredRule),
    /// A rule that is refused, with its position in `rules` or `externalRules`.
    Refused(usize, &'a InvalidRule),
}

/// The problem of a request, and the outcome of each rule for it.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The problem of the request itself, if any. The rules are explained even then.
    pub request_problem: Option<RequestProblem>,
    /// The rules in the order of the file.
    pub rules: Vec<RuleReport>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestProblem {
    /// The request names no object: its selector matches none.
    NoObjects,
    /// The API has no such resource.
    UnknownResource(ResourceError),
    /// The resource's metrics are read with a namespace, and the request has none.
    NeedsNamespace(GroupResource),
    /// The resource's metrics are read without a namespace, and the request has one.
    HasNamespace(GroupResource),
    /// External metrics are read with a namespace, and the request has none.
    ExternalNeedsNamespace,
}

/// The outcome of one rule.
#[derive(Clone, Debug)]
pub struct RuleReport {
    /// The position of the rule in `rules` or `externalRules`.
    pub index: usize,
    pub outcome: RuleOutcome,
}

/// Whether a rule applies to a request, and why.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RuleOutcome {
    Refused(InvalidRule),
    /// Prometheus has no series for the rule's query, or they are too old.
    NoSeries {
        /// The rule's `seriesQuery`.
        series_query: String,
        /// Whether the rule gets the metric as soon as series exist.
        will_have: bool,
    },
    /// The filters or `name.matches` exclude all series.
    AllFiltered {
        /// Up to five names of series, and the settings that exclude them.
        names: Vec<(String, SeriesRefusal)>,
    },
    /// The series with the requested name is excluded.
    SeriesFiltered(SeriesRefusal),
    /// The series with the requested name becomes a metric with another name.
    DifferentMetricName {
        metric: String,
    },
    /// The rule has only metrics with other names.
    OtherMetrics {
        /// Up to five similar names, the most similar first.
        similar: Vec<String>,
        /// The number of all names.
        count: usize,
    },
    /// The rule has the metric, but not for the resource.
    OtherResources {
        /// The resources for which the rule has the metric.
        resources: Vec<GroupResource>,
        /// The labels of the metric's series.
        labels: Vec<String>,
        /// The label that would name the resource, or the reason why there is none.
        expected: Result<String, String>,
    },
    /// The rule has the metric, but its query can't be built.
    NoQuery {
        /// The series that would be read.
        series: String,
        error: QueryError,
    },
    /// A later rule also has the metric, and has precedence.
    Shadowed {
        /// The position of the later rule.
        by: usize,
        /// The query that is not used.
        query: String,
    },
    /// The rule determines the query of the metric.
    Applies {
        /// The series that is read.
        series: String,
        query: String,
        /// Likely mistakes in the query.
        warnings: Vec<Warning>,
        /// Whether autoscalers of a namespace can share the query, or a reason why they can't.
        /// `None` for external metrics, and if the request has a problem.
        sharing: Option<Result<(), NotPerObject>>,
    },
}

/// The setting that excludes a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeriesRefusal {
    /// `seriesFilters`.
    Filter {
        /// The position of the filter.
        index: usize,
        expression: String,
        /// `true` for `is`, `false` for `isNot`.
        must_match: bool,
    },
    /// `name.matches`.
    Name { expression: String },
}

/// A likely mistake in a query.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The series looks like a counter, and the query doesn't calculate a rate.
    CounterWithoutRate { series: String },
    /// `histogram_quantile` has no result, because this aggregation drops the label `le`.
    QuantileWithoutLe { aggregation: String },
    /// The query doesn't select the objects, so it reads all of them.
    NoMatchers,
    /// The series' name ends in a unit that is often confused.
    Unit {
        series: String,
        /// The unit of the values.
        unit: &'static str,
        /// Advice for a target in the unit.
        hint: &'static str,
    },
    /// The query aggregates, but not by the label that names the objects.
    NotGroupedBy { label: String },
}

impl RuleOutcome {
    /// A sentence about sharing of the query, for a rule that applies to a custom metric.
    pub fn sharing(&self) -> Option<String> {
        let Self::Applies { sharing: Some(sharing), .. } = self else {
            return None;
        };
        Some(match sharing {
            Ok(()) => "autoscalers of a namespace share its queries".to_owned(),
            Err(reason) => format!("autoscalers don't share its queries: {reason}"),
        })
    }
}

impl Explanation {
    /// The rule that applies. `None` also if the request has a problem.
    pub fn applied(&self) -> Option<&RuleReport> {
        let mut rules = self.rules.iter().filter(|_| self.request_problem.is_none());
        rules.find(|report| matches!(report.outcome, RuleOutcome::Applies { .. }))
    }
}

/// Explains a request for a custom metric of the objects with these names. Ignores
/// `request.objects`.
pub fn explain_custom(
    request: &CustomQuery,
    names: &[String],
    candidates: &[Candidate<'_>],
    resources: &ApiResources,
    compat: Compat,
) -> Explanation {
    let resolved = resources.resolve(&request.resource.group, &request.resource.resource);
    let resource = resolved.as_ref().map_or(&request.resource, |known| &known.group_resource);
    let request_problem = match &resolved {
        Err(error) => Some(RequestProblem::UnknownResource(error.clone())),
        Ok(_) if resource.has_namespaced_metrics() != request.is_namespaced() => {
            Some(if request.is_namespaced() {
                RequestProblem::HasNamespace(resource.clone())
            } else {
                RequestProblem::NeedsNamespace(resource.clone())
            })
        }
        Ok(_) => names.is_empty().then_some(RequestProblem::NoObjects),
    };
    let CustomQuery { namespace, metric, metric_selector, .. } = request;
    let objects = QueriedObjects { resource, namespace, names };
    let rules = reports(candidates, |discovered| {
        let Some(found) = discovered.series.metric(metric) else {
            return without_metric(discovered, metric);
        };
        let Some(series) = found.for_resource(resource) else {
            return other_resources(discovered, metric, resource, resources);
        };
        let query =
            discovered.rule.custom_query(series, objects, metric_selector, resources, compat);
        let label = discovered.rule.labels.label(resource, resources).unwrap_or_default();
        let sharing = request_problem.is_none().then(|| query.render_shared().map(drop));
        outcome_of_query(discovered, series, query.render(), Some(&label), sharing)
    });
    Explanation { request_problem, rules }
}

/// Explains a request for an external metric.
pub fn explain_external(
    namespace: &str,
    metric: &str,
    selector: &Selector,
    candidates: &[Candidate<'_>],
    resources: &ApiResources,
    compat: Compat,
) -> Explanation {
    let rules = reports(candidates, |discovered| {
        let Some(found) = discovered.series.metric(metric) else {
            return without_metric(discovered, metric);
        };
        let series = found.last_series;
        let query = discovered.rule.external_query(series, namespace, selector, resources, compat);
        outcome_of_query(discovered, series, query, None, None)
    });
    Explanation { request_problem: None, rules }
}

/// The reports of all rules. The last one with the metric takes precedence.
fn reports(
    candidates: &[Candidate<'_>],
    explain: impl Fn(&DiscoveredRule) -> RuleOutcome,
) -> Vec<RuleReport> {
    let mut last_with_metric = None;
    let mut reports: Vec<RuleReport> = Vec::with_capacity(candidates.len());
    for candidate in candidates.iter().rev() {
        let (index, mut outcome) = match candidate {
            Candidate::Compiled(discovered) => (discovered.index, explain(discovered)),
            Candidate::Refused(index, error) => (*index, RuleOutcome::Refused((*error).clone())),
        };
        match (&outcome, last_with_metric) {
            (RuleOutcome::Applies { query, .. }, Some(by)) => {
                outcome = RuleOutcome::Shadowed { by, query: query.clone() };
            }
            // A rule with the metric takes precedence even if its query can't be built.
            (RuleOutcome::Applies { .. } | RuleOutcome::NoQuery { .. }, None) => {
                last_with_metric = Some(index);
            }
            _ => {}
        }
        reports.push(RuleReport { index, outcome });
    }
    reports.reverse();
    reports
}

/// The outcome of a rule that doesn't have the metric.
fn without_metric(discovered: &DiscoveredRule, metric: &str) -> RuleOutcome {
    let DiscoveredRule { rule, series, .. } = discovered;
    if series.series_count() == 0 {
        return RuleOutcome::NoSeries {
            series_query: rule.series_query.clone(),
            will_have: rule.will_have(metric),
        };
    }
    match series.naming(metric) {
        Some(Naming::Metric(metric)) => return RuleOutcome::DifferentMetricName { metric },
        Some(refused) => return RuleOutcome::SeriesFiltered(refusal(discovered, &refused)),
        None => {}
    }
    let names: Vec<&str> = series.metrics().map(|metric| metric.metric).collect();
    if names.is_empty() {
        let refused = series.names().take(MAX_EXAMPLES);
        let refused = refused.map(|(name, naming)| (name.to_owned(), refusal(discovered, &naming)));
        return RuleOutcome::AllFiltered { names: refused.collect() };
    }
    let similar = similar_names(metric, &names);
    RuleOutcome::OtherMetrics { similar, count: names.len() }
}

fn refusal(discovered: &DiscoveredRule, naming: &Naming) -> SeriesRefusal {
    let filter = match naming {
        Naming::Filtered(index) => {
            discovered.rule.filters.get(*index).map(|filter| (*index, filter))
        }
        Naming::Metric(_) | Naming::NoMatch => None,
    };
    match filter {
        Some((index, filter)) => SeriesRefusal::Filter {
            index,
            expression: filter.regex.as_str().to_owned(),
            must_match: filter.must_match,
        },
        None => SeriesRefusal::Name { expression: discovered.rule.name.regex.as_str().to_owned() },
    }
}

/// The outcome of a rule that has the metric for other resources.
fn other_resources(
    discovered: &DiscoveredRule,
    metric: &str,
    resource: &GroupResource,
    resources: &ApiResources,
) -> RuleOutcome {
    let series: &RuleSeries = &discovered.series;
    let sets = series.label_sets(metric);
    let mut labels: Vec<String> = sets.flat_map(|set| set.labels.iter().cloned()).collect();
    labels.sort_unstable();
    labels.dedup();
    let expected = discovered.rule.labels.label(resource, resources);
    let known = series.metric(metric).into_iter().flat_map(MetricSeries::by_resource);
    RuleOutcome::OtherResources {
        resources: known.map(|(resource, _)| GroupResource::clone(resource)).collect(),
        labels,
        expected: expected.map_err(|error| error.problem),
    }
}

/// The outcome of a rule that has the metric. `label` has the objects' names, and `sharing` is
/// whether the query can be shared. For an external metric, both are `None`.
fn outcome_of_query(
    discovered: &DiscoveredRule,
    series: &str,
    query: Result<String, QueryError>,
    label: Option<&str>,
    sharing: Option<Result<(), NotPerObject>>,
) -> RuleOutcome {
    let series = series.to_owned();
    match query {
        Ok(query) => {
            let warnings = warnings(discovered, &series, &query, label);
            RuleOutcome::Applies { series, query, warnings, sharing }
        }
        Err(error) => RuleOutcome::NoQuery { series, error },
    }
}
