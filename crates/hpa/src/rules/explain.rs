//! `hpa rules explain`: which rule serves a metric, and its value.

use std::{collections::BTreeMap, fmt::Write};

use anyhow::{Context, bail};
use hpa_calc::{Quantity, Selector, explain::counted};
use hpa_metrics::{
    CustomQuery, ExternalQuery, MetricSource, Objects, describe, resource::GroupResource,
    wire::ItemLabels, with_causes,
};
use hpa_prometheus::rules::{
    explain::{Explanation, RuleOutcome},
    query::{on_one_line, selects_objects},
};
use hpa_prometheus::source::{PrometheusSource, RelistError, RuleInspection};

use super::{
    connect_source, resource,
    sample::{self, PrometheusServer},
};
use crate::{
    args::{ExplainArguments, MetricsApi},
    rules_source::{read_config, server_flags},
};

/// Explains a metric. Returns the explanation, and whether the metric has a value.
pub(super) async fn explain_metric(arguments: &ExplainArguments) -> anyhow::Result<(String, bool)> {
    let config = read_config(&arguments.config)?;
    let Some(source) = connect_source(&config, &arguments.connection).await? else {
        bail!("series are needed to explain a metric: add {}", server_flags(&config));
    };
    // The explanation covers failed rules, so only a failed mapper is an error.
    if let Err(error @ RelistError::Mapper(_)) = source.relist().await {
        bail!("{}", with_causes(&error));
    }
    let selector = Selector::parse(&arguments.selector);
    let metric_selector = selector.with_context(|| format!("--selector {}", arguments.selector))?;
    let namespace = arguments.namespace.clone().unwrap_or_default();
    let metric = &arguments.metric;
    match arguments.api {
        MetricsApi::Resource => resource::explain_metric(&config, &source, metric).await,
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
            Ok(explain_custom(&source, request, &arguments.names).await)
        }
        MetricsApi::External => {
            let request = ExternalQuery { namespace, metric: metric.clone(), metric_selector };
            Ok(explain_external(&source, &request).await)
        }
    }
}

async fn explain_custom(
    source: &PrometheusSource,
    request: CustomQuery,
    names: &[String],
) -> (String, bool) {
    let series = known_series(source, &request);
    let names = match (names, &series) {
        ([], Some(series)) => series.object_names(source, &request).await,
        (names, _) => names.to_vec(),
    };
    // Explain the rules even if no object has the metric.
    let explained_names = if names.is_empty() { vec!["NAME".to_owned()] } else { names.clone() };
    let mut explanation = source.explain_custom(&request, &explained_names);
    let inspected = source.inspect_custom();
    let (mut text, mismatch) = describe_rules(source, "rules", &mut explanation, &inspected).await;
    let report = |text: &str, values, cause: Option<&str>| {
        with_headline(&request.metric, &explanation, &inspected, text, values, cause)
    };
    if explanation.applied().is_none() {
        return report(&text, 0, mismatch.as_deref());
    }
    if names.is_empty() {
        let cause = match series {
            Some(series) => Some(series.explain_absence(source, &request).await),
            None => None,
        };
        return report(&text, 0, cause.as_deref());
    }
    let (mut value_count, mut first_error) = (0, None);
    for name in &names {
        match source.read_custom(request.clone().named(name)).await {
            Ok(values) => {
                value_count += values.items.len();
                for item in values.items {
                    let value = Quantity::from(item.value);
                    let _ = writeln!(text, "{name} = {value} at {}", item.timestamp);
                }
            }
            Err(error) => {
                let error = on_one_line(&format!("{name}: {}", describe(&error)));
                let _ = writeln!(text, "{error}");
                first_error.get_or_insert(error);
            }
        }
    }
    report(&text, value_count, first_error.as_deref())
}

