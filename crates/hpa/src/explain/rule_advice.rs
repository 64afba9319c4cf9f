//! Advice about metrics that can't be read, from the rules of `--metrics-config`.

use std::collections::BTreeMap;

use hpa_calc::{
    Inputs, MetricQuery, ReadError,
    go_text::truncate,
    report::{
        error_texts::{ALSO_NOT_BY_API, is_api_missing, refusal_of_rule},
        rules_explain_command,
    },
    shell::quote,
    suggestions::most_similar,
};
use hpa_metrics::MetricSource;
use hpa_prometheus::{
    rules::explain::counter_without_rate,
    source::{PrometheusSource, RuleInspection},
};

use crate::args::RulesFileArguments;

/// The maximum length of a message of Prometheus in advice, in characters.
const MAX_REFUSAL_LEN: usize = 300;

/// Advice for each metric whose rule returned nothing or a counter, or whose query Prometheus
/// refused, and for each misspelled name that neither a rule nor an API has. A metric that the
/// controller could read has no misspelled name.
pub(super) fn advise(rules: &PrometheusSource, inputs: &Inputs) -> BTreeMap<usize, String> {
    let plan = inputs.plan();
    // The controller has read these metrics, so it may have other rules.
    let read_by_controller = inputs.metrics_read_by_controller_only();
    let mut advice = BTreeMap::new();
    for (index, query) in plan.queries() {
        let Some(reading) = inputs.readings.get(index) else { continue };
        let Some(known_names) = metric_names(rules, query) else { continue };
        let name = query.metric_name();
        let has_rule = known_names.iter().any(|known| known == name);
        let text = match reading {
            Ok(_) if has_rule => counter_advice(&rules_of_metric(rules, query), name),
            Err(ReadError::Empty(_)) if has_rule => Some(format!(
                "A rule of --metrics-config has {name}, but no value for a pod of the target. To \
                 see why: {}",
                rules_explain_command(&inputs.hpa, index)
            )),
            Err(ReadError::Fetch { message, .. })
                if let Some(refusal) = refusal_of_rule(message) =>
            {
                Some(refusal_advice(&rules_of_metric(rules, query), name, refusal))
            }
            Err(ReadError::Fetch { message, .. }) if is_absent(message) && !has_rule => {
                let similar = most_similar(name, known_names.iter().map(String::as_str));
                similar.filter(|_| !read_by_controller.contains(&index)).map(|similar| {
                    format!(
                        "Correct the name in spec.metrics[{index}], or add a rule: no rule of \
                         --metrics-config has {name} (similar: {similar}). hpa rules check FILE \
                         --prometheus-url URL lists the metrics of a rules file."
                    )
                })
            }
            _ => None,
        };
        advice.extend(text.map(|text| (index, text)));
    }
    advice
}

/// The rules from which the metric of a query is read, each with only that metric. Object metrics
/// of several kinds may have the same name.
fn rules_of_metric(rules: &PrometheusSource, query: &MetricQuery) -> Vec<RuleInspection> {
    let mut inspected = match query {
        MetricQuery::External { .. } => rules.inspect_external(),
        _ => rules.inspect_custom(),
    };
    let name = query.metric_name();
    for rule in &mut inspected {
        rule.metrics.retain(|one| {
            let is_of_pods = one.resource.as_ref().is_some_and(|kind| kind.resource == "pods");
            one.metric == name
                && one.shadowed_by.is_none()
                && (is_of_pods || !matches!(query, MetricQuery::Pods { .. }))
        });
    }
    inspected.retain(|rule| !rule.metrics.is_empty());
    inspected
}

/// Advice about a metric that one of these rules, which have it, reads from a counter without its
/// rate. Its value grows until the counter is reset, whatever the load is.
fn counter_advice(rules: &[RuleInspection], name: &str) -> Option<String> {
    rules.iter().find_map(|rule| {
        let query = &rule.definition.metrics_query;
        let mut metrics = rule.metrics.iter();
        let warning = metrics.find_map(|metric| counter_without_rate(&metric.series, query))?;
        Some(format!("Check the metricsQuery of {} for {name}: {warning}.", rule.status.rule))
    })
}

