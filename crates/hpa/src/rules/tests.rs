//! Tests of `hpa rules check` and `generate` without a server. The modules test `check` and
//! `explain` with servers in this process. Tests with a Prometheus are in `tests/in_process.rs`,
//! `tests/proxy.rs` and the suite `tests/prometheus`.

mod absence;
mod answered;
mod unanswered;

use axum::Router;
use clap::Parser;
use hpa_prometheus::rules::Config;
use rstest::rstest;
use serde_json::{Value, json};

use super::{check, explain, generate, outcome::Outcome};
use crate::args::{Arguments, Command, RulesCommand, RulesGenerateArguments};

/// Checks a file with these rules, whose name is `rules.yaml`.
async fn check_text(rules: &str) -> anyhow::Result<(String, Outcome)> {
    let (_dir, file) = write_rules(rules);
    run_check(&["check", &file]).await
}

/// Writes `rules.yaml` with this text. Returns its directory and its path.
fn write_rules(rules: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rules.yaml");
    std::fs::write(&path, rules).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (dir, path)
}

/// Runs `hpa rules` with these arguments, which begin with `check`.
async fn run_check(arguments: &[&str]) -> anyhow::Result<(String, Outcome)> {
    let parsed = Arguments::try_parse_from(["hpa", "rules"].iter().chain(arguments));
    match parsed.unwrap().command {
        Command::Rules(RulesCommand::Check(arguments)) => check::check_rules(&arguments).await,
        other => panic!("not hpa rules check: {other:?}"),
    }
}

/// Rules for the pods and for an external metric.
const RULES: &str = "
rules:
- seriesQuery: m
  resources: {template: <<.Resource>>}
  metricsQuery: sum(m{<<.LabelMatchers>>}) by (<<.GroupBy>>)
externalRules:
- seriesQuery: m
  resources: {namespaced: false}
  metricsQuery: sum(m{<<.LabelMatchers>>})
";

/// `resourceRules`. A relist doesn't read their server.
fn resource_rules() -> String {
    let usage = "{containerLabel: container, nodeQuery: 'sum(m{<<.LabelMatchers>>}) by \
                 (<<.GroupBy>>)', containerQuery: 'sum(m{<<.LabelMatchers>>,container!=\"\"}) by \
                 (<<.GroupBy>>)', resources: {template: <<.Resource>>}}";
    format!("resourceRules: {{window: 5m, cpu: {usage}, memory: {usage}}}\n")
}

/// Serves on a free port. Returns the URL.
async fn serve(router: Router) -> String {
    format!("http://{}", hpa_tests::harness::serve(router).await)
}

/// Checks rules with the series of a Prometheus. Returns the report, with `FILE` for the path.
async fn check_rules(rules: &str, url: &str) -> (String, Outcome) {
    check_rules_with(rules, &["--prometheus-url", url]).await
}

/// Like [`check_rules`], with these flags.
async fn check_rules_with(rules: &str, flags: &[&str]) -> (String, Outcome) {
    let (_dir, path) = &write_rules(rules);
    let (report, outcome) = run_check(&[["check", path].as_slice(), flags].concat()).await.unwrap();
    (report.replace(path, "FILE"), outcome)
}

/// Explains a metric in the namespace `shop`. Returns the text and the outcome.
async fn explain_with(rules: &str, api: &str, metric: &str, flags: &[&str]) -> (String, Outcome) {
    explain_without_namespace(rules, api, metric, &[["-n", "shop"].as_slice(), flags].concat())
        .await
}

/// Explains a metric. Returns the text and the outcome.
async fn explain_without_namespace(
    rules: &str,
    api: &str,
    metric: &str,
    flags: &[&str],
) -> (String, Outcome) {
    let (_dir, path) = &write_rules(rules);
    let arguments = ["hpa", "rules", "explain", api, metric, "--config", path];
    let arguments = arguments.iter().chain(flags);
    let Command::Rules(RulesCommand::Explain(arguments)) =
        Arguments::try_parse_from(arguments).unwrap().command
    else {
        panic!("not hpa rules explain");
    };
    explain::explain_metric(&arguments).await.unwrap()
}

