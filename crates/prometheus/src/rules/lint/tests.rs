use hpa_metrics::test_doubles::resources;
use rstest::rstest;

use super::*;

/// The findings of [`lint`], with their lines.
fn findings(rules: &str) -> Vec<String> {
    let config = Config::parse(rules).unwrap();
    let compiled = RuleSet::compile(&config, &resources());
    let findings = lint(&config, &compiled, &resources()).into_iter();
    findings
        .map(|finding| {
            let line = finding.position.map_or(0, |position| position.line);
            let kind = if finding.is_warning { "warning: " } else { "" };
            format!("{line} {}: {kind}{}", finding.path, finding.message)
        })
        .collect()
}

/// A rule for metrics of pods with these fields.
fn pod_rule(fields: &str) -> String {
    let labels = "{namespace: {resource: namespace}, pod: {resource: pod}}";
    format!("rules:\n- resources: {{overrides: {labels}}}\n{fields}")
}

#[rstest]
#[case::sum("sum(m) by (<<.GroupBy>>)")]
#[case::ratio("sum(<<.Series>>{<<.LabelMatchers>>}) / sum(limits) * 100")]
#[case::condition(
    "sum(rate(<<.Series>>{<<range $k, $v := .LabelValuesByName>><<if ne $k \
     \"namespace\">><<$k>>=~\"<<$v>>\",<<end>><<end>>}[2m])) by (<<.GroupBy>>)"
)]
fn good_rules_have_no_findings(#[case] query: &str) {
    let rule = format!("  seriesQuery: m\n  metricsQuery: '{query}'\n");
    assert_eq!(findings(&pod_rule(&rule)), [""; 0]);
}

#[rstest]
#[case::expression(
    "  seriesQuery: sum(a) / sum(b)\n  metricsQuery: <<.Series>>\n",
    "3 rules[0].seriesQuery: it must be a selector"
)]
#[case::offset(
    "  seriesQuery: m offset 5m\n  metricsQuery: <<.Series>>\n",
    "3 rules[0].seriesQuery: it must be a selector"
)]
#[case::no_group(
    "  seriesQuery: m\n  name: {as: '{$1} seconds'}\n  metricsQuery: <<.Series>>\n",
    "4 rules[0].name.as: name.matches has no group `1`: put the part of the name in parentheses"
)]
#[case::long_reference(
    "  seriesQuery: m_total\n  name: {matches: ^(.*)_total$, as: $1_rate}\n  metricsQuery: \
     <<.Series>>\n",
    "4 rules[0].name.as: name.matches has no group `1_rate`: write ${1}_rate"
)]
#[case::braces(
    "  seriesQuery: m_total\n  name: {matches: ^(.*)_total$, as: '{$1}'}\n  metricsQuery: \
     <<.Series>>\n",
    "4 rules[0].name.as: the dollar sign must be before the braces: write ${1}, not {$1}"
)]
#[case::no_query("  seriesQuery: m\n", "2 rules[0].metricsQuery: the query is missing")]
#[case::name_with_a_hyphen(
    "  seriesQuery: event-service_total\n  metricsQuery: m\n",
    "and `@` into metricsQuery. `-` subtracts, so a name can't have it"
)]
#[case::query_with_a_hyphen(
    "  seriesQuery: m\n  metricsQuery: rate(event-service_total{<<.LabelMatchers>>}[2m])\n",
    "4 rules[0].metricsQuery: not PromQL: `-` needs scalars or instant vectors, not a range \
     vector, at `rate(event⟨here⟩-service_total{names`. `-` subtracts, so a name can't have it: \
     use the name that the series has in Prometheus"
)]
#[case::query_of_several_lines(
    "  seriesQuery: m\n  metricsQuery: |\n    sum(\n      rate(m{<<.LabelMatchers>>})\n    )\n",
    "at `sum( ⟨here⟩rate(m{names"
)]
#[case::other_series(
    "  seriesQuery: m\n  metricsQuery: sum(n{<<.LabelMatchers>>}) by (<<.GroupBy>>)\n",
    "4 rules[0].metricsQuery: warning: it reads n, but seriesQuery selects m"
)]
#[case::stray_quote(
    "  seriesQuery: m\n  metricsQuery: sum(m{<<.LabelMatchers>>}) by (<<.GroupBy>>)'\n",
    "4 rules[0].metricsQuery: not PromQL: unterminated string that starts with '"
)]
#[case::other_delimiters(
    "  seriesQuery: m\n  metricsQuery: 'sum({{.Series}}{<<.LabelMatchers>>})'\n",
    "The delimiters of templates are << and >>, as in <<.Series>>"
)]
#[case::range(
    "  seriesQuery: m\n  metricsQuery: m{<<.LabelMatchers>>}[5m]\n",
    "4 rules[0].metricsQuery: the result is a range vector"
)]
#[case::execution(
    "  seriesQuery: m\n  metricsQuery: <<.Serie>>\n",
    "4 rules[0].metricsQuery: queries have no <<.Serie>>: did you mean <<.Series>>?"
)]
#[case::filtered(
    "  seriesQuery: m\n  seriesFilters: [{is: ^n}]\n  metricsQuery: m\n",
    "4 rules[0].seriesFilters[0]: it excludes m, the name in seriesQuery"
)]
fn mistakes_are_reported_with_line_and_advice(#[case] rule: &str, #[case] expected: &str) {
    let findings = findings(&pod_rule(rule)).join("\n");
    assert!(findings.contains(expected), "{findings}");
}

