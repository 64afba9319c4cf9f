//! `hpa rules explain`: which rule serves a metric, and its value.

mod headline;
mod known_series;

use std::{collections::BTreeMap, fmt::Write};

use anyhow::{Context, bail};
use hpa_calc::{
    Quantity, Selector,
    explain::{counted, list_first},
};
use hpa_metrics::{
    CustomQuery, ExternalQuery, MetricError, MetricSource, NotFound, Objects, describe,
    resource::GroupResource, wire::ItemLabels, with_causes,
};
use hpa_prometheus::rules::{
    explain::{Explanation, RequestProblem, RuleOutcome},
    query::{selects_objects, with_single_spaces},
};
use hpa_prometheus::source::{InspectedMetric, RelistError, RuleInspection};

use self::{
    headline::{Headline, ObjectCounts, rule_name},
    known_series::{KnownSeries, known_series},
};
use super::{
    connect_source,
    outcome::{Outcome, QueryProblem, unknown_value},
    resource::{self, UsageScope},
    selectors,
    servers::{PrometheusServer, RuleServers},
    short_range,
};
use crate::{
    args::{MetricsApiArgument, RulesExplainArguments},
    rules_source::{notify_of_delay, read_config, server_flags, warn_of_delay},
};

/// Without `--name`, at most this many objects are read.
const MAX_OBJECTS: usize = 20;
/// A message has at most this many namespaces.
const MAX_NAMESPACES: usize = 20;

/// Explains a metric. Returns the explanation and the outcome.
pub(super) async fn explain_metric(
    arguments: &RulesExplainArguments,
) -> anyhow::Result<(String, Outcome)> {
    let config = read_config(&arguments.config)?;
    let Some(source) = connect_source(&config, &arguments.connection).await? else {
        bail!("series are needed to explain a metric: add {}", server_flags(&config));
    };
    let selector = Selector::parse(&arguments.selector);
    let metric_selector = selector.with_context(|| format!("--selector {}", arguments.selector))?;
    let namespace = arguments.namespace.clone().unwrap_or_default();
    let metric = &arguments.metric;
    // The explanation covers failed rules, but needs the resources of the API server.
    let relisted = notify_of_delay(source.relist(), || warn_of_delay(&source)).await;
    if let Err(error @ RelistError::Mapper(_)) = relisted {
        let headline = unknown_value(metric, &with_causes(&error));
        return Ok((format!("{headline}\n"), Outcome::Inconclusive));
    }
    let servers = RuleServers::new(&source);
    let (text, outcome) = match arguments.api {
        MetricsApiArgument::Resource => {
            if !metric_selector.is_empty() {
                bail!("metrics of the resource API have no selector: remove --selector");
            }
            let scope = UsageScope { namespace: &namespace, names: &arguments.names };
            resource::explain_metric(&config, &servers, metric, scope).await?
        }
        MetricsApiArgument::Custom => {
            let Some((resource, metric)) = metric.split_once('/') else {
                bail!("{metric} must be RESOURCE/METRIC, for example pods/http_requests");
            };
            let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
            let request = CustomQuery {
                resource: GroupResource::new(group, resource),
                namespace,
                objects: Objects::Selected(Selector::everything()),
                metric: metric.to_owned(),
                metric_selector,
            };
            explain_custom(&servers, request, &arguments.names).await
        }
        MetricsApiArgument::External => {
            let request = ExternalQuery { namespace, metric: metric.clone(), metric_selector };
            explain_external(&servers, &request).await
        }
    };
    Ok((servers.add_notes(text), outcome))
}