/// Puts a headline above an explanation: whether the metric has values, and from which rule.
/// `cause` is the reason that there is no value, if a rule describes the metric. Returns the text,
/// and whether the metric has a value.
fn with_headline(
    metric: &str,
    explanation: &Explanation,
    inspected: &[RuleInspection],
    text: &str,
    values: usize,
    cause: Option<&str>,
) -> (String, bool) {
    if let Some(problem) = &explanation.request_problem {
        return (format!("{metric}: {problem}\n{text}"), false);
    }
    let applied = explanation.applied().and_then(|report| inspected.get(report.index));
    let rules = counted(inspected.len(), "rule");
    let count_rules = |count: usize| match inspected.len() {
        1 => "the only rule".to_owned(),
        _ => format!("{count} of {rules}"),
    };
    let unread_rules = inspected.len().saturating_sub(explanation.rules.len());
    let refused = explanation.rules.iter().filter_map(|report| match &report.outcome {
        RuleOutcome::Refused(error) => Some(error),
        _ => None,
    });
    let refused: Vec<_> = refused.collect();
    let headline = match (applied, values) {
        (Some(rule), 0) => match cause {
            Some(cause) => format!("{metric} has no value: {cause}"),
            None => format!("{metric} has no value, although {} serves it", rule.status.rule),
        },
        (Some(rule), _) => {
            format!("{metric} has {} of {}", counted(values, "value"), rule.status.rule)
        }
        (None, _) if let Some(problem) = query_problem(explanation, inspected) => {
            format!("{metric} has no value: {problem}")
        }
        (None, _) if let Some(problem) = resource_problem(explanation, inspected) => {
            format!("{metric} has no value: {problem}")
        }
        (None, _) if let Some(cause) = cause => format!("{metric} has no value: {cause}"),
        (None, _) if unread_rules > 0 => {
            let unread = count_rules(unread_rules);
            format!("{metric} isn't found: the series of {unread} can't be read")
        }
        (None, _) if let [error, others @ ..] = refused.as_slice() => {
            let are = if others.is_empty() { "is" } else { "are" };
            let (refused, mistake) = (count_rules(refused.len()), error.mistake());
            format!("{metric} isn't found: {refused} {are} refused: {error}: {mistake}")
        }
        (None, _) => {
            let none = match inspected.len() {
                0 => "there are no rules".to_owned(),
                1 => "the only rule doesn't have it".to_owned(),
                _ => format!("none of {rules} has it"),
            };
            format!("{metric} has no value: {none}")
        }
    };
    (format!("{headline}\n{text}"), values > 0)
}

/// A sentence about a rule that has the metric, but whose query can't be built.
fn query_problem(explanation: &Explanation, inspected: &[RuleInspection]) -> Option<String> {
    explanation.rules.iter().find_map(|report| {
        let RuleOutcome::NoQuery { error, .. } = &report.outcome else { return None };
        let rule = rule_name(inspected.get(report.index)?);
        Some(match error.template_mistake() {
            Some(mistake) => format!("{rule} has it, but metricsQuery is wrong: {mistake}"),
            None => format!("{rule} has it, but its query can't be built: {error}"),
        })
    })
}

/// A sentence about a rule that has the metric, but not for the requested resource.
fn resource_problem(explanation: &Explanation, inspected: &[RuleInspection]) -> Option<String> {
    explanation.rules.iter().find_map(|report| {
        let RuleOutcome::OtherResources { expected, .. } = &report.outcome else { return None };
        let rule = rule_name(inspected.get(report.index)?);
        let reason = match expected {
            Ok(label) => format!("no series has the label `{label}`"),
            Err(_) => "no label is mapped to it".to_owned(),
        };
        Some(format!("{rule} has it, but not for this resource: {reason}"))
    })
}

/// The series that a request reads.
struct KnownSeries {
    server: String,
    series_query: String,
    series: String,
    /// The label with the object's name.
    label: String,
    /// The label with the namespace, if the request has one and the query selects it.
    namespace_label: Option<String>,
}

/// Finds the series of the rule that serves a metric. `None` if no rule serves it.
fn known_series(source: &PrometheusSource, request: &CustomQuery) -> Option<KnownSeries> {
    let resources = source.resources();
    let resolved = resources.resolve(&request.resource.group, &request.resource.resource);
    let resource = &resolved.ok()?.group_resource;
    let (index, rule, metric) =
        source.inspect_custom().into_iter().enumerate().find_map(|(index, rule)| {
            let mut metrics = rule.metrics.iter();
            let metric = metrics.find(|metric| {
                metric.metric == request.metric
                    && metric.resource.as_ref() == Some(resource)
                    && metric.shadowed_by.is_none()
            })?;
            Some((index, rule.clone(), metric.clone()))
        })?;
    let namespace_label = source.object_label(index, &GroupResource::namespaces());
    let is_selected = |label: &String| {
        request.is_namespaced()
            && (selects_objects(&rule.definition.metrics_query) || rule.labels.contains(label))
    };
    let namespace_label = namespace_label.filter(is_selected);
    Some(KnownSeries {
        server: rule.definition.server,
        series_query: rule.definition.series_query,
        series: metric.series,
        label: source.object_label(index, resource)?,
        namespace_label,
    })
}

impl KnownSeries {
    fn server<'s>(&'s self, source: &'s PrometheusSource) -> PrometheusServer<'s> {
        PrometheusServer { source, name: &self.server }
    }

    /// The names of objects that have the metric: as many as [`PrometheusServer::label_values`]
    /// returns.
    async fn object_names(&self, source: &PrometheusSource, request: &CustomQuery) -> Vec<String> {
        let mut selector = sample::selector(&self.series_query, &self.series, &[&self.label]);
        if let Some(label) = &self.namespace_label {
            selector.truncate(selector.len() - 1);
            // Writing to a string can't fail.
            let _ = write!(selector, ",{label}={:?}}}", request.namespace);
        }
        self.server(source).label_values(&self.label, &selector).await
    }

