//! Advice about metrics that can't be read, from the rules of `--metrics-config`.

use std::{collections::BTreeMap, convert::Infallible, future::ready, sync::Arc};

use hpa_calc::{
    Inputs, MetricQuery, MetricsApi, ReadError,
    api::PodPhase,
    go_text::truncate,
    report::{
        error_texts::{ALSO_NOT_BY_API, NO_VALUE, is_metric_missing, refusal_of_rule},
        rules_explain_command,
    },
    shell::quote,
    suggestions::most_similar,
};
use hpa_metrics::{MetricSource, SingleFlight};
use hpa_prometheus::{
    rules::{
        explain::{Warning, expression_warnings},
        resource_metrics::UsageResource,
    },
    source::{PrometheusSource, RuleInspection},
};

use super::metric_advisor::FRESHNESS;
use crate::args::RulesFileArguments;

/// The maximum number of characters of a message of Prometheus in advice.
const MAX_REFUSAL_CHARS: usize = 300;

/// A metric that a rule may have.
#[derive(Clone, PartialEq, Eq, Hash)]
struct MetricKey {
    api: MetricsApi,
    is_of_pods: bool,
    name: String,
}

/// The result of looking up a metric in the rules.
struct MetricRules {
    /// Whether a rule has a metric of this name in this API.
    has_name: bool,
    /// The name of another metric of this API that may be meant.
    similar: Option<String>,
    /// The rules from which the metric is read, each with only that metric. Object metrics of
    /// several kinds may have the same name.
    rules: Vec<RuleInspection>,
}

/// Looks up metrics in the rules. This lists all metrics, so a metric is not looked up again within
/// [`FRESHNESS`].
pub(super) struct RuleLookups(SingleFlight<MetricKey, MetricRules, Infallible>);

impl Default for RuleLookups {
    fn default() -> Self {
        Self(SingleFlight::new(FRESHNESS))
    }
}

impl RuleLookups {
    async fn get(
        &self,
        key: MetricKey,
        find: impl FnOnce(&MetricKey) -> MetricRules,
    ) -> Arc<MetricRules> {
        let Ok(found) = self.0.get(key, |key| ready(Ok(find(&key)))).await;
        found
    }
}

/// Advice about metrics, by their index. A metric has advice in these cases:
///
/// - Its rule returned nothing.
/// - Its query has a likely mistake, such as a counter without a rate.
/// - Prometheus refused its query.
/// - Neither a rule nor an API has its name, but a rule has a similar one. The metrics
///   `of_controller` don't have this advice, because the controller may read them by other rules.
pub(super) async fn advise(
    source: &PrometheusSource,
    lookups: &RuleLookups,
    inputs: &Inputs,
    of_controller: &[usize],
) -> BTreeMap<usize, String> {
    let plan = inputs.plan();
    let mut pods = inputs.selected.pods.iter();
    let running_pod = pods.find(|pod| pod.phase == PodPhase::Running).map(|pod| &*pod.name);
    let mut advice = BTreeMap::new();
    for (index, query) in plan.queries() {
        let Some(reading) = inputs.readings.get(index) else { continue };
        let name = query.metric_name();
        let missing_value = || {
            let command = rules_explain_command(&inputs.hpa, index, running_pod);
            missing_value_advice(query, &command)
        };
        let is_empty = matches!(reading, Err(ReadError::Empty(_)));
        let lacks_value = match reading {
            Err(ReadError::Fetch { message, .. }) => message.starts_with(NO_VALUE),
            _ => is_empty,
        };
        let Some(key) = MetricKey::of(query) else {
            let is_usage = UsageResource::ALL.iter().any(|usage| usage.name() == name);
            let is_of_rule = is_usage && source.catalog().groups().resource;
            if lacks_value && running_pod.is_some() && is_of_rule {
                advice.insert(index, missing_value());
            }
            continue;
        };
        let is_of_pods = key.is_of_pods;
        let found = lookups.get(key, |key| MetricRules::find(source, key)).await;
        let without_le = |one: &Warning| matches!(one, Warning::QuantileWithoutLe { .. });
        let text = match reading {
            _ if lacks_value && found.has_name => {
                // For other failed requests, the report already has the command.
                let needs_command = is_empty || is_of_pods;
                mistake_advice(&found.rules, name, without_le)
                    .or_else(|| needs_command.then(missing_value))
            }
            Ok(_) if found.has_name => mistake_advice(&found.rules, name, |_| true),
            Err(ReadError::Fetch { message, .. })
                if let Some(refusal) = refusal_of_rule(message) =>
            {
                Some(refusal_advice(&found.rules, name, refusal))
            }
            Err(ReadError::Fetch { message, .. }) if is_absent(message) && !found.has_name => {
                let similar = found.similar.as_ref().filter(|_| !of_controller.contains(&index));
                similar.map(|similar| misspelled_name_advice(index, name, similar))
            }
            _ => None,
        };
        advice.extend(text.map(|text| (index, text)));
    }
    advice
}