/// Advice about a query that Prometheus refused with the message `refusal`. `rules` are the rules
/// that may have sent it.
fn refusal_advice(rules: &[RuleInspection], name: &str, refusal: &str) -> String {
    let names: Vec<&str> = rules.iter().map(|rule| rule.status.rule.as_str()).collect();
    let rules = if names.is_empty() { "its rule".to_owned() } else { names.join(" or ") };
    let refusal = truncate(refusal.to_owned(), MAX_REFUSAL_LEN);
    format!(
        "Prometheus rejects the query of {rules} for {name}: {refusal}. Correct its metricsQuery. \
         To check it: hpa rules check FILE --prometheus-url URL"
    )
}

/// The placeholders in commands about rules whose values the flags have. A URL with credentials is
/// not printed.
pub(super) fn placeholders(arguments: &RulesFileArguments) -> Vec<(&'static str, String)> {
    let mut placeholders = Vec::new();
    if let Some(file) = &arguments.metrics_config {
        let file = file.to_string_lossy();
        let file = quote(&file);
        if arguments.connect && arguments.prometheus.prometheus_url.is_none() {
            let check = "hpa rules check FILE --prometheus-url URL";
            placeholders.push((check, format!("hpa rules check {file} --connect")));
        }
        placeholders.push(("--config FILE", format!("--config {file}")));
        placeholders.push(("hpa rules check FILE", format!("hpa rules check {file}")));
    }
    let url = arguments.prometheus.prometheus_url.as_deref().filter(|url| !url.contains('@'));
    if let Some(url) = url {
        placeholders.push(("--prometheus-url URL", format!("--prometheus-url {}", quote(url))));
    }
    placeholders
}

/// Whether no rule, collector or metrics API has the metric.
fn is_absent(message: &str) -> bool {
    message.contains(ALSO_NOT_BY_API) && is_api_missing(message)
}

/// The names of the rules' metrics in the API of a query. `None` for resource metrics.
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

#[cfg(test)]
mod tests {
    use hpa_prometheus::{
        rules::config::DiscoveryRule,
        source::{InspectedMetric, RuleStatus},
    };
    use rstest::rstest;

    use super::*;

    /// A rule with the metric `rps`.
    fn rule(name: &str, series: &str, query: &str) -> RuleInspection {
        let metric = InspectedMetric {
            metric: "rps".to_owned(),
            resource: None,
            series: series.to_owned(),
            shadowed_by: None,
        };
        RuleInspection {
            position: None,
            definition: DiscoveryRule {
                metrics_query: query.to_owned(),
                ..DiscoveryRule::default()
            },
            status: RuleStatus { rule: name.to_owned(), ..RuleStatus::default() },
            server_failure: None,
            labels: Vec::new(),
            metrics: vec![metric],
        }
    }

    #[rstest]
    #[case::one(&["rules[1]"], "the query of rules[1] for rps: bad_data: parse error. Correct its")]
    #[case::several(&["rules[0]", "rules[1]"], "the query of rules[0] or rules[1] for rps: bad_data")]
    #[case::unknown(&[], "the query of its rule for rps: bad_data: parse error.")]
    fn advice_about_a_rejected_query_names_its_rule(
        #[case] rules: &[&str],
        #[case] expected: &str,
    ) {
        let rules: Vec<_> = rules.iter().map(|name| rule(name, "rps", "rps")).collect();
        let message = "unable to fetch metrics: bad_data: parse error";
        let refusal = refusal_of_rule(message).expect("a refusal");
        let advice = refusal_advice(&rules, "rps", refusal);
        assert!(advice.starts_with(&format!("Prometheus rejects {expected}")), "{advice}");
        assert!(advice.ends_with("hpa rules check FILE --prometheus-url URL"), "{advice}");
    }

    #[rstest]
    #[case::raw("requests_total", "sum(<<.Series>>{<<.LabelMatchers>>})", true)]
    #[case::rate("requests_total", "sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m]))", false)]
    #[case::gauge("requests", "sum(<<.Series>>{<<.LabelMatchers>>})", false)]
    fn counter_without_rate_has_advice(
        #[case] series: &str,
        #[case] query: &str,
        #[case] is_advised: bool,
    ) {
        let start =
            "Check the metricsQuery of rules[0] for rps: requests_total looks like a counter";
        let advice = counter_advice(&[rule("rules[0]", series, query)], "rps");
        assert_eq!(advice.is_some_and(|advice| advice.starts_with(start)), is_advised);
    }

    #[test]
    fn error_of_a_collector_is_no_refusal_of_a_rule() {
        let message = "unable to fetch metrics: the query to prometheus failed: bad_data: no";
        assert_eq!(refusal_of_rule(message), None);
    }
}