fn assert_lines_start_with(report: &str, starts: &[String]) {
    assert_eq!(report.lines().count(), starts.len(), "{report}");
    let mut lines = report.lines().zip(starts);
    assert!(lines.all(|(line, start)| line.starts_with(start)), "{report}");
}

#[tokio::test]
async fn check_without_a_server_reports_refused_rules() {
    let rules = "rules:\n- {seriesQuery: up, name: {matches: '('}}\n";
    let (report, outcome) = check_text(rules).await.unwrap();
    assert_eq!(outcome, Outcome::Failure, "{report}");
    let (first, mistakes) = report.split_once('\n').unwrap();
    assert!(first.ends_with("rules.yaml: 2 problems (1 rule)"), "{report}");
    let mistakes: Vec<_> = mistakes.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(mistakes, ["line 2, column 3", "line 2, column 37"], "{report}");
    assert!(report.contains("rules[0].name.matches: `(` is not a valid regular"), "{report}");

    let error = check_text("rules: [{seriesQuerys: up}]").await.unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains("rules.yaml: line 1, column 10"), "{error}");
}

#[rstest]
#[case::no_yaml("rules: [", &["field"])]
#[case::no_rules("apiVersion: apps/v1\nkind: Deployment\n", &["field"])]
#[case::undecodable("rules: [{seriesQuerys: up}]", &["rule"])]
#[case::refused("rules:\n- {seriesQuery: up, name: {matches: '('}}\n", &["metrics-query", "name"])]
#[case::valid(
    "externalRules: [{seriesQuery: up, metricsQuery: up, resources: {namespaced: false}}]",
    &[]
)]
#[tokio::test]
async fn findings_have_a_kind_in_json_and_sarif(#[case] rules: &str, #[case] kinds: &[&str]) {
    let (_dir, file) = &write_rules(rules);
    let expected = if kinds.is_empty() { Outcome::Success } else { Outcome::Failure };
    let check = async |format| -> Value {
        let (text, outcome) = run_check(&["check", file, "-o", format]).await.unwrap();
        assert_eq!(outcome, expected, "{text}");
        serde_json::from_str(&text).unwrap()
    };
    let (json, sarif) = (check("json").await, check("sarif").await);
    let run = &sarif["runs"][0];
    assert_eq!(run["tool"]["driver"]["name"], "hpa rules check");
    let (json, results) = (json.as_array().unwrap(), run["results"].as_array().unwrap());
    assert_eq!((json.len(), results.len()), (kinds.len(), kinds.len()), "{json:?}");
    for (kind, (finding, result)) in kinds.iter().zip(json.iter().zip(results)) {
        assert_eq!((&finding["rule"], &result["ruleId"]), (&json!(kind), &json!(kind)));
        let place = &result["locations"][0]["physicalLocation"];
        assert!(place["artifactLocation"]["uri"].to_string().contains("/rules.yaml"), "{result}");
        let line = json!(place["region"]["startLine"].as_u64().unwrap_or_default());
        assert_eq!((&finding["line"], &finding["severity"]), (&line, &result["level"]));
    }
}

#[tokio::test]
async fn check_names_the_mistakes_beside_an_unknown_field() {
    let rules = "rules:
- seriesQuerys: up
  resources: {template: <<.Resource>>}
  name: {matches: '('}
  metricsQuery: sum(
externalRules:
- seriesQuery: a
  resources: {namespaced: fals}
  metricsQuery: <<.Bar
";
    let error = format!("{:#}", check_text(rules).await.unwrap_err());
    let starts = [
        "rules.yaml: 5 problems",
        "line 2, column 3: rules[0]: unknown field `seriesQuerys`",
        "line 4, column 19: rules[0].name.matches: `(` is not a valid regular expression",
        "line 5, column 17: rules[0].metricsQuery: not PromQL",
        "line 8, column 27: externalRules[0].resources.namespaced: must be",
        "line 9, column 17: externalRules[0].metricsQuery: `<<.Bar` is not closed",
    ];
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), starts.len(), "{error}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.contains(start), "{error}");
    }
}