/// Advice about a metric of a rule that has no value. `command` shows the cause.
fn missing_value_advice(query: &MetricQuery, command: &str) -> String {
    let name = query.metric_name();
    let of_object = match query {
        MetricQuery::Resource { .. } | MetricQuery::Pods { .. } => " for a pod of the target",
        MetricQuery::Object { .. } => " for its object",
        MetricQuery::External { .. } => "",
    };
    format!("A rule of --metrics-config has {name}, but no value{of_object}. To see why: {command}")
}

fn misspelled_name_advice(index: usize, name: &str, similar: &str) -> String {
    format!(
        "Correct the name in spec.metrics[{index}], or add a rule: no rule of --metrics-config has \
         {name} (similar: {similar}). hpa rules check FILE --prometheus-url URL lists the metrics \
         of a rules file."
    )
}

impl MetricKey {
    /// `None` for resource metrics.
    fn of(query: &MetricQuery) -> Option<Self> {
        let api = query.api();
        let is_of_pods = matches!(query, MetricQuery::Pods { .. });
        let name = query.metric_name().to_owned();
        (api != MetricsApi::Resource).then_some(Self { api, is_of_pods, name })
    }
}

impl MetricRules {
    fn find(source: &PrometheusSource, key: &MetricKey) -> Self {
        let MetricKey { api, is_of_pods, name } = key;
        let catalog = source.catalog();
        let (names, mut rules): (Vec<String>, _) = if *api == MetricsApi::External {
            let metrics = catalog.external_metrics().into_iter();
            (metrics.map(|metric| metric.metric).collect(), source.inspect_external())
        } else {
            let metrics = catalog.custom_metrics().into_iter();
            (metrics.map(|metric| metric.metric).collect(), source.inspect_custom())
        };
        for rule in &mut rules {
            rule.metrics.retain(|one| {
                let kind = one.resource.as_ref();
                one.metric == *name
                    && one.shadowed_by.is_none()
                    && (!is_of_pods || kind.is_some_and(|kind| kind.resource == "pods"))
            });
        }
        rules.retain(|rule| !rule.metrics.is_empty());
        let similar = most_similar(name, names.iter().map(String::as_str)).map(str::to_owned);
        Self { has_name: names.contains(name), similar, rules }
    }
}

/// Advice about the first relevant mistake in the queries with which these rules read a metric.
fn mistake_advice(
    rules: &[RuleInspection],
    name: &str,
    is_relevant: fn(&Warning) -> bool,
) -> Option<String> {
    rules.iter().find_map(|rule| {
        let query = &rule.definition.metrics_query;
        let metrics = rule.metrics.iter();
        let mut warnings = metrics.flat_map(|metric| expression_warnings(&metric.series, query));
        let warning = warnings.find(is_relevant)?;
        Some(format!("Check the metricsQuery of {} for {name}: {warning}.", rule.status.rule))
    })
}

