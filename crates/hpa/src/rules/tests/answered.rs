//! Tests of `hpa rules check` and `explain` with a Prometheus that answers.

use std::collections::BTreeMap;

use axum::{Form, Json, Router, extract::RawForm, routing::any};
use hpa_go_compat::regex::GoRegex;
use hpa_prometheus::promql::{self, Matcher, Selector};
use rstest::rstest;
use serde_json::json;

use super::{RULES, check_rules, explain_with, explain_without_namespace, resource_rules, serve};
use crate::rules::outcome::Outcome;

type Labels = BTreeMap<String, String>;

/// The series without a current sample.
const STALE: &str = "stale";

fn series() -> Vec<Labels> {
    let series = json!([
        { "__name__": "lag", "topic": "a" },
        { "__name__": "depth", "namespace": "shop", "queue": "orders" },
        { "__name__": "depth", "namespace": "shop", "queue": "mails" },
        { "__name__": "m", "namespace": "shop", "pod": "web-0", "container": "app" },
        { "__name__": "http_requests_total", "namespace": "shop" },
        { "__name__": STALE, "namespace": "old" },
    ]);
    serde_json::from_value(series).unwrap()
}

/// Whether a series has the name and the labels in the first selector of a query.
fn is_selected(labels: &Labels, query: &str) -> bool {
    // Not all requests have a query.
    let Ok(expr) = promql::parse(query) else { return false };
    let selectors = expr.selectors();
    let Some(Selector { name, matchers, .. }) = selectors.first() else { return false };
    let fits = |matcher: &Matcher<'_>| {
        let actual = labels.get(matcher.label).map_or("", String::as_str);
        match matcher.operator {
            "=" => actual == matcher.value,
            "!=" => actual != matcher.value,
            _ => GoRegex::new(&format!("^(?:{})$", matcher.value)).unwrap().is_match(actual),
        }
    };
    (name.is_empty() || labels["__name__"] == *name) && matchers.iter().all(fits)
}

/// A Prometheus that answers each query with the series of its first selector, or for `group by`
/// with that label of them. Of each series, it has a sample every 15 s, so `rate` has no result if
/// the range is as short as in the tests. Returns the URL.
async fn serve_prometheus() -> String {
    let list = |RawForm(form): RawForm| async move {
        let form = String::from_utf8_lossy(&form).into_owned();
        let is_listed = |labels: &Labels| form.contains(&format!("={}", labels["__name__"]));
        let listed: Vec<Labels> = series().into_iter().filter(is_listed).collect();
        Json(json!({ "status": "success", "data": listed }))
    };
    let answer = |Form(parameters): Form<Labels>| async move {
        let query = parameters.get("query").map(String::as_str).unwrap_or_default();
        let grouped = query.strip_prefix("group by (").and_then(|rest| rest.split(')').next());
        let is_read = |labels: &Labels| {
            let has_sample = labels["__name__"] != STALE || query.contains("max_over_time(");
            has_sample && is_selected(labels, query) && !query.contains("rate(")
        };
        let selected = series().into_iter().filter(is_read);
        let value = if query.contains("changes(") { "15" } else { "1" };
        let now = jiff::Timestamp::now().as_second();
        let samples = selected.map(|mut labels| {
            labels.retain(|label, _| grouped.map_or(label != "__name__", |by| by == label));
            json!({ "metric": labels, "value": [now, value] })
        });
        let samples: Vec<_> = samples.collect();
        let data = json!({ "resultType": "vector", "result": samples });
        Json(json!({ "status": "success", "data": data }))
    };
    serve(Router::new().route("/api/v1/series", any(list)).fallback(answer)).await
}

/// An external rule for a series, with the given field `resources`.
fn external_rule(series: &str, resources: &str) -> String {
    format!(
        "- seriesQuery: {series}\n{resources}  metricsQuery: sum({series}{{<<.LabelMatchers>>}})\n"
    )
}

const NAMESPACED: &str = "  resources: {overrides: {namespace: {resource: namespace}}}\n";
const NOT_NAMESPACED: &str = "  resources: {namespaced: false}\n";

#[tokio::test]
async fn external_series_without_a_namespace_label_are_a_problem() {
    let url = serve_prometheus().await;
    let rules = format!("externalRules:\n{}", external_rule("lag", NAMESPACED));
    let problem = "lag has no label `namespace`, which queries use to select the namespace: add it \
                   by relabeling, or set `namespaced: false` in an external rule; the labels are \
                   topic\n";
    let (report, outcome) = check_rules(&rules, &url).await;
    assert_eq!(outcome, Outcome::Failure, "{report}");
    assert!(report.contains(&format!("\n  problem: {problem}")), "{report}");

    let flags = ["--prometheus-url", &url];
    let (text, outcome) = explain_with(&rules, "external", "lag", &flags).await;
    assert_eq!(outcome, Outcome::Failure, "{text}");
    let start = "lag has no value: the query has no result, which blocks scaling down: ";
    assert!(text.starts_with(&format!("{start}{problem}")), "{text}");

    let rules = rules.replace(NAMESPACED, NOT_NAMESPACED);
    let (report, outcome) = check_rules(&rules, &url).await;
    assert_eq!(outcome, Outcome::Success, "{report}");
}

