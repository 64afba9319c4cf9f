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
    query::{on_one_line, selects_objects},
};
use hpa_prometheus::source::{InspectedMetric, RelistError, RuleInspection};

use self::{
    headline::{Headline, ObjectCounts, rule_name},
    known_series::known_series,
};
use super::{
    connect_source,
    outcome::{Outcome, QueryProblem, unknown_value},
    resource::{self, UsageScope},
    sample,
    servers::{PrometheusServer, RuleServers},
    short_range,
};
use crate::{
    args::{MetricsApi, RulesExplainArguments},
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
        MetricsApi::Resource => {
            if !metric_selector.is_empty() {
                bail!("metrics of the resource API have no selector: remove --selector");
            }
            let scope = UsageScope { namespace: &namespace, names: &arguments.names };
            resource::explain_metric(&config, &servers, metric, scope).await?
        }
        MetricsApi::Custom => {
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
        MetricsApi::External => {
            let request = ExternalQuery { namespace, metric: metric.clone(), metric_selector };
            explain_external(&servers, &request).await
        }
    };
    Ok((servers.add_notes(text), outcome))
}

async fn explain_custom(
    servers: &RuleServers<'_>,
    request: CustomQuery,
    names: &[String],
) -> (String, Outcome) {
    let (source, series) = (servers.source, known_series(servers, &request));
    let max_count = if names.is_empty() { MAX_OBJECTS } else { names.len() };
    let names = match (names, &series) {
        ([], Some(series)) => series.object_names(&request).await,
        (names, _) => Ok(names.to_vec()),
    };
    let (mut names, unlisted) = match names {
        Ok(names) => (names, None),
        Err(problem) => (Vec::new(), Some(problem)),
    };
    let object_count = names.len();
    names.truncate(max_count);
    // Explain the rules even if no object has the metric.
    let explained_names = if names.is_empty() { vec!["NAME".to_owned()] } else { names.clone() };
    let mut explanation = source.explain_custom(&request, &explained_names);
    let inspected = source.inspect_custom();
    let (mut text, mismatch) = describe_rules(servers, "rules", &mut explanation, &inspected).await;
    let (metric, explanation) = (&*request.metric, &explanation);
    let mut headline = Headline {
        metric,
        explanation,
        inspected: &inspected,
        object_counts: None,
        other_rules: &source.inspect_external(),
    };
    let Some(rule) = explanation.applied().and_then(|applied| inspected.get(applied.index)) else {
        return headline.add_to(&text, 0, mismatch.as_deref());
    };
    if let Some(problem) = &unlisted {
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
    let (mut value_count, mut read_count, mut problems) = (0, 0, Vec::new());
    let mut query_without_result = None;
    for name in &names {
        if let Some(problem) = server.timeout_problem() {
            let _ = writeln!(text, "{} not read", counted(names.len() - read_count, "object"));
            problems.push(problem);
            break;
        }
        read_count += 1;
        match server.read(source.read_custom(request.clone().named(name))).await {
            Ok(values) => {
                value_count += values.items.len();
                for item in values.items {
                    let value = Quantity::from(item.value);
                    let _ = writeln!(text, "{name} = {value} at {}", item.timestamp);
                }
            }
            Err(error) => {
                let line = format!("{name}: {}", describe_without_query(error.clone()));
                let _ = writeln!(text, "{line}");
                problems.push(read_problem(server, &error, line));
                query_without_result = short_range::query_without_result(&error).map(str::to_owned);
            }
        }
    }
    headline.object_counts = Some(ObjectCounts { read: read_count, total: object_count });
    let is_unanswered = |problem: &&QueryProblem| matches!(problem, QueryProblem::Unanswered(_));
    let unanswered = problems.iter().find(is_unanswered);
    if value_count == 0
        && unanswered.is_none()
        && let Some(series) = &series
        && let Some(reason) = series.explain_unmet_requirement(rule, &request).await
    {
        return headline.add_to(&text, 0, Some(&reason));
    }
    if value_count == 0
        && unanswered.is_none()
        && let Some(query) = query_without_result
        && let Some(reason) = server.explain_short_range(&query).await
    {
        return headline.add_to(&text, 0, Some(&reason));
    }
    match unanswered.or(problems.first()) {
        Some(problem) if value_count == 0 => headline.add_failure_to(&text, problem),
        _ => headline.add_to(&text, value_count, None),
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
    on_one_line(&describe(&error))
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
    let (mut text, mismatch) =
        describe_rules(servers, "externalRules", &mut explanation, &inspected).await;
    let rule = explanation.applied().and_then(|applied| inspected.get(applied.index));
    if request.namespace.is_empty()
        && let Some(rule) = rule
    {
        if sample::selects_namespace(rule) {
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
        return headline.add_to(&text, 0, mismatch.as_deref());
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
            let problem = read_problem(server, &error, on_one_line(&describe(&error)));
            headline.add_failure_to(&text, &problem)
        }
    }
}

/// The reason that the query of an external metric has no result, as far as it is known.
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

/// Says that the series of an external metric have no sample now, lack the namespace label, are only
/// in other namespaces, or don't meet a requirement of the selector. `None` if none of these holds.
async fn explain_empty_selection(
    servers: &RuleServers<'_>,
    rule: &RuleInspection,
    request: &ExternalQuery,
) -> Result<Option<String>, QueryProblem> {
    let metric = rule.metrics.iter().find(|metric| metric.metric == request.metric);
    let Some(InspectedMetric { series, .. }) = metric else { return Ok(None) };
    let server = servers.server(&rule.definition.server);
    let all = sample::selector(&rule.definition.series_query, series, &[]);
    if let Some(reason) = server.explain_missing_samples(series, &all).await? {
        return Ok(Some(reason));
    }
    if sample::selects_namespace(rule)
        && let Some(reason) = explain_empty_namespace(server, rule, series, request).await?
    {
        return Ok(Some(reason));
    }
    if !selects_objects(&rule.definition.metrics_query) {
        return Ok(None);
    }
    let selector = sample::external_selector(rule, series, &request.namespace);
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
    let label = sample::namespace_label(rule);
    let selector = sample::selector(&rule.definition.series_query, series, &[&label]);
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

/// Describes the outcome of each rule in a line. `list` is the name of the list in the file.
/// Removes the warnings about gauges from `explanation`. Also returns a sentence about the first
/// rule that describes the metric, but whose `seriesQuery` doesn't match the series with its name.
async fn describe_rules(
    servers: &RuleServers<'_>,
    list: &str,
    explanation: &mut Explanation,
    inspected: &[RuleInspection],
) -> (String, Option<String>) {
    let (mut text, mut described_mismatch) = (String::new(), None);
    if inspected.is_empty() {
        let _ = writeln!(text, "the file has no {list}");
    }
    for (index, rule) in inspected.iter().enumerate() {
        let name = rule_name(rule);
        let report = explanation.rules.iter_mut().find(|report| report.index == index);
        let Some(report) = report else {
            // The explanation leaves out rules whose series have never been read.
            let error = rule.status.error.as_deref().unwrap_or("not read");
            let _ = writeln!(text, "{name}: its series can't be read: {error}");
            continue;
        };
        let server = servers.server(&rule.definition.server);
        if let RuleOutcome::Applies { warnings, .. } = &mut report.outcome {
            server.remove_gauge_warnings(warnings).await;
        }
        let by_index = |index: usize| inspected.get(index).map(|rule| rule.status.rule.clone());
        let outcome = report.outcome.describe(|index| by_index(index).unwrap_or_default());
        let _ = writeln!(text, "{name}: {outcome}");
        let RuleOutcome::NoSeries { series_query, will_have } = &report.outcome else {
            continue;
        };
        let mismatch = match server.describe_age(series_query).await {
            Ok(Some(age)) => {
                let _ = writeln!(
                    text,
                    "  {age}; none is within the maximum age: check the scrape targets, or raise \
                     --metrics-max-age"
                );
                continue;
            }
            Ok(None) => server.explain_mismatch(series_query).await,
            Err(problem) => Err(problem),
        };
        match mismatch {
            Ok(Some(mismatch)) => {
                let _ = writeln!(text, "  {mismatch}");
                if *will_have {
                    described_mismatch.get_or_insert_with(|| format!("{name}: {mismatch}"));
                }
            }
            Ok(None) => {}
            Err(problem) => {
                let _ = writeln!(text, "  the reason is unknown: {problem}");
            }
        }
    }
    (text, described_mismatch)
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