#[tokio::test]
async fn generated_rules_are_valid() {
    let generated = |interval: &str, prefix: &str| {
        let (rate_interval, label_prefix) = (interval.to_owned(), prefix.to_owned());
        generate(&RulesGenerateArguments { rate_interval, label_prefix })
    };
    let (report, outcome) = check_text(&generated("2m", "kube_").unwrap()).await.unwrap();
    assert_eq!(outcome, Outcome::Success, "{report}");
    assert!(report.contains("rules.yaml: no problems (6 rules, resourceRules)\n"), "{report}");
    let error = generated("soon", "").unwrap_err().to_string();
    assert_eq!(error, "--rate-interval soon");
    assert!(generated("2m", "'").is_err());
}

#[tokio::test]
async fn check_without_a_server_finds_mistakes_in_helm_values() {
    let values = "rules:\n  default: false\n  custom:\n  - seriesQuery: sum(a) / sum(b)\n    \
                  resources: {template: <<.Resource>>}\n    metricsQuery: <<.Series>>\n";
    let (report, outcome) = check_text(values).await.unwrap();
    assert_eq!(outcome, Outcome::Failure, "{report}");
    let expected = ": 1 problem, 1 warning (1 rule)\nline 4, column 18: rules[0].seriesQuery: it \
                    must be a selector";
    assert!(report.contains(expected), "{report}");
    let (report, outcome) = check_text(&values.replace("sum(a) / sum(b)", "a")).await.unwrap();
    assert_eq!(outcome, Outcome::Success, "{report}");
    assert!(report.contains(" (1 rule)\n"), "{report}");
}

#[tokio::test]
async fn check_numbers_the_rules_of_helm_values_as_in_the_file() {
    let values = "rules:\n  default: true\n  custom:\n  - seriesQuery: m\n    resources: \
                  {template: <<.Resource>>}\n    metricsQuery: sum(\n";
    let (report, outcome) = check_text(values).await.unwrap();
    assert_eq!(outcome, Outcome::Failure, "{report}");
    let expected = "\nline 6, column 19: rules[0].metricsQuery: not PromQL";
    assert!(report.contains(expected), "{report}");
    let (report, outcome) = check_text(&values.replace("sum(", "m")).await.unwrap();
    assert_eq!(outcome, Outcome::Success, "{report}");
    assert!(report.contains(" (6 default rules, 1 rule)\n"), "{report}");
    let expected = "\nline 6, column 19: rules[0].metricsQuery: warning: the query selects no";
    assert!(report.contains(expected), "{report}");
}

#[tokio::test]
async fn check_names_each_config_map_of_a_file() {
    let map = |name: &str, query: &str| {
        format!(
            "kind: ConfigMap\nmetadata: {{name: {name}, namespace: m}}\ndata:\n  rules.yaml: \
             |\n    rules:\n    - seriesQuery: m\n      resources: {{template: \
             <<.Resource>>}}\n      metricsQuery: {query}\n---\n"
        )
    };
    let (valid, invalid) = ("m{<<.LabelMatchers>>}", "sum(");
    let maps =
        [map("a", valid), map("b", invalid), map("c", valid).replace("Query: m\n", "Querys: m\n")];
    let (_dir, file) = &write_rules(&maps.concat());
    let (report, outcome) = run_check(&["check", file]).await.unwrap();
    assert_eq!(outcome, Outcome::Failure, "{report}");
    let start = format!(
        "rules in 3 places: 2 with problems: ConfigMap m/b, key rules.yaml; ConfigMap m/c, \
         key rules.yaml\n\nConfigMap m/a, key rules.yaml\n{file}: no problems (1 rule)\n"
    );
    assert!(report.starts_with(&start), "{report}");
    let second = format!(
        "\n\nConfigMap m/b, key rules.yaml\n{file}: 1 problem (1 rule)\nline 17, column 21: \
         rules[0].metricsQuery: not"
    );
    assert!(report.contains(&second), "{report}");
    let third = "rules.yaml: line 24, column 7: rules[0]: unknown field `seriesQuerys`";
    assert!(report.contains(third), "{report}");
    let both = [map("a", valid), map("b", valid)].concat();
    let (report, outcome) = check_text(&both).await.unwrap();
    assert_eq!(outcome, Outcome::Success, "{report}");
    assert!(report.starts_with("rules in 2 places: no problems\n"), "{report}");
}