#[rstest]
#[case::value("queue=order", "no series has `queue=order` of the selector; similar values: orders")]
#[case::label(
    "queu=orders",
    "no series has the label `queu`, which the selector requires; similar labels: queue"
)]
#[case::other_values(
    "queue in (x,y)",
    "no series has `queue in (x,y)` of the selector; the values are mails, orders"
)]
#[case::both("queue=orders,queue!=orders", "check its labels and the selector, or end it with")]
#[case::empty_value("zone=", "check its labels and the selector, or end it with")]
#[case::unmet_empty_value(
    "queue=",
    "no series has `queue=` of the selector; the values are mails, orders"
)]
#[case::empty_or_other_value("zone in (,a)", "check its labels and the selector, or end it with")]
#[tokio::test]
async fn requirement_that_no_external_series_meets_is_named(
    #[case] selector: &str,
    #[case] reason: &str,
) {
    let url = serve_prometheus().await;
    let rules = format!("externalRules:\n{}", external_rule("depth", NAMESPACED));
    let rules = rules.replace("sum(depth{<<", "sum(depth{queue=\"none\",<<");
    let flags = ["--prometheus-url", &url, "-l", selector];
    let (text, outcome) = explain_with(&rules, "external", "depth", &flags).await;
    assert_eq!(outcome, Outcome::Failure, "{text}");
    assert!(text.lines().next().unwrap().contains(&format!(": {reason}")), "{text}");
}

#[tokio::test]
async fn requirement_that_no_series_of_an_object_meets_is_named() {
    let url = serve_prometheus().await;
    let flags = ["--prometheus-url", &url, "-l", "contaner=app"];
    let (text, outcome) = explain_with(RULES, "custom", "pods/m", &flags).await;
    assert_eq!(outcome, Outcome::Failure, "{text}");
    let first = "m has no value: no series has the label `contaner`, which the selector requires; \
                 similar labels: container\n";
    assert!(text.starts_with(first), "{text}");
    assert!(text.contains("\nweb-0: no value for the object: the query has no result\n"), "{text}");
    assert_eq!(text.matches("sum(m{").count(), 1, "{text}");
}

#[rstest]
#[case::namespaced("depth", NAMESPACED, " in the namespace shop")]
#[case::not_namespaced("lag", NOT_NAMESPACED, "")]
#[tokio::test]
async fn external_query_without_a_result_is_a_problem(
    #[case] series: &str,
    #[case] resources: &str,
    #[case] place: &str,
) {
    let url = serve_prometheus().await;
    let rule = external_rule(series, resources).replace("{<<", "{zone=\"none\",<<");
    let (report, outcome) = check_rules(&format!("externalRules:\n{rule}"), &url).await;
    assert_eq!(outcome, Outcome::Failure, "{report}");
    assert!(report.contains(&format!("\n  problem: no result{place}\n")), "{report}");
}

#[rstest]
#[case::namespaced(NAMESPACED, "sum(stale{namespace=\"old\"})")]
#[case::not_namespaced(NOT_NAMESPACED, "sum(stale{})")]
#[tokio::test]
async fn external_series_without_a_current_sample_are_a_warning(
    #[case] resources: &str,
    #[case] query: &str,
) {
    let url = serve_prometheus().await;
    let rules = format!("externalRules:\n{}", external_rule(STALE, resources));
    let (report, outcome) = check_rules(&rules, &url).await;
    assert_eq!(outcome, Outcome::Success, "{report}");
    let expected = "\n  warning: stale has no sample now. The newest sample is ";
    assert!(report.contains(expected), "{report}");
    assert!(report.contains(&format!("\n  query: {query}\n")), "{report}");
    let flags = ["--prometheus-url", &url];
    let (text, _) = explain_with(&rules, "external", STALE, &flags).await;
    let first = text.lines().next().unwrap();
    let reason = "stale has no sample now. The newest sample is ";
    assert!(first.contains(reason) && first.ends_with(": check the scrape targets"), "{text}");
}