    /// Explains why no object has the metric.
    async fn explain_absence(&self, source: &PrometheusSource, request: &CustomQuery) -> String {
        let Self { series, label, .. } = self;
        let namespace = &request.namespace;
        let server = self.server(source);
        let selector = sample::selector(&self.series_query, series, &[label]);
        if let Some(namespace_label) = &self.namespace_label {
            let mut namespaces = server.label_values(namespace_label, &selector).await;
            let none = format!("no object of the namespace {namespace} has series of the metric");
            let has_unlabeled = namespaces.iter().any(String::is_empty);
            namespaces.retain(|namespace| !namespace.is_empty());
            if !namespaces.is_empty() {
                return format!("{none}: {series} is in {}", namespaces.join(", "));
            }
            if has_unlabeled {
                let labels = server.newest_labels(&selector).await.unwrap_or_default();
                let labels: Vec<String> = labels.into_keys().collect();
                return sample::missing_label(series, namespace_label, "namespace", &labels);
            }
        }
        let all = sample::selector(&self.series_query, series, &[]);
        match server.describe_age(&all).await {
            Some(age) => {
                format!("no object has series of the metric now. {age}: check the scrape targets")
            }
            None => "no object has series of the metric".to_owned(),
        }
    }
}

async fn explain_external(source: &PrometheusSource, request: &ExternalQuery) -> (String, bool) {
    let mut explanation = source.explain_external(request);
    let inspected = source.inspect_external();
    let (mut text, mismatch) =
        describe_rules(source, "externalRules", &mut explanation, &inspected).await;
    let report = |text: &str, values, cause: Option<&str>| {
        with_headline(&request.metric, &explanation, &inspected, text, values, cause)
    };
    let Some(applied) = explanation.applied() else {
        return report(&text, 0, mismatch.as_deref());
    };
    match source.read_external(request.clone()).await {
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
                return report(&text, values.items.len(), None);
            }
            let omitted = values.omitted.first();
            let omitted = omitted.map(|one| format!("{}: {}", one.subject, one.reason));
            let hint = match inspected.get(applied.index) {
                Some(rule) if omitted.is_none() => {
                    explain_empty_namespace(source, rule, request).await
                }
                _ => omitted,
            };
            let cause = hint.as_deref().unwrap_or(
                "the query has no result, which blocks scaling down: check its labels and the \
                 selector, or end it with `or vector(0)` if nothing means 0",
            );
            report(&text, 0, Some(cause))
        }
        Err(error) => report(&text, 0, Some(&on_one_line(&describe(&error)))),
    }
}

/// Names the namespaces with series of an external metric. `None` unless the series are only in
/// other namespaces than that of the request.
async fn explain_empty_namespace(
    source: &PrometheusSource,
    rule: &RuleInspection,
    request: &ExternalQuery,
) -> Option<String> {
    let definition = &rule.definition;
    if definition.resources.namespaced == Some(false) {
        return None;
    }
    let series = &rule.metrics.iter().find(|metric| metric.metric == request.metric)?.series;
    let label = sample::namespace_label(rule);
    let selector = sample::selector(&definition.series_query, series, &[&label]);
    let server = PrometheusServer { source, name: &definition.server };
    let mut namespaces = server.label_values(&label, &selector).await;
    namespaces.retain(|namespace| !namespace.is_empty());
    if namespaces.is_empty() || namespaces.contains(&request.namespace) {
        return None;
    }
    let (namespace, others) = (&request.namespace, namespaces.join(", "));
    Some(format!(
        "the query has no result, which blocks scaling down: the namespace {namespace} has no series \
         of the metric: {series} is in {others}"
    ))
}

/// Index and position of a rule: `rules[0] (line 2, column 3)`.
fn rule_name(rule: &RuleInspection) -> String {
    let position = rule.position.map(|at| format!(" ({at})")).unwrap_or_default();
    format!("{}{position}", rule.status.rule)
}

/// A line about the outcome of each rule. `list` is the name of the list in the file. Also returns
/// the rule that describes the metric, but whose `seriesQuery` matches no series with its name.
async fn describe_rules(
    source: &PrometheusSource,
    list: &str,
    explanation: &mut Explanation,
    inspected: &[RuleInspection],
) -> (String, Option<String>) {
    let (mut text, mut described) = (String::new(), None);
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
        let server = PrometheusServer { source, name: &rule.definition.server };
        if let RuleOutcome::Applies { warnings, .. } = &mut report.outcome {
            server.remove_gauge_warnings(warnings).await;
        }
        let by_index = |index: usize| inspected.get(index).map(|rule| rule.status.rule.clone());
        let outcome = report.outcome.describe(|index| by_index(index).unwrap_or_default());
        let _ = writeln!(text, "{name}: {outcome}");
        let RuleOutcome::NoSeries { series_query, is_described } = &report.outcome else {
            continue;
        };
        if let Some(age) = server.describe_age(series_query).await {
            let _ = writeln!(
                text,
                "  {age}; none is within the maximum age: check the scrape targets, or raise \
                 --metrics-max-age"
            );
        } else if let Some(mismatch) = server.explain_mismatch(series_query).await {
            let _ = writeln!(text, "  {mismatch}");
            if *is_described {
                described.get_or_insert_with(|| format!("{name}: {mismatch}"));
            }
        }
    }
    (text, described)
}