/// Explains a custom metric of the objects that `--name` names, or else of those that have it.
async fn explain_custom(
    servers: &RuleServers<'_>,
    request: CustomQuery,
    given_names: &[String],
) -> (String, Outcome) {
    let (source, series) = (servers.source, known_series(servers, &request));
    let max_count = if given_names.is_empty() { MAX_OBJECTS } else { given_names.len() };
    let names = match (given_names, &series) {
        ([], Some(series)) => series.object_names(&request).await,
        _ => Ok(given_names.to_vec()),
    };
    let (mut names, listing_problem) = match names {
        Ok(names) => (names, None),
        Err(problem) => (Vec::new(), Some(problem)),
    };
    let object_count = names.len();
    names.truncate(max_count);
    // Explain the rules even if no object has the metric.
    let explained_names = if names.is_empty() { vec!["NAME".to_owned()] } else { names.clone() };
    let explanation = source.explain_custom(&request, &explained_names);
    let inspected = source.inspect_custom();
    let (mut text, absence) = describe_rules(servers, "rules", &explanation, &inspected).await;
    let mut headline = Headline {
        metric: &request.metric,
        explanation: &explanation,
        inspected: &inspected,
        object_counts: None,
        other_rules: &source.inspect_external(),
    };
    let applied = explanation.applied();
    let Some(rule) = applied.and_then(|applied| inspected.get(applied.index)) else {
        return headline.add_to(&text, 0, absence.as_deref());
    };
    if let Some(problem) = &listing_problem {
        return headline.add_failure_to(&text, problem);
    }
    if names.is_empty() {
        let cause = match series {
            Some(series) => Some(series.describe_absence(&request).await),
            None => None,
        };
        return headline.add_to(&text, 0, cause.as_deref());
    }
    let server = servers.server(&rule.definition.server);
    let values = ObjectValues::read(server, &request, &names).await;
    text += &values.text;
    headline.object_counts = Some(ObjectCounts { read: values.read_count, total: object_count });
    if values.count > 0 {
        return headline.add_to(&text, values.count, None);
    }
    let is_unanswered = |problem: &&QueryProblem| matches!(problem, QueryProblem::Unanswered(_));
    if let Some(unanswered) = values.problems.iter().find(is_unanswered) {
        return headline.add_failure_to(&text, unanswered);
    }
    let reason =
        explain_missing_values(server, series.as_ref(), rule, &request, given_names, &values).await;
    match (&reason, values.problems.first()) {
        (None, Some(problem)) => headline.add_failure_to(&text, problem),
        _ => headline.add_to(&text, 0, reason.as_deref()),
    }
}

/// The reason why no object has a value. `None` if it isn't found.
async fn explain_missing_values(
    server: PrometheusServer<'_>,
    series: Option<&KnownSeries<'_>>,
    rule: &RuleInspection,
    request: &CustomQuery,
    given_names: &[String],
    values: &ObjectValues,
) -> Option<String> {
    if let Some(series) = series {
        if let Some(reason) = series.explain_unmet_requirement(rule, request).await {
            return Some(reason);
        }
        if !given_names.is_empty()
            && let Some(reason) = series.explain_missing_objects(given_names, request).await
        {
            return Some(reason);
        }
    }
    server.explain_short_range(values.query_without_result.as_deref()?).await
}

/// The values of a custom metric that were read for objects, and the problems.
#[derive(Default)]
struct ObjectValues {
    /// A line for each value and each problem.
    text: String,
    /// The number of values.
    count: usize,
    /// The number of objects that were read.
    read_count: usize,
    problems: Vec<QueryProblem>,
    /// The query of an object that had no result.
    query_without_result: Option<String>,
}

impl ObjectValues {
    /// Reads the values of objects, until the server has timed out too often.
    async fn read(server: PrometheusServer<'_>, request: &CustomQuery, names: &[String]) -> Self {
        let mut read = Self::default();
        for name in names {
            if let Some(problem) = server.timeout_problem() {
                let unread_count = names.len() - read.read_count;
                let _ = writeln!(read.text, "{} not read", counted(unread_count, "object"));
                read.problems.push(problem);
                break;
            }
            read.read_count += 1;
            let values = server.servers.source.read_custom(request.clone().named(name));
            match server.read(values).await {
                Ok(values) => {
                    read.count += values.items.len();
                    for item in values.items {
                        let value = Quantity::from(item.value);
                        let _ = writeln!(read.text, "{name} = {value} at {}", item.timestamp);
                    }
                }
                Err(error) => {
                    let query = short_range::query_without_result(&error);
                    read.query_without_result = query.map(str::to_owned);
                    let line = format!("{name}: {}", describe_without_query(error.clone()));
                    let _ = writeln!(read.text, "{line}");
                    read.problems.push(read_problem(server, &error, line));
                }
            }
        }
        read
    }
}

