use std::sync::Arc;

use hpa_calc::Selector;
use rstest::rstest;

use super::*;
use crate::rules::{Config, Rule, RuleSet, Series};
use hpa_metrics::{Objects, test_doubles::resources};

/// The explanation of a request for a metric of the object `web`. All rules have the same series,
/// except those whose `seriesQuery` is `none`.
fn explain(rules: &str, resource: &str, metric: &str, selector: &str) -> Explanation {
    let resources = resources();
    let config = Config::parse(&format!("rules:\n{rules}")).unwrap();
    let rules = RuleSet::compile(&config, &resources);
    let seen = [
        Series::new("http_requests_total", &["namespace", "pod", "code"]),
        Series::new("queue_depth", &["namespace", "pod_name"]),
    ];
    let discover = |(index, rule): (usize, Result<Arc<Rule>, InvalidRule>)| {
        rule.map(|rule| {
            let seen = if rule.series_query == "none" { &[][..] } else { &seen };
            let series = RuleSeries::new(&rule, &resources, seen).into();
            DiscoveredRule { index, rule, series }
        })
    };
    let discovered: Vec<Result<DiscoveredRule, InvalidRule>> =
        rules.custom.into_iter().enumerate().map(discover).collect();
    let candidates = discovered.iter().enumerate().map(|(index, rule)| match rule {
        Ok(rule) => Candidate::Compiled(rule),
        Err(error) => Candidate::Refused(index, error),
    });
    let candidates: Vec<Candidate<'_>> = candidates.collect();
    let request = CustomQuery {
        resource: GroupResource::new("", resource),
        namespace: "shop".to_owned(),
        objects: Objects::Named("web".to_owned()),
        metric: metric.to_owned(),
        metric_selector: Selector::parse(selector).unwrap(),
    };
    explain_custom(&request, &["web".to_owned()], &candidates, &resources, Compat::Off)
}

const GOOD_RULE: &str = "\
- resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
  name: {matches: '^(.*)_total$'}
  metricsQuery: 'sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)'
";

/// [`GOOD_RULE`] with a change.
fn good_rule_with(change: impl Fn(String) -> String) -> String {
    change(GOOD_RULE.to_owned())
}

/// The problem of the request, and the outcome of each rule.
fn text(explanation: &Explanation) -> String {
    let problem = explanation.request_problem.iter().map(ToString::to_string);
    let rules = explanation.rules.iter();
    let rules = rules.map(|report| format!("rule {}: {}", report.index, report.outcome));
    problem.chain(rules).map(|line| line + "\n").collect()
}

#[test]
fn matching_rule_applies_with_its_query() {
    let explanation = explain(GOOD_RULE, "pods", "http_requests", "");
    let Some(RuleOutcome::Applies { query, warnings, .. }) =
        explanation.applied().map(|report| &report.outcome)
    else {
        panic!("{explanation:?}")
    };
    assert_eq!(query, r#"sum(rate(http_requests_total{namespace="shop",pod="web"}[2m])) by (pod)"#);
    assert_eq!(*warnings, []);
}

#[rstest]
#[case::shared(GOOD_RULE.to_owned(), "\n  autoscalers of a namespace share its queries\n")]
#[case::not_shared(
    good_rule_with(|rule| {
        rule.replace("sum(rate", "topk(1, rate").replace(" by (<<.GroupBy>>)", "")
    }),
    "\n  autoscalers don't share its queries: `topk` aggregates over objects, because it isn't \
     grouped by `pod`\n"
)]
fn explanation_says_whether_queries_are_shared(#[case] rule: String, #[case] expected: &str) {
    let text = text(&explain(&rule, "pods", "http_requests", ""));
    assert!(text.contains(expected), "{text}");
}