#[tokio::test]
async fn range_that_is_too_short_for_two_samples_is_named() {
    let url = serve_prometheus().await;
    let flags = ["--prometheus-url", &url];
    let reason = "the range [5s] is shorter than the time between two samples (15s on average): \
                  write at least [1m]\n";
    let rules = RULES.replace("m{<<.LabelMatchers>>}", "rate(m{<<.LabelMatchers>>}[5s])");
    let (text, outcome) = explain_with(&rules, "custom", "pods/m", &flags).await;
    assert_eq!(outcome, Outcome::Failure, "{text}");
    assert!(text.starts_with(&format!("m has no value: {reason}")), "{text}");
    let (text, _) = explain_with(&rules, "external", "m", &flags).await;
    assert!(text.lines().next().unwrap().ends_with(&format!(": {}", reason.trim())), "{text}");
    let (report, outcome) = check_rules(&rules, &url).await;
    assert_eq!(outcome, Outcome::Failure, "{report}");
    assert!(report.contains(&format!("\n  problem: no result: {reason}")), "{report}");
    assert!(report.contains(&format!("has no result: {reason}")), "{report}");
    let of_pods = "m{<<.LabelMatchers>>,container!=\"\"}";
    let rules = resource_rules().replace(of_pods, &format!("rate({of_pods}[5s])"));
    let (text, _) = explain_with(&rules, "resource", "pods/cpu", &flags).await;
    assert!(text.contains(&format!(".containerQuery: no result: {reason}")), "{text}");
}

#[tokio::test]
async fn usage_without_a_current_sample_has_the_age() {
    let url = serve_prometheus().await;
    let (report, outcome) = check_rules(&resource_rules().replace("m{", "stale{"), &url).await;
    assert_eq!(outcome, Outcome::Failure, "{report}");
    let reason = ".containerQuery: no result: stale has no sample now. There were samples within ";
    assert!(report.contains(reason) && report.contains(": check the scrape targets\n"), "{report}");
}

#[tokio::test]
async fn external_metric_is_explained_in_a_namespace_if_its_rule_selects_one() {
    let url = serve_prometheus().await;
    let flags = ["--prometheus-url", &url];
    let rules = format!("externalRules:\n{}", external_rule("depth", NAMESPACED));
    let (text, outcome) = explain_without_namespace(&rules, "external", "depth", &flags).await;
    assert_eq!(outcome, Outcome::Failure, "{text}");
    let first = "depth: external metrics are read in a namespace: add --namespace NAME\n";
    assert!(text.starts_with(first) && !text.contains("} = "), "{text}");
    let rules = format!("externalRules:\n{}", external_rule("lag", NOT_NAMESPACED));
    let (text, outcome) = explain_without_namespace(&rules, "external", "lag", &flags).await;
    assert_eq!(outcome, Outcome::Success, "{text}");
    assert!(text.contains("\nexternalRules[0] selects no namespace: "), "{text}");
}

#[tokio::test]
async fn command_for_the_api_of_a_metric_is_named() {
    let url = serve_prometheus().await;
    let flags = ["--prometheus-url", &url];
    let rules = "rules:\n- seriesQuery: m\n  resources: {template: <<.Resource>>}\n  \
                 metricsQuery: sum(m{<<.LabelMatchers>>}) by (<<.GroupBy>>)\n";
    let (text, outcome) = explain_with(rules, "external", "m", &flags).await;
    assert_eq!(outcome, Outcome::Failure, "{text}");
    let first = "m has no value: rules[0] has it, but in another API: hpa rules explain custom \
                 pods/m\n";
    assert!(text.starts_with(first), "{text}");
    let (text, _) = explain_without_namespace(rules, "custom", "pods/m", &flags).await;
    assert!(text.contains("namespace") && !text.contains("share its queries"), "{text}");
    let overrides = "{overrides: {namespace: {resource: namespace}, pod: {resource: service}}}";
    let rules = rules.replace("{template: <<.Resource>>}", overrides);
    let (text, _) = explain_with(&rules, "external", "m", &flags).await;
    let line = text.lines().next().unwrap();
    assert!(line.ends_with(": hpa rules explain custom services/m"), "{text}");
}

#[rstest]
#[case::named(
    "jobs",
    "jobs has no value: externalRules[0] (line 2, column 3) would serve it, but Prometheus has no \
     series for its seriesQuery jobs"
)]
#[case::other("queue", "queue has no value: none of 2 rules has series now")]
#[tokio::test]
async fn rule_without_series_is_named_if_it_would_serve_the_metric(
    #[case] metric: &str,
    #[case] expected: &str,
) {
    let url = serve_prometheus().await;
    let rules = ["jobs", "orders"].map(|series| external_rule(series, NOT_NAMESPACED)).concat();
    let flags = ["--prometheus-url", &url];
    let rules = format!("externalRules:\n{rules}");
    let (text, outcome) = explain_with(&rules, "external", metric, &flags).await;
    assert_eq!(outcome, Outcome::Failure, "{text}");
    assert_eq!(text.lines().next(), Some(expected), "{text}");
}