/// Advice about a query that Prometheus refused with the message `refusal`. `rules` are the rules
/// that may have sent it.
fn refusal_advice(rules: &[RuleInspection], name: &str, refusal: &str) -> String {
    let names: Vec<&str> = rules.iter().map(|rule| rule.status.rule.as_str()).collect();
    let rules = if names.is_empty() { "its rule".to_owned() } else { names.join(" or ") };
    let refusal = truncate(refusal.to_owned(), MAX_REFUSAL_CHARS);
    format!(
        "Prometheus rejects the query of {rules} for {name}: {refusal}. Correct its metricsQuery. \
         To check it: hpa rules check FILE --prometheus-url URL"
    )
}

/// The placeholders in commands about rules, with the values that the flags have for them. Leaves
/// out a URL with credentials.
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
    message.contains(ALSO_NOT_BY_API) && is_metric_missing(message)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use hpa_calc::Selector;
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
            unused_series: Vec::new(),
        }
    }

    #[rstest]
    #[case::one(&["rules[1]"], "the query of rules[1] for rps: bad_data: parse error. Correct its")]
    #[case::several(
    &["rules[0]", "rules[1]"], "the query of rules[0] or rules[1] for rps: bad_data"
)]
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
        let advice = mistake_advice(&[rule("rules[0]", series, query)], "rps", |_| true);
        assert_eq!(advice.is_some_and(|advice| advice.starts_with(start)), is_advised);
    }

    #[test]
    fn quantile_without_le_has_advice() {
        let query = "histogram_quantile(0.9, sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])))";
        let rules = [rule("rules[0]", "latency_seconds_bucket", query)];
        let is_quantile = |one: &Warning| matches!(one, Warning::QuantileWithoutLe { .. });
        let advice = mistake_advice(&rules, "rps", is_quantile).expect("advice");
        let start = "Check the metricsQuery of rules[0] for rps: histogram_quantile has no result";
        assert!(advice.starts_with(start), "{advice}");
    }

    #[test]
    fn missing_value_of_an_external_metric_is_not_that_of_a_pod() {
        let (metric, metric_selector) = ("q".to_owned(), Selector::everything());
        let query = MetricQuery::External { metric, metric_selector };
        let expected = "A rule of --metrics-config has q, but no value. To see why: hpa rules";
        assert_eq!(missing_value_advice(&query, "hpa rules"), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn metric_is_looked_up_once_within_the_freshness() {
        let (lookups, count) = (RuleLookups::default(), Cell::new(0));
        let look_up = async |name: &str| {
            let name = name.to_owned();
            let key = MetricKey { api: MetricsApi::Custom, is_of_pods: true, name };
            let find = |_: &MetricKey| {
                count.update(|count| count + 1);
                MetricRules { has_name: true, similar: None, rules: Vec::new() }
            };
            assert!(lookups.get(key, find).await.has_name);
            count.get()
        };
        assert_eq!((look_up("rps").await, look_up("rps").await), (1, 1));
        assert_eq!(look_up("lag").await, 2);
        tokio::time::advance(FRESHNESS).await;
        assert_eq!(look_up("rps").await, 3);
    }

    #[rstest]
    #[case::no_api("the server could not find the requested resource (get a)", true)]
    #[case::api_without_it("the server could not find the metric rps for pods", true)]
    #[case::failing_api("Internal error occurred", false)]
    fn metric_is_absent_if_the_api_lacks_it_too(#[case] error: &str, #[case] expected: bool) {
        let message = format!("no rule of --metrics-config has rps{ALSO_NOT_BY_API}: {error}");
        assert_eq!(is_absent(&message), expected);
        assert!(!is_absent(error));
    }

    #[test]
    fn error_of_a_collector_is_no_refusal_of_a_rule() {
        let message = "unable to fetch metrics: the query to prometheus failed: bad_data: no";
        assert_eq!(refusal_of_rule(message), None);
    }
}