#[tokio::test]
async fn check_without_a_server_warns_of_queries_without_matchers_or_grouping() {
    let check = async |query: &str| {
        let rules = format!(
            "rules:\n- seriesQuery: a\n  resources: {{overrides: {{namespace: {{resource: \
             namespace}}, service: {{resource: service}}}}}}\n  metricsQuery: '{query}'\n"
        );
        let (report, outcome) = check_text(&rules).await.unwrap();
        assert_eq!(outcome, Outcome::Success, "{report}");
        let lines: Vec<_> = report.lines().map(str::to_owned).collect();
        let [first, warnings @ .., _hint] = lines.as_slice() else { panic!("{report}") };
        let counts = if warnings.is_empty() { "no problems" } else { "no problems, 1 warning" };
        assert!(first.ends_with(&format!(": {counts} (1 rule)")), "{report}");
        warnings.to_vec()
    };
    let unmatched =
        "line 4, column 17: rules[0].metricsQuery: warning: the query selects no objects";
    let ungrouped = "line 4, column 17: rules[0].metricsQuery: warning: the query aggregates, but \
                     not by `";
    let warnings = check("avg(<<.Series>>) by (<<.GroupBy>>)").await;
    assert!(warnings.len() == 1 && warnings[0].starts_with(unmatched), "{warnings:?}");
    let warnings = check("sum(<<.Series>>{<<.LabelMatchers>>})").await;
    assert!(warnings.len() == 1 && warnings[0].starts_with(ungrouped), "{warnings:?}");
    for query in [
        "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)",
        "sum(<<.Series>>{<<.LabelMatchers>>}) by (service)",
        "<<.Series>>{<<.LabelMatchers>>}",
    ] {
        assert_eq!(check(query).await, [""; 0], "{query}");
    }
}

#[tokio::test]
async fn check_refuses_an_unknown_section_of_helm_values() {
    let values = "rules:\n  default: false\n  externals: [{seriesQuery: up}]\n";
    let error = format!("{:#}", check_text(values).await.unwrap_err());
    let expected = "line 3, column 3: rules: unknown field `externals`: did you mean `external`?";
    assert!(error.ends_with(expected), "{error}");
}

#[tokio::test]
async fn check_refuses_an_empty_file() {
    let error = format!("{:#}", check_text("\n").await.unwrap_err());
    assert!(error.ends_with("rules.yaml: it is empty"), "{error}");
}

#[tokio::test]
async fn servers_of_the_file_are_reached_only_on_request() {
    let rules = "servers: [{name: eu, url: 'http://127.0.0.1:1', tokenFile: secret}]\n\
                 externalRules: [{seriesQuery: up, server: eu, metricsQuery: up,\n\
                 \x20 resources: {namespaced: false}}]\n";
    let (dir, file) = &write_rules(rules);
    let (report, outcome) = run_check(&["check", file]).await.unwrap();
    assert_eq!(outcome, Outcome::Success, "{report}");
    assert!(report.ends_with("add --prometheus-url, or --connect for the file's servers\n"));

    let credentials = dir.path().to_str().unwrap();
    let connect = ["check", file, "--connect", "--metrics-config-credentials", credentials];
    let error = format!("{:#}", run_check(&connect).await.unwrap_err());
    assert!(error.starts_with("unable to read the token file"), "{error}");
    std::fs::write(dir.path().join("secret"), "token").unwrap();
    let (report, outcome) = run_check(&connect).await.unwrap();
    assert_eq!(outcome, Outcome::Inconclusive, "{report}");
    let cause = "the request to Prometheus at 127.0.0.1:1 failed: Connection refused";
    assert!(report.contains(cause), "{report}");

    let url = ["check", file, "--prometheus-url", "http://127.0.0.1:1"];
    let error = format!("{:#}", run_check(&url).await.unwrap_err());
    assert!(error.contains("the token file /etc/hpa/credentials/secret"), "{error}");
}