#[tokio::test]
async fn series_like_a_misspelled_name_is_named() {
    let url = serve_prometheus().await;
    let rules = format!("externalRules:\n{}", external_rule("http_request_total", NAMESPACED));
    let (report, outcome) = check_rules(&rules, &url).await;
    assert_eq!(outcome, Outcome::Failure, "{report}");
    let problem = "\n  problem: no series is named http_request_total now; similar: \
                   http_requests_total\n";
    assert!(report.contains(problem), "{report}");
}

#[tokio::test]
async fn first_line_says_that_no_rule_has_series() {
    let url = serve_prometheus().await;
    let rules = ["jobs", "orders", "lag"].map(|series| external_rule(series, NOT_NAMESPACED));
    let first = async |rules: &[String]| {
        let rules = format!("externalRules:\n{}", rules.concat());
        check_rules(&rules, &url).await.0.lines().next().unwrap_or_default().to_owned()
    };
    let empty = "; no rule has series: Prometheus may be empty, or another server or tenant is \
                 meant";
    assert!(first(&rules[..2]).await.ends_with(empty));
    assert!(!first(&rules).await.contains(empty), "lag has series");
    assert!(!first(&rules[..1]).await.contains(empty), "the name of one series may be wrong");
}

#[tokio::test]
async fn findings_stand_under_their_rule() {
    let url = serve_prometheus().await;
    let rules = ["lag", "depth"].map(|series| external_rule(series, ""));
    let (report, outcome) = check_rules(&format!("externalRules:\n{}", rules.concat()), &url).await;
    assert_eq!(outcome, Outcome::Failure, "{report}");
    assert!(report.starts_with("FILE: 2 problems\n"), "{report}");
    for (index, (line, series)) in [(2, "lag"), (4, "depth")].into_iter().enumerate() {
        let section = format!(
            "\nexternalRules[{index}] (line {line}, column 3): {series}\n  problem: line {line}, \
             column 3: externalRules[{index}].resources: unable to convert"
        );
        assert!(report.contains(&section), "{report}");
    }
    assert!(report.lines().skip(1).all(|line| line.starts_with(['e', ' '])), "{report}");
}

#[tokio::test]
async fn usage_is_not_served_without_the_rule_of_the_other_resource() {
    let url = serve_prometheus().await;
    let all = resource_rules();
    let (cpu, _) = all.split_once(", memory:").unwrap();
    let flags = ["--prometheus-url", &url];
    let (text, outcome) = explain_with(&format!("{cpu}}}\n"), "resource", "pods/cpu", &flags).await;
    assert_eq!(outcome, Outcome::Failure);
    let end = ", by resourceRules.cpu.containerQuery, but metrics.k8s.io doesn't serve them: \
               resourceRules.memory is missing";
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("pods/cpu has values of ") && first.ends_with(end), "{text}");
}

#[rstest]
#[case::named("web-0", "has values of 1 pod named web-0 of the namespace shop, by ")]
#[case::other(
    "web-9",
    "has no value: resourceRules.cpu.containerQuery: it has values of 1 pod of the namespace shop, \
     none named web-9\n"
)]
#[tokio::test]
async fn usage_is_explained_for_the_objects_of_the_request(
    #[case] name: &str,
    #[case] answer: &str,
) {
    let url = serve_prometheus().await;
    let flags = ["--prometheus-url", &url, "--name", name];
    let (text, _) = explain_with(&resource_rules(), "resource", "pods/cpu", &flags).await;
    assert!(text.starts_with(&format!("pods/cpu {answer}")), "{text}");
    assert!(text.contains("\"pod\": \"web-0\"} = 1\n"), "{text}");
    // The query selects the namespace, because its result doesn't have it.
    let rules = resource_rules().replace("sum(m{", "sum(m{namespace=\"other\",");
    let (text, outcome) = explain_with(&rules, "resource", "pods/cpu", &flags).await;
    assert_eq!(outcome, Outcome::Failure);
    let start = "pods/cpu has no value: resourceRules.cpu.containerQuery: no result of the \
                 namespace shop\n";
    assert!(text.starts_with(start), "{text}");
}

#[tokio::test]
async fn object_without_a_sample_is_reported_with_those_that_have_one() {
    let url = serve_prometheus().await;
    let flags = ["--prometheus-url", &url, "--name", "web-9"];
    let (text, outcome) = explain_with(RULES, "custom", "pods/m", &flags).await;
    assert_eq!(outcome, Outcome::Failure, "{text}");
    let first = "m has no value: m has no sample of web-9 now, and had none within the last day: \
                 check the name. Others have one: web-0\n";
    assert!(text.starts_with(first), "{text}");
    // The selector is the cause, although the object has a sample.
    let flags = ["--prometheus-url", &url, "--name", "web-0", "-l", "container=web"];
    let (text, _) = explain_with(RULES, "custom", "pods/m", &flags).await;
    assert!(text.starts_with("m has no value: no series has `container=web` of the "), "{text}");
}