/// An error about an object on one line, without the query: the line of the rule has it.
fn describe_without_query(mut error: MetricError) -> String {
    if let MetricError::NoValueForObject(
        NotFound::NoResult { query }
        | NotFound::OtherObjects { query, .. }
        | NotFound::UnusableSample { query, .. },
    ) = &mut error
    {
        query.clear();
    }
    // Also removes the space after an empty query.
    with_single_spaces(&describe(&error))
}

/// The problem of a failed read. `text` describes it if the server answered.
fn read_problem(server: PrometheusServer<'_>, error: &MetricError, text: String) -> QueryProblem {
    match server.problem_of(error) {
        Some(QueryProblem::Unanswered(failure)) => QueryProblem::Unanswered(failure),
        _ => QueryProblem::Mistake(text),
    }
}

async fn explain_external(servers: &RuleServers<'_>, request: &ExternalQuery) -> (String, Outcome) {
    let source = servers.source;
    let mut explanation = source.explain_external(request);
    let inspected = source.inspect_external();
    let (mut text, absence) =
        describe_rules(servers, "externalRules", &explanation, &inspected).await;
    let rule = explanation.applied().and_then(|applied| inspected.get(applied.index));
    if request.namespace.is_empty()
        && let Some(rule) = rule
    {
        if selectors::selects_namespace(rule) {
            explanation.request_problem = Some(RequestProblem::ExternalNeedsNamespace);
        } else {
            let rule = &rule.status.rule;
            let _ = writeln!(text, "{rule} selects no namespace: all have the same values");
        }
    }
    let (metric, explanation) = (&*request.metric, &explanation);
    let headline = Headline {
        metric,
        explanation,
        inspected: &inspected,
        object_counts: None,
        other_rules: &source.inspect_custom(),
    };
    let Some(rule) = explanation.applied().and_then(|applied| inspected.get(applied.index)) else {
        return headline.add_to(&text, 0, absence.as_deref());
    };
    let server = servers.server(&rule.definition.server);
    match server.read(source.read_external(request.clone())).await {
        Ok(values) => {
            for item in &values.items {
                let labels: BTreeMap<_, _> =
                    item.labels.iter().flat_map(ItemLabels::pairs).collect();
                let _ = writeln!(text, "{labels:?} = {}", Quantity::from(item.value));
            }
            for omitted in &values.omitted {
                let _ = writeln!(text, "{}: {}", omitted.subject, omitted.reason);
            }
            if !values.items.is_empty() {
                return headline.add_to(&text, values.items.len(), None);
            }
            let omitted = values.omitted.first();
            let omitted = omitted.map(|one| format!("{}: {}", one.subject, one.reason));
            let cause = match omitted {
                Some(omitted) => omitted,
                None => describe_empty_result(servers, rule, request, &values.origin.query).await,
            };
            headline.add_to(&text, 0, Some(&cause))
        }
        Err(error) => {
            let problem = read_problem(server, &error, with_single_spaces(&describe(&error)));
            headline.add_failure_to(&text, &problem)
        }
    }
}

/// Says that the query of an external metric has no result, with the reason or else advice.
async fn describe_empty_result(
    servers: &RuleServers<'_>,
    rule: &RuleInspection,
    request: &ExternalQuery,
    query: &str,
) -> String {
    let empty = "the query has no result, which blocks scaling down";
    let server = servers.server(&rule.definition.server);
    let reason = match explain_empty_selection(servers, rule, request).await {
        Ok(None) => Ok(server.explain_short_range(query).await),
        reason => reason,
    };
    match reason {
        Ok(Some(reason)) => format!("{empty}: {reason}"),
        Ok(None) => format!(
            "{empty}: check its labels and the selector, or end it with `or vector(0)` if nothing \
             means 0"
        ),
        Err(problem) => format!("{empty}, and the reason is unknown: {problem}"),
    }
}