#[tokio::test]
async fn mistakes_in_servers_are_problems_with_and_without_a_connection() {
    let rules = "servers:
- {name: eu, url: 'http://127.0.0.1:1', tokenFile: /etc/passwd}
externalRules:
- seriesQuery: up
  server: asia
  resources: {namespaced: false}
  metricsQuery: sum(
";
    let (_dir, file) = &write_rules(rules);
    let unread = "; not checked against Prometheus: correct the servers first";
    for (flag, place, unread) in [(None, "", ""), (Some("--connect"), " in the file", unread)] {
        let arguments: Vec<&str> = ["check", file].into_iter().chain(flag).collect();
        let (report, outcome) = run_check(&arguments).await.unwrap();
        assert_eq!(outcome, Outcome::Failure, "{report}");
        let starts = [
            format!("{file}: 3 problems{place} (1 external rule){unread}"),
            "line 2, column 52: servers[0].tokenFile: the server \"eu\" may not".to_owned(),
            "line 5, column 11: externalRules[0].server: there is no server".to_owned(),
            "line 7, column 17: externalRules[0].metricsQuery: not PromQL".to_owned(),
        ];
        assert_lines_start_with(&report, &starts);
    }
    let misspelled = rules.replace("server: asia", "servers: asia");
    let error = format!("{:#}", check_text(&misspelled).await.unwrap_err());
    assert!(error.contains("3 problems") && error.contains("servers[0].tokenFile"), "{error}");
    for (field, misspelled) in [("name: eu", "nam: asia"), ("servers:", "server:")] {
        let error = check_text(&rules.replace(field, misspelled)).await.unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains("metricsQuery: not PromQL"), "{error}");
        assert!(!error.contains("there is no server"), "{error}");
    }
}

#[tokio::test]
async fn mistakes_are_reported_while_prometheus_is_unreachable() {
    let rules = "rules:
- seriesQuery: up
  resources: {template: <<.Resource>>}
  metricsQuery: <<.Series>>{<<.LabelMatchers>>}
externalRules:
- seriesQuery: up
  resources: {namespaced: false}
  metricsQuery: sum(
";
    let (_dir, file) = &write_rules(rules);
    let connect = ["check", file, "--prometheus-url", "http://127.0.0.1:1"];
    let (report, outcome) = run_check(&connect).await.unwrap();
    assert_eq!(outcome, Outcome::Inconclusive);
    let starts = [
        format!(
            "{file}: 1 problem in the file (1 rule, 1 external rule); not checked against \
             Prometheus: the request to Prometheus at 127.0.0.1:1 failed: Connection refused"
        ),
        "line 8, column 17: externalRules[0].metricsQuery: not PromQL".to_owned(),
    ];
    assert_lines_start_with(&report, &starts);
}

/// Checks each example of rules in docs/prometheus.md.
#[tokio::test]
async fn documented_rules_are_valid() {
    let document = include_str!("../../../../docs/prometheus.md");
    let blocks = document.split("\n```").skip(1).step_by(2);
    let lists = ["rules:", "externalRules:", "resourceRules:"];
    let has_rules = |block: &&str| block.lines().any(|line| lists.contains(&line));
    let mut count = 0;
    for block in blocks.filter(has_rules) {
        let (_, rules) = block.split_once('\n').unwrap();
        let (report, outcome) = check_text(rules).await.unwrap();
        assert_eq!(outcome, Outcome::Success, "{report}{rules}");
        count += 1;
    }
    assert!(count > 10, "{count} examples");
}

#[test]
fn resource_rules_without_memory_are_refused() {
    let config = Config::parse("resourceRules: {cpu: {nodeQuery: up}}").unwrap();
    let error = crate::rules_source::refuse_invalid_rules(&config).unwrap_err();
    assert_eq!(error.to_string(), "resourceRules.memory is missing");
}