#[rstest]
#[case::wrong_label(
    good_rule_with(|rule| rule.replace("pod: {", "pod_id: {")),
    "http_requests",
    "No series has the label `pod_id`; the labels are code, namespace, pod. Change the override or \
     the template to the label with the object's name. If the series are of no object, use \
     externalRules"
)]
#[case::regex_matches_nothing(
    good_rule_with(|rule| rule.replace("_total", "_toal")),
    "http_requests",
    "accept no series: http_requests_total (name.matches `^(.*)_toal$` doesn't match it)"
)]
#[case::missing_override(
    good_rule_with(|rule| rule.replace(", pod: {resource: pod}", "")),
    "http_requests",
    "only for namespaces. No override and no template has the resource"
)]
#[case::series_name_instead_of_metric(
    GOOD_RULE.to_owned(),
    "http_requests_total",
    "its metric is named `http_requests`: request that name"
)]
#[case::filtered(
    good_rule_with(|rule| rule + "  seriesFilters: [{isNot: ^http}]\n"),
    "http_requests_total",
    "the series exists, but seriesFilters[0].isNot `^http` matches it"
)]
#[case::other_name(
    GOOD_RULE.to_owned(),
    "http_request",
    "its only metric has another name. Similar: http_requests"
)]
#[case::two_lines(
    good_rule_with(|rule| {
        rule.replace("'sum", "|-\n    sum").replace(" by (", "\n    by (").replace(")'\n", ")\n")
    }),
    "http_requests",
    "[2m])) by (pod)\n"
)]
#[case::no_series(
    good_rule_with(|rule| rule + "  seriesQuery: none\n"),
    "http_requests",
    "no series for the seriesQuery `none`"
)]
#[case::no_namespace(
    good_rule_with(|rule| rule.replace("namespace: {resource: namespace}, ", "")),
    "http_requests",
    "into label: no generic resource label form specified for this metric. Add an override or a \
     template for it"
)]
#[case::template_typo(
    good_rule_with(|rule| rule.replace(".LabelMatchers", ".LabelMatcher")),
    "http_requests",
    "can't be built: metricsQuery: queries have no <<.LabelMatcher>>: did you mean \
     <<.LabelMatchers>>? (prometheus-adapter: template: metrics-query:1:"
)]
#[case::refused(
    good_rule_with(|rule| rule.replace("(.*)", "(.*")),
    "http_requests",
    "the rule is refused: line 3, column 19: rules[0].name.matches: `^(.*_total$` is not \
     a valid regular expression: missing closing )"
)]
#[case::counter_without_rate(
    good_rule_with(|rule| rule.replace("rate(", "(").replace("[2m]", "")),
    "http_requests",
    "warning: http_requests_total looks like a counter"
)]
#[case::quantile_without_le(
    good_rule_with(|rule| {
        let rule = rule.replace("'sum", "'histogram_quantile(0.9, sum").replace(")'", "))'");
        rule.replace("<<.Series>>", "latency_bucket")
    }),
    "http_requests",
    "warning: histogram_quantile has no result"
)]
#[case::not_grouped(
    good_rule_with(|rule| rule.replace("<<.GroupBy>>", "namespace")),
    "http_requests",
    "warning: the query aggregates, but not by `pod`"
)]
#[case::no_matchers(
    good_rule_with(|rule| rule.replace("<<.LabelMatchers>>", "")),
    "http_requests",
    "warning: the query selects no objects"
)]
fn mistakes_are_explained(#[case] rules: String, #[case] metric: &str, #[case] expected: &str) {
    let text = text(&explain(&rules, "pods", metric, ""));
    assert!(text.contains(expected), "{text}");
}

#[rstest]
#[case::without_objects(
    "{namespaced: false}",
    "applies with the series queue_depth: max(queue_depth)"
)]
#[case::without_label("{}", "or, in an external rule, set resources.namespaced to false")]
fn external_metric_has_advice_about_namespaces_and_none_about_objects(
    #[case] labels: &str,
    #[case] end: &str,
) {
    let resources = resources();
    let rule = format!(
        "externalRules:\n- seriesQuery: queue_depth\n  resources: {labels}\n  \
         metricsQuery: max(<<.Series>>)\n"
    );
    let rules = RuleSet::compile(&Config::parse(&rule).unwrap(), &resources);
    let rule = rules.external[0].clone().unwrap();
    let seen = [Series::new("queue_depth", &[])];
    let series = RuleSeries::new(&rule, &resources, &seen).into();
    let discovered = DiscoveredRule { index: 0, rule, series };
    let candidates = [Candidate::Compiled(&discovered)];
    let everything = Selector::everything();
    let explanation =
        explain_external("shop", "queue_depth", &everything, &candidates, &resources, Compat::Off);
    let text = text(&explanation);
    assert!(text.trim_end().ends_with(end), "{text}");
}

#[test]
fn earlier_rule_with_the_metric_is_shadowed() {
    let rules = format!("{GOOD_RULE}{GOOD_RULE}");
    let explanation = explain(&rules, "pods", "http_requests", "");
    assert_eq!(explanation.applied().map(|report| report.index), Some(1));
    let text = text(&explanation);
    assert!(text.starts_with("rule 0: rule 1 also has the metric"), "{text}");
}

#[test]
fn problems_of_the_request_come_first() {
    let unknown = text(&explain(GOOD_RULE, "widgets", "http_requests", ""));
    assert!(unknown.starts_with("the API has no such resource: no matches for"), "{unknown}");
    let unsupported = explain(GOOD_RULE, "pods", "http_requests", "a>1");
    assert!(unsupported.applied().is_none());
    let unsupported = text(&unsupported);
    assert!(unsupported.contains("Don't use < and >"), "{unsupported}");
}
