//! Advice about metrics that can't be read, from the rules of `--metrics-config`.

use std::collections::BTreeMap;

use hpa_calc::{Inputs, MetricQuery, ReadError, suggestions::most_similar};
use hpa_metrics::{ExternalQuery, MetricSource};
use hpa_prometheus::{
    rules::explain::{Explanation, RuleOutcome},
    source::PrometheusSource,
};

use crate::status::shorten_names;

/// Texts in the errors of metrics APIs that are not registered.
const NOT_REGISTERED: [&str; 2] =
    ["no custom metrics API (", "the server could not find the requested resource ("];
/// The maximum length of a query in an advice, in characters.
const MAX_QUERY: usize = 300;

/// Completes the errors of metrics that neither a rule nor an API has. Returns advice for each
/// metric whose rule returned nothing, or that has no rule. In the latter case, a metric that the
/// controller could read has none.
pub(super) fn complete_errors(
    rules: &PrometheusSource,
    inputs: &mut Inputs,
) -> BTreeMap<usize, String> {
    let plan = inputs.plan();
    let queries = plan.queries().filter_map(|(index, query)| {
        let error = inputs.readings.get(index)?.as_ref().err()?;
        Some((index, query.clone(), error.clone()))
    });
    let failed: Vec<_> = queries.collect();
    // The controller has read these metrics, so it may have other rules.
    let only_reported = inputs.metrics_read_by_controller_only();
    let mut advice = BTreeMap::new();
    for (index, query, error) in failed {
        let Some(known_names) = metric_names(rules, &query) else { continue };
        let name = query.metric_name();
        match error {
            ReadError::Empty(_) if known_names.iter().any(|known| known == name) => {
                advice.insert(index, empty_result_advice(rules, inputs, index, &query));
            }
            ReadError::Fetch { api, message }
                if !known_names.iter().any(|known| known == name)
                    && NOT_REGISTERED.iter().any(|text| message.contains(text)) =>
            {
                let similar = most_similar(name, known_names.iter().map(String::as_str));
                let similar = similar.map(|one| format!(" (similar: {one})")).unwrap_or_default();
                let empty = rules_without_series(rules, &query);
                let missing = match empty.as_slice() {
                    [] => format!("no rule of --metrics-config has {name}{similar}"),
                    empty => format!(
                        "no rule of --metrics-config has {name} now{similar}; {} found no series",
                        shorten_names(empty)
                    ),
                };
                let text = if empty.is_empty() {
                    format!(
                        "Correct the name in spec.metrics[{index}], or add a rule: {missing}. hpa \
                         rules check FILE --prometheus-url URL lists the metrics of a rules file."
                    )
                } else {
                    let namespace = &inputs.hpa.metadata.namespace;
                    let metric = match &query {
                        MetricQuery::External { .. } => format!("external {name}"),
                        MetricQuery::Pods { .. } => format!("custom pods/{name}"),
                        _ => format!("custom RESOURCE/{name}"),
                    };
                    format!(
                        "Check the seriesQuery of the rules without series, and the name in \
                         spec.metrics[{index}]: {missing}. hpa rules explain {metric} --namespace \
                         {namespace} --config FILE --prometheus-url URL says why."
                    )
                };
                if !only_reported.contains(&index) {
                    advice.insert(index, text);
                }
                let error = ReadError::fetch(api, format!("{missing}, and {message}"));
                inputs.readings.insert(index, Err(error));
            }
            _ => {}
        }
    }
    advice
}

/// The names of the rules' metrics of the same API as a query. `None` for resource metrics.
fn metric_names(rules: &PrometheusSource, query: &MetricQuery) -> Option<Vec<String>> {
    let catalog = rules.catalog();
    Some(match query {
        MetricQuery::Pods { .. } | MetricQuery::Object { .. } => {
            catalog.custom_metrics().into_iter().map(|metric| metric.metric).collect()
        }
        MetricQuery::External { .. } => {
            catalog.external_metrics().into_iter().map(|metric| metric.metric).collect()
        }
        MetricQuery::Resource { .. } => return None,
    })
}

/// The rules of the query's API whose series were read, but that have none.
fn rules_without_series(rules: &PrometheusSource, query: &MetricQuery) -> Vec<String> {
    let list = match query {
        MetricQuery::External { .. } => "externalRules[",
        _ => "rules[",
    };
    let all = rules.rule_status().into_iter();
    let empty = all
        .filter(|one| one.rule.starts_with(list) && one.series == 0 && one.last_success.is_some());
    empty.map(|one| one.rule).collect()
}

/// Advice about a metric whose rule returned no value.
fn empty_result_advice(
    rules: &PrometheusSource,
    inputs: &Inputs,
    index: usize,
    query: &MetricQuery,
) -> String {
    let name = query.metric_name();
    let sent_query = match query {
        MetricQuery::External { metric, metric_selector } => {
            let request = ExternalQuery {
                namespace: inputs.hpa.metadata.namespace.clone(),
                metric: metric.clone(),
                metric_selector: metric_selector.clone(),
            };
            promql(&rules.explain_external(&request))
        }
        _ => None,
    };
    let sent_query = sent_query.map(|query| format!(": {query}")).unwrap_or_default();
    format!(
        "A rule of --metrics-config has {name}, but its query returned no value{sent_query}. \
         Check the names and selectors in spec.metrics[{index}], and whether Prometheus has such \
         series."
    )
}

fn promql(explanation: &Explanation) -> Option<String> {
    match &explanation.applied()?.outcome {
        RuleOutcome::Applies { query, .. } => Some(query.chars().take(MAX_QUERY).collect()),
        _ => None,
    }
}