#[test]
fn later_mistakes_of_an_invalid_rule_are_found() {
    let rule = "rules:
- seriesQuery: sum(m)
  seriesFilters: [{is: ^m}, {is: '('}]
  resources: {template: <<.Resourc>>, overrides: {a: {resource: as}, b: {resource: bs}}}
  name: {matches: ^(.*, as: x}
  metricsQuery: sum(m
";
    let config = Config::parse(rule).unwrap();
    let first = RuleSet::compile(&config, &resources()).first_error().unwrap().path.clone();
    assert_eq!(first, "rules[0].resources.template");
    let all_findings = findings(rule);
    let fields: Vec<_> =
        all_findings.iter().filter_map(|finding| finding.split(": ").next()).collect();
    let expected = [
        "4 rules[0].resources.overrides.a",
        "4 rules[0].resources.overrides.b",
        "3 rules[0].seriesFilters[1]",
        "5 rules[0].name.matches",
        "2 rules[0].seriesQuery",
        "6 rules[0].metricsQuery",
    ];
    assert_eq!(fields, expected, "{all_findings:#?}");
    assert_eq!(findings(&rule.replace("sum(m\n", "'<<'\n")).len(), expected.len(), "template");
}

#[test]
fn later_mistakes_of_invalid_resource_rules_are_found() {
    let rules = "resourceRules:
  cpu:
    containerQuery: sum(<<.Foo
    nodeQuery: sum(x{<<.Bar>>
    resources: {overrides: {a: {resource: as}, b: {resource: bs}}}
  memory:
    containerQuery: sum(<<.Foo
    nodeQuery: sum(x{
    resources: {overrides: {namespace: {resource: namespace}, node: {resource: node}}}
    containerLabel: container
  window: 5m
";
    let config = Config::parse(rules).unwrap();
    let first = RuleSet::compile(&config, &resources()).first_error().unwrap().path.clone();
    assert_eq!(first, "resourceRules.cpu.resources.overrides.a");
    let all_findings = findings(rules);
    let fields: Vec<_> =
        all_findings.iter().filter_map(|finding| finding.split(": ").next()).collect();
    let expected = [
        "5 resourceRules.cpu.resources.overrides.b",
        "3 resourceRules.cpu.containerQuery",
        "7 resourceRules.memory.containerQuery",
        "4 resourceRules.cpu.nodeQuery",
        "3 resourceRules.cpu.containerLabel",
        "9 resourceRules.memory.resources",
        "8 resourceRules.memory.nodeQuery",
    ];
    assert_eq!(fields, expected, "{all_findings:#?}");
    assert!(
        all_findings[5].ends_with("such as namespace: {resource: namespace}"),
        "{all_findings:#?}"
    );
}

#[test]
fn external_query_is_checked_without_matchers() {
    let rule = |namespaced: bool| {
        findings(&format!(
            "externalRules:\n- seriesQuery: m\n  resources: {{namespaced: {namespaced}}}\n  \
             metricsQuery: 'm{{<<.LabelMatchers>>, queue=\"a\"}}'\n"
        ))
    };
    let expected = "4 externalRules[0].metricsQuery: not PromQL: `,` instead of the name of a \
                    label, at `m{⟨here⟩, queue=\"a\"}`. Without matchers, there is nothing \
                    before the comma: write <<.LabelMatchers>> last, after a comma";
    assert_eq!(rule(false), [expected]);
    let without_label = rule(true).join("\n");
    assert!(without_label.starts_with("3 externalRules[0].resources: unable to convert"));
    assert!(without_label.ends_with("`namespaced: false` in an external rule"), "{without_label}");
}

#[test]
fn unclosed_parenthesis_in_container_query_is_found() {
    let findings = findings(
        "resourceRules:\n  cpu:\n    containerQuery: sum(c{<<.LabelMatchers>>\n    \
         nodeQuery: n{<<.LabelMatchers>>}\n    containerLabel: container\n    \
         resources: {template: <<.Resource>>}\n",
    );
    assert!(findings[1].starts_with("3 resourceRules.cpu.containerQuery: not PromQL: the query"));
}

#[rstest]
#[case::no_matcher("", true)]
#[case::pod_level_series(",container!=\"POD\"", true)]
#[case::containers(",container!=\"\",container!=\"POD\"", false)]
#[case::images(",image!=\"\"", false)]
fn query_for_containers_that_also_reads_pods_is_a_warning(
    #[case] matchers: &str,
    #[case] is_warned: bool,
) {
    let usage = format!(
        "    containerQuery: sum(container_usage{{<<.LabelMatchers>>{matchers}}}) by \
         (<<.GroupBy>>)\n    \
         nodeQuery: container_usage{{<<.LabelMatchers>>}}\n    containerLabel: container\n    \
         resources: {{template: <<.Resource>>}}\n"
    );
    let rules = format!("resourceRules:\n  cpu:\n{usage}  memory:\n{usage}");
    let missing = "2 resourceRules.window: warning: it is missing: write the range of cpu's \
                   queries, such as 5m";
    assert_eq!(findings(&rules).last().map(String::as_str), Some(missing));
    let findings = findings(&format!("{rules}  window: 5m\n"));
    let warning = |line: u8, name: &str| {
        format!(
            "{line} resourceRules.{name}.containerQuery: warning: without the matcher \
             container!=\"\", cAdvisor's series of whole pods count again in the sum over \
             containers: add container!=\"\",container!=\"POD\""
        )
    };
    let all = vec![warning(3, "cpu"), warning(8, "memory")];
    assert_eq!(findings, if is_warned { all } else { Vec::new() });
}

#[test]
fn usage_without_a_rate_is_a_warning() {
    let usage = |container_query: &str| {
        format!(
            "    containerQuery: {container_query}\n    \
             nodeQuery: node_cpu_seconds_total{{<<.LabelMatchers>>}}\n    \
             containerLabel: container\n    resources: {{template: <<.Resource>>}}\n"
        )
    };
    let counter = "container_cpu_usage_seconds_total{<<.LabelMatchers>>,container!=\"\"}";
    let (cpu, memory) = (usage(counter), usage(&format!("rate({counter}[5m])")));
    let rules = format!("resourceRules:\n  cpu:\n{cpu}  memory:\n{memory}  window: 5m\n");
    let findings = findings(&rules);
    let starts = [
        "3 resourceRules.cpu.containerQuery: warning: container_cpu_usage_seconds_total looks like",
        "4 resourceRules.cpu.nodeQuery: warning: node_cpu_seconds_total looks like a counter",
        "9 resourceRules.memory.nodeQuery: warning: node_cpu_seconds_total looks like a counter",
    ];
    assert_eq!(findings.len(), starts.len(), "{findings:#?}");
    for (finding, start) in findings.iter().zip(starts) {
        assert!(finding.starts_with(start), "{findings:#?}");
    }
}

#[rstest]
#[case::raw("jobs_total", "sum(<<.Series>>{<<.LabelMatchers>>})", true)]
#[case::by_name("jobs_total", "sum(jobs_total{<<.LabelMatchers>>})", true)]
#[case::rate("jobs_total", "sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m]))", false)]
#[case::gauge("jobs", "sum(<<.Series>>{<<.LabelMatchers>>})", false)]
fn counter_without_rate_is_a_warning(
    #[case] series: &str,
    #[case] query: &str,
    #[case] is_warned: bool,
) {
    let rule = format!(
        "- seriesQuery: '{series}{{pod!=\"\"}}'\n  resources: {{template: <<.Resource>>}}\n  \
         metricsQuery: '{query} by (<<.GroupBy>>)'\n"
    );
    let external = rule.replace(" by (<<.GroupBy>>)", "");
    let config = Config::parse(&format!("rules:\n{rule}externalRules:\n{external}")).unwrap();
    let compiled = RuleSet::compile(&config, &resources());
    let findings = query_warnings(&config, &compiled, &resources());
    let paths: Vec<&str> = findings.iter().map(|finding| finding.path.as_str()).collect();
    let both = ["rules[0].metricsQuery", "externalRules[0].metricsQuery"];
    assert_eq!(paths, if is_warned { both.to_vec() } else { Vec::new() });
    assert!(findings.iter().all(|finding| finding.message.contains("looks like a counter")));
}

#[rstest]
#[case::merged("by (<<.GroupBy>>)", true)]
#[case::with_le("by (<<.GroupBy>>, le)", false)]
fn quantile_without_le_is_a_warning(#[case] grouping: &str, #[case] is_warned: bool) {
    let rules = format!(
        "rules:\n- seriesQuery: 'latency_bucket{{pod!=\"\"}}'\n  resources: {{template: \
         <<.Resource>>}}\n  metricsQuery: 'histogram_quantile(0.9, \
         sum(rate(<<.Series>>{{<<.LabelMatchers>>}}[2m])) {grouping})'\n"
    );
    let config = Config::parse(&rules).unwrap();
    let compiled = RuleSet::compile(&config, &resources());
    let findings = query_warnings(&config, &compiled, &resources());
    let start = "histogram_quantile has no result, because `sum` drops the label `le`";
    let is_expected =
        |one: &Finding| one.path == "rules[0].metricsQuery" && one.message.starts_with(start);
    assert_eq!(findings.len(), usize::from(is_warned), "{findings:?}");
    assert!(findings.iter().all(is_expected), "{findings:?}");
}

#[test]
fn unknown_template_field_is_reported_once() {
    let rule = "- seriesQuery: m\n  resources: {template: <<.Resource>>}\n  metricsQuery: \
                'm{<<.LabelMatcher>>}'\n";
    let findings = findings(&format!("rules:\n{rule}{rule}externalRules:\n{rule}"));
    assert_eq!(
        findings,
        ["4 rules[0].metricsQuery: queries have no <<.LabelMatcher>>: did you mean \
          <<.LabelMatchers>>?; also in rules[1].metricsQuery, externalRules[0].metricsQuery"]
    );
}

#[test]
fn missing_resource_rule_is_one_finding() {
    let cpu = "resourceRules:\n  cpu:\n    containerQuery: c{<<.LabelMatchers>>}\n    \
               nodeQuery: n{<<.LabelMatchers>>}\n    containerLabel: container\n    \
               resources: {template: <<.Resource>>}\n";
    let findings = findings(cpu);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert!(findings[0].starts_with("2 resourceRules.memory: it is missing"), "{findings:?}");
}