/// The reason why a query for an external metric selects no series: they have no sample now, lack
/// the namespace label, are in other namespaces, or don't meet a requirement of the selector.
/// `None` if it is none of these.
async fn explain_empty_selection(
    servers: &RuleServers<'_>,
    rule: &RuleInspection,
    request: &ExternalQuery,
) -> Result<Option<String>, QueryProblem> {
    let metric = rule.metrics.iter().find(|metric| metric.metric == request.metric);
    let Some(InspectedMetric { series, .. }) = metric else { return Ok(None) };
    let server = servers.server(&rule.definition.server);
    let all = selectors::selector(&rule.definition.series_query, series, &[]);
    if let Some(reason) = server.explain_missing_samples(series, &all).await? {
        return Ok(Some(reason));
    }
    if selectors::selects_namespace(rule)
        && let Some(reason) = explain_empty_namespace(server, rule, series, request).await?
    {
        return Ok(Some(reason));
    }
    if !selects_objects(&rule.definition.metrics_query) {
        return Ok(None);
    }
    let selector = selectors::external_selector(rule, series, &request.namespace);
    server.explain_unmet_requirement(&selector, request.metric_selector.requirements()).await
}

/// Names the missing label or the namespaces with series of an external metric. `None` if the
/// namespace of the request has series, or if there are none.
async fn explain_empty_namespace(
    server: PrometheusServer<'_>,
    rule: &RuleInspection,
    series: &str,
    request: &ExternalQuery,
) -> Result<Option<String>, QueryProblem> {
    let label = selectors::namespace_label(rule);
    let selector = selectors::selector(&rule.definition.series_query, series, &[&label]);
    let mut namespaces = server.label_values(&label, &selector).await?;
    namespaces.retain(|namespace| !namespace.is_empty());
    if namespaces.is_empty() {
        return server.explain_missing_namespace(rule, series).await;
    }
    if namespaces.contains(&request.namespace) {
        return Ok(None);
    }
    let others = list_first(&namespaces, MAX_NAMESPACES, ", ");
    let namespace = &request.namespace;
    Ok(Some(format!(
        "the namespace {namespace} has no series of the metric: {series} is in {others}"
    )))
}

/// Describes the outcome of each rule in a line, without the warnings about gauges. `list` is the
/// name of the list in the file. Also returns a sentence about the first rule that would serve the
/// metric, but has no series.
async fn describe_rules(
    servers: &RuleServers<'_>,
    list: &str,
    explanation: &Explanation,
    inspected: &[RuleInspection],
) -> (String, Option<String>) {
    let (mut text, mut absence) = (String::new(), None);
    if inspected.is_empty() {
        let _ = writeln!(text, "the file has no {list}");
    }
    for (index, rule) in inspected.iter().enumerate() {
        let name = rule_name(rule);
        let report = explanation.rules.iter().find(|report| report.index == index);
        let Some(report) = report else {
            // The explanation leaves out rules whose series have never been read.
            let error = rule.status.error.as_deref().unwrap_or("not read");
            let _ = writeln!(text, "{name}: its series can't be read: {error}");
            continue;
        };
        let server = servers.server(&rule.definition.server);
        let mut outcome = report.outcome.clone();
        if let RuleOutcome::Applies { warnings, .. } = &mut outcome {
            server.remove_gauge_warnings(warnings).await;
        }
        let by_index = |index: usize| inspected.get(index).map(|rule| rule.status.rule.clone());
        let description = outcome.describe(|index| by_index(index).unwrap_or_default());
        let _ = writeln!(text, "{name}: {description}");
        let RuleOutcome::NoSeries { series_query, will_have } = &outcome else {
            continue;
        };
        let cause = match server.explain_missing_series(series_query).await {
            Ok(cause) => cause,
            Err(problem) => Some(format!("the reason is unknown: {problem}")),
        };
        if let Some(cause) = &cause {
            let _ = writeln!(text, "  {cause}");
        }
        if *will_have {
            absence.get_or_insert_with(|| match cause {
                Some(cause) => format!("{name}: {cause}"),
                None => format!(
                    "{name} would serve it, but Prometheus has no series for its seriesQuery {}",
                    with_single_spaces(series_query)
                ),
            });
        }
    }
    (text, absence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_follows_even_a_long_query_with_credentials() {
        let query = format!("up{{url=\"http://user:secret@host\"}} or {}", "x".repeat(5000));
        let error = MetricError::NoValueForObject(NotFound::NoResult { query });
        let text = describe_without_query(error);
        assert_eq!(text, "no value for the object: the query has no result");
    }
}
