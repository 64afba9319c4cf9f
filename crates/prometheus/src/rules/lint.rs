//! Finds mistakes in rules without a server: each query is rendered for typical requests and
//! parsed.

use std::iter;

use hpa_calc::Selector;
use hpa_metrics::resource::{ApiResources, GroupResource};

use crate::{
    promql::{self, Expr, Node, SyntaxError, Type},
    rules::{
        Compat, Config, RuleSet,
        config::{
            DiscoveryRule, NameMapping, Position, RegexFilter, ResourceMapping, ResourceRules,
        },
        explain::object_warnings,
        labels::MappingError,
        mistake::UNKNOWN_FIELD,
        query::{Objects, QueryError},
        resource_metrics::{
            ResourceMetrics, ResourceRuleError, ResourceRuleProblem, UsageResource,
        },
        rule::{Naming, Rule, RuleError},
    },
};

/// A mistake in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The field, such as `rules[0].metricsQuery`.
    pub path: String,
    pub position: Option<Position>,
    /// Whether the rule may work nevertheless.
    pub is_warning: bool,
    pub message: String,
}

/// The name of the series in rendered queries, if `seriesQuery` has no constant name.
const ANY_SERIES: &str = "series_name";

const RESOURCE_RULES: &str = "resourceRules";
/// Advice for a rule whose series have no namespace.
const NAMESPACED_ADVICE: &str = ", or set `namespaced: false` in an external rule";
const LABEL_TEMPLATE: &str = "<<.Resource>>";
const METRICS_QUERY: &str = "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)";

/// Finds mistakes in rules, in the order of the file, except for those in [`RuleSet::errors`].
pub fn lint(config: &Config, rules: &RuleSet, resources: &ApiResources) -> Vec<Finding> {
    let mut linter = Linter { config, resources, rule: String::new(), findings: Vec::new() };
    let lists = [
        ("rules", &config.rules, &rules.custom),
        ("externalRules", &config.external_rules, &rules.external),
    ];
    for (list, definitions, compiled) in lists {
        for (index, (definition, rule)) in definitions.iter().zip(compiled).enumerate() {
            linter.rule = config.rule_name(list, index);
            let is_external = list == "externalRules";
            match rule {
                Ok(rule) => linter.rule(definition, rule, is_external),
                Err(_) => linter.invalid_rule(definition, is_external),
            }
        }
    }
    match (&rules.resource, &config.resource_rules) {
        (Some(Ok(metrics)), _) => linter.resource_rules(metrics),
        (Some(Err(_)), Some(definition)) => linter.invalid_resource_rules(definition),
        _ => {}
    }
    without_repetition(linter.findings)
}

/// Reports an unknown field of templates once, with the other queries that have it.
fn without_repetition(findings: Vec<Finding>) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::new();
    for finding in findings {
        let message = &finding.message;
        let is_same = |other: &&mut Finding| other.message.starts_with(message);
        match all.iter_mut().find(is_same).filter(|_| message.starts_with(UNKNOWN_FIELD)) {
            Some(first) if first.message.len() == message.len() => {
                first.message = format!("{message}; also in {}", finding.path);
            }
            Some(first) => first.message = format!("{}, {}", first.message, finding.path),
            None => all.push(finding),
        }
    }
    all
}

/// Finds likely mistakes in the queries of `rules`. Renders each rule's query for one kind of
/// objects. `explain` finds the same mistakes in the query of a request.
pub fn advice(config: &Config, rules: &RuleSet, resources: &ApiResources) -> Vec<Finding> {
    let mut linter = Linter { config, resources, rule: String::new(), findings: Vec::new() };
    for (index, (definition, rule)) in config.rules.iter().zip(&rules.custom).enumerate() {
        let Ok(rule) = rule else { continue };
        linter.rule = config.rule_name("rules", index);
        linter.advise(definition, rule);
    }
    linter.findings
}

/// Replaces the invalid field by a valid one.
fn replace(rule: &mut DiscoveryRule, error: &RuleError) {
    match error {
        RuleError::Mapping(error) => replace_mapping(&mut rule.resources, error),
        RuleError::Query { .. } => METRICS_QUERY.clone_into(&mut rule.metrics_query),
        RuleError::Filter { index, .. } => {
            if let Some(filter) = rule.series_filters.get_mut(*index) {
                *filter = RegexFilter { is: ".*".to_owned(), is_not: String::new() };
            }
        }
        RuleError::NameMatches { .. } | RuleError::NameTemplate { .. } => {
            rule.name = NameMapping::default();
        }
    }
}

fn replace_mapping(mapping: &mut ResourceMapping, error: &MappingError) {
    LABEL_TEMPLATE.clone_into(&mut mapping.template);
    if let MappingError::Override { label, .. } = error {
        mapping.overrides.remove(label);
    }
}

/// Like [`replace`], for `resourceRules`.
fn replace_usage(rules: &mut ResourceRules, error: &ResourceRuleError) {
    let rule = match error.resource {
        UsageResource::Cpu => &mut rules.cpu,
        UsageResource::Memory => &mut rules.memory,
    };
    match &error.source {
        ResourceRuleProblem::Mapping(error) => replace_mapping(&mut rule.resources, error),
        ResourceRuleProblem::ContainerQuery { .. } => {
            METRICS_QUERY.clone_into(&mut rule.container_query);
        }
        ResourceRuleProblem::NodeQuery { .. } => METRICS_QUERY.clone_into(&mut rule.node_query),
    }
}

struct Linter<'a> {
    config: &'a Config,
    resources: &'a ApiResources,
    /// The current rule, such as `rules[0]`.
    rule: String,
    findings: Vec<Finding>,
}

impl Linter<'_> {
    fn finding(&mut self, is_warning: bool, field: &str, message: String) {
        let path = format!("{}.{field}", self.rule);
        let position = self.config.positions.get(&path);
        self.findings.push(Finding { path, position, is_warning, message });
    }

    fn error(&mut self, field: &str, message: impl Into<String>) {
        self.finding(false, field, message.into());
    }

    fn warning(&mut self, field: &str, message: impl Into<String>) {
        self.finding(true, field, message.into());
    }

    fn rule(&mut self, definition: &DiscoveryRule, rule: &Rule, is_external: bool) {
        let series = self.series_query(&definition.series_query);
        self.name(definition, rule, series);
        if definition.metrics_query.trim().is_empty() {
            let message = format!("the query is missing: write, for example, '{METRICS_QUERY}'");
            return self.error("metricsQuery", message);
        }
        let name = series.unwrap_or(ANY_SERIES);
        let count = self.findings.len();
        // One request is enough for each mistake.
        for selector in ["", "color=red"] {
            let Ok(selector) = Selector::parse(selector) else { continue };
            let query = if is_external {
                rule.external_query(name, "shop", &selector, self.resources, Compat::Off)
            } else {
                let pods = GroupResource::pods();
                let Some(resource) = resource(rule, self.resources, &pods) else {
                    let message = "no label names an object: add, for example, overrides: {pod: \
                                   {resource: pod}, namespace: {resource: namespace}}, or \
                                   template: <<.Resource>>";
                    return self.error("resources", message);
                };
                let namespace = if resource.has_namespaced_metrics() { "shop" } else { "" };
                let objects = Objects { resource, namespace, names: &["web".to_owned()] };
                rule.custom_query(name, objects, &selector, self.resources, Compat::Off)
            };
            self.query("metricsQuery", query, series);
            if self.findings.len() > count {
                return;
            }
        }
    }

    /// Finds the other mistakes in a rule that doesn't compile. Replaces its invalid fields with
    /// valid ones until it compiles.
    fn invalid_rule(&mut self, definition: &DiscoveryRule, is_external: bool) {
        let mut definition = definition.clone();
        let fields =
            3 + definition.series_filters.len() + definition.resources.overrides.iter().count();
        // The first error is in `RuleSet::errors`.
        for is_first in iter::once(true).chain(iter::repeat_n(false, fields)) {
            match Rule::new(&definition, self.resources) {
                Ok(rule) => return self.rule(&definition, &rule, is_external),
                Err(error) => {
                    if !is_first {
                        self.error(&error.field(), error.describe());
                    }
                    replace(&mut definition, &error);
                }
            }
        }
    }

    /// Like [`Self::invalid_rule`], for `resourceRules`.
    fn invalid_resource_rules(&mut self, definition: &ResourceRules) {
        let mut definition = definition.clone();
        let overrides = [&definition.cpu, &definition.memory]
            .map(|rule| rule.resources.overrides.iter().count());
        let fields = 6 + overrides.into_iter().sum::<usize>();
        for is_first in iter::once(true).chain(iter::repeat_n(false, fields)) {
            match ResourceMetrics::new(&definition, self.resources) {
                Ok(metrics) => return self.resource_rules(&metrics),
                Err(error) => {
                    if !is_first {
                        RESOURCE_RULES.clone_into(&mut self.rule);
                        self.error(&error.field(), error.describe());
                    }
                    replace_usage(&mut definition, &error);
                }
            }
        }
    }

    fn advise(&mut self, definition: &DiscoveryRule, rule: &Rule) {
        let series = match promql::parse(&definition.series_query) {
            Ok(Expr { node: Node::Selector(selector), .. }) => selector.series(),
            _ => None,
        };
        let pods = GroupResource::pods();
        let Some(resource) = resource(rule, self.resources, &pods) else { return };
        let namespace = if resource.has_namespaced_metrics() { "shop" } else { "" };
        let objects = Objects { resource, namespace, names: &["web".to_owned()] };
        let name = series.unwrap_or(ANY_SERIES);
        let selector = Selector::everything();
        let query = rule.custom_query(name, objects, &selector, self.resources, Compat::Off);
        let (Ok(query), Ok(label)) = (query, rule.labels().label(resource, self.resources)) else {
            return;
        };
        if promql::parse(&query).is_err() {
            return;
        }
        let overridden = rule.labels().overridden().into_iter();
        let others: Vec<String> = overridden
            .filter_map(|other| rule.labels().label(other, self.resources).ok())
            .collect();
        for warning in object_warnings(&definition.metrics_query, &query, &label, &others) {
            self.warning("metricsQuery", warning.to_string());
        }
    }

    /// Checks `seriesQuery`, and returns the name of the series if it is a constant.
    fn series_query<'q>(&mut self, query: &'q str) -> Option<&'q str> {
        let field = "seriesQuery";
        if query.trim().is_empty() {
            self.error(field, "the selector is missing: write, for example, 'http_requests_total'");
            return None;
        }
        match promql::parse(query) {
            Err(error) => self.error(field, not_promql(query, &error)),
            Ok(Expr {
                node: Node::Selector(selector), has_offset: false, has_time: false, ..
            }) => {
                return selector.series();
            }
            Ok(_) => self.error(
                field,
                "it must be a selector, such as 'http_requests_total{pod!=\"\"}': write functions, \
                 operators, `offset` and `@` into metricsQuery",
            ),
        }
        None
    }

    fn name(&mut self, definition: &DiscoveryRule, rule: &Rule, series: Option<&str>) {
        let template = &definition.name.as_template;
        let regex = rule.name_rule().regex();
        for reference in regex.unknown_references(template) {
            let suffix = reference.trim_start_matches(|char: char| char.is_ascii_digit());
            let digits = reference.strip_suffix(suffix).unwrap_or_default();
            let advice = if !suffix.is_empty() && !digits.is_empty() {
                format!("write ${{{digits}}}{suffix}")
            } else {
                "put the part of the name in parentheses in name.matches, such as '^(.*)_total$'"
                    .to_owned()
            };
            let message = format!("name.matches has no group `{reference}`: {advice}");
            self.error("name.as", message);
        }
        let is_name = |char: char| char.is_ascii_alphanumeric() || "_:.-${}".contains(char);
        if let Some(char) = template.chars().find(|char| !is_name(*char)) {
            let message = format!("the name of a metric can't have {char:?}");
            self.error("name.as", message);
        } else if template.contains("{$") {
            self.error("name.as", "braces are inside of the reference: write ${1}, not {$1}");
        }
        match series.map(|series| (series, rule.naming(series))) {
            Some((series, Naming::NoMatch)) => {
                let message = format!("it doesn't match {series}, the only series of seriesQuery");
                self.error("name.matches", message);
            }
            Some((series, Naming::Filtered(index))) => {
                let field = format!("seriesFilters[{index}]");
                self.error(&field, format!("it excludes {series}, the only series of seriesQuery"));
            }
            _ => {}
        }
    }

    /// Checks a rendered query.
    fn query(&mut self, field: &str, query: Result<String, QueryError>, series: Option<&str>) {
        let query = match query {
            Ok(query) => query,
            Err(QueryError::Label(error)) => {
                let is_usage = self.rule.starts_with(RESOURCE_RULES);
                let alternative = if is_usage { "" } else { NAMESPACED_ADVICE };
                let message = format!(
                    "{error}: add a label for it to resources.overrides, such as namespace: \
                     {{resource: namespace}}{alternative}"
                );
                return self.error("resources", message);
            }
            Err(error) => {
                let mistake = error.template_mistake();
                let known = mistake.filter(|mistake| mistake.starts_with(UNKNOWN_FIELD));
                return self.error(field, known.unwrap_or_else(|| error.describe()));
            }
        };
        let expr = match promql::parse(&query) {
            Ok(expr) => expr,
            Err(error) => return self.error(field, not_promql(&query, &error)),
        };
        if matches!(expr.result, Type::RangeVector | Type::Text) {
            let message = format!(
                "the result is {}, which has no current value: use a function, such as rate",
                expr.result
            );
            self.error(field, message);
        }
        let read: Vec<&str> =
            expr.selectors().iter().filter_map(promql::Selector::series).collect();
        if let Some(series) = series
            && !read.is_empty()
            && read.len() == expr.selectors().len()
            && !read.contains(&series)
        {
            let read = read.join(", ");
            let message =
                format!("it reads {read}, but seriesQuery selects {series}: use <<.Series>>");
            self.warning(field, message);
        }
        for function in expr.unknown_functions() {
            let message =
                format!("Prometheus has no function {function}; other servers may have it");
            self.warning(field, message);
        }
    }

    fn resource_rules(&mut self, metrics: &ResourceMetrics) {
        let definition = self.config.resource_rules.as_ref();
        let missing = definition.and_then(ResourceRules::missing);
        if let Some(path) = missing {
            let message = "it is missing: metrics.k8s.io has only pods and nodes with both cpu and \
                           memory";
            self.findings.push(Finding {
                path: path.to_owned(),
                position: self.config.positions.get("resourceRules"),
                is_warning: false,
                message: message.to_owned(),
            });
        }
        for (usage, name) in [(UsageResource::Cpu, "cpu"), (UsageResource::Memory, "memory")] {
            self.rule = format!("{RESOURCE_RULES}.{name}");
            if missing == Some(&self.rule) {
                continue;
            }
            let names = &["web".to_owned()];
            let queries = [
                ("containerQuery", &GroupResource::pods(), "shop"),
                ("nodeQuery", &GroupResource::nodes(), ""),
            ];
            for (field, resource, namespace) in queries {
                let objects = Objects { resource, namespace, names };
                let query = metrics.query(usage, objects, self.resources, Compat::Off);
                self.query(field, query, None);
            }
            if metrics.container_label(usage).is_empty() {
                self.error("containerLabel", "it is missing: write, for example, container");
            }
        }
    }
}

/// A resource that the rule has a label for, preferably pods.
fn resource<'r>(
    rule: &'r Rule,
    resources: &ApiResources,
    pods: &'r GroupResource,
) -> Option<&'r GroupResource> {
    let has_pods = rule.labels().label(pods, resources).is_ok();
    if has_pods { Some(pods) } else { rule.labels().overridden().into_iter().next() }
}

/// The message for a query that isn't PromQL, with the position of the mistake.
fn not_promql(query: &str, error: &SyntaxError) -> String {
    let before: String = query.get(..error.at).unwrap_or_default().chars().rev().take(20).collect();
    let before: String = before.chars().rev().collect();
    let after: String = query.get(error.at..).unwrap_or_default().chars().take(20).collect();
    let advice = if before.trim_end().ends_with('{') && after.starts_with(',') {
        ". Without matchers, nothing is in front of the comma: write <<.LabelMatchers>> last, after \
         a comma"
    } else {
        ""
    };
    format!("not PromQL: {error}, at `{before}⟨here⟩{after}`{advice}")
}

#[cfg(test)]
mod tests {
    use hpa_metrics::test_doubles::resources;
    use rstest::rstest;

    use super::*;

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

    /// A rule of pods with these fields.
    fn custom(fields: &str) -> String {
        let labels = "{namespace: {resource: namespace}, pod: {resource: pod}}";
        format!("rules:\n- resources: {{overrides: {labels}}}\n{fields}")
    }

    #[rstest]
    #[case::sum("sum(m) by (<<.GroupBy>>)")]
    #[case::ratio("sum(<<.Series>>{<<.LabelMatchers>>}) / sum(limits) * 100")]
    #[case::condition(
        "sum(rate(<<.Series>>{<<range $k, $v := .LabelValuesByName>><<if ne $k \"namespace\">><<$k>>=~\"<<$v>>\",<<end>><<end>>}[2m])) by (<<.GroupBy>>)"
    )]
    fn good_rules_have_no_findings(#[case] query: &str) {
        let rule = format!("  seriesQuery: m\n  metricsQuery: '{query}'\n");
        assert_eq!(findings(&custom(&rule)), [""; 0]);
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
        "  seriesQuery: m_total\n  name: {matches: ^(.*)_total$, as: $1_rate}\n  metricsQuery: <<.Series>>\n",
        "4 rules[0].name.as: name.matches has no group `1_rate`: write ${1}_rate"
    )]
    #[case::braces(
        "  seriesQuery: m_total\n  name: {matches: ^(.*)_total$, as: '{$1}'}\n  metricsQuery: <<.Series>>\n",
        "4 rules[0].name.as: braces are inside of the reference: write ${1}, not {$1}"
    )]
    #[case::no_query("  seriesQuery: m\n", "2 rules[0].metricsQuery: the query is missing")]
    #[case::other_series(
        "  seriesQuery: m\n  metricsQuery: sum(n{<<.LabelMatchers>>}) by (<<.GroupBy>>)\n",
        "4 rules[0].metricsQuery: warning: it reads n, but seriesQuery selects m"
    )]
    #[case::stray_quote(
        "  seriesQuery: m\n  metricsQuery: sum(m{<<.LabelMatchers>>}) by (<<.GroupBy>>)'\n",
        "4 rules[0].metricsQuery: not PromQL: unterminated string that starts with '"
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
        "4 rules[0].seriesFilters[0]: it excludes m, the only series of seriesQuery"
    )]
    fn mistakes_are_reported_with_line_and_advice(#[case] rule: &str, #[case] expected: &str) {
        let findings = findings(&custom(rule)).join("\n");
        assert!(findings.contains(expected), "{findings}");
    }

    #[test]
    fn other_mistakes_of_an_invalid_rule_are_found() {
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
        let found = findings(rule);
        let fields: Vec<_> = found.iter().filter_map(|it| it.split(": ").next()).collect();
        let expected = [
            "4 rules[0].resources.overrides.a",
            "4 rules[0].resources.overrides.b",
            "3 rules[0].seriesFilters[1]",
            "5 rules[0].name.matches",
            "2 rules[0].seriesQuery",
            "6 rules[0].metricsQuery",
        ];
        assert_eq!(fields, expected, "{found:#?}");
        assert_eq!(findings(&rule.replace("sum(m\n", "'<<'\n")).len(), expected.len(), "template");
    }

    #[test]
    fn other_mistakes_of_invalid_resource_rules_are_found() {
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
";
        let config = Config::parse(rules).unwrap();
        let first = RuleSet::compile(&config, &resources()).first_error().unwrap().path.clone();
        assert_eq!(first, "resourceRules.cpu.resources.overrides.a");
        let found = findings(rules);
        let fields: Vec<_> = found.iter().filter_map(|it| it.split(": ").next()).collect();
        let expected = [
            "5 resourceRules.cpu.resources.overrides.b",
            "3 resourceRules.cpu.containerQuery",
            "7 resourceRules.memory.containerQuery",
            "4 resourceRules.cpu.nodeQuery",
            "3 resourceRules.cpu.containerLabel",
            "9 resourceRules.memory.resources",
            "8 resourceRules.memory.nodeQuery",
        ];
        assert_eq!(fields, expected, "{found:#?}");
        assert!(found[5].ends_with("such as namespace: {resource: namespace}"), "{found:#?}");
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
                        label, at `m{⟨here⟩, queue=\"a\"}`. Without matchers, nothing is in front \
                        of the comma: write <<.LabelMatchers>> last, after a comma";
        assert_eq!(rule(false), [expected]);
        let without_label = rule(true).join("\n");
        assert!(without_label.starts_with("3 externalRules[0].resources: unable to convert"));
        assert!(
            without_label.ends_with("`namespaced: false` in an external rule"),
            "{without_label}"
        );
    }

    #[test]
    fn resource_rules_are_checked() {
        let findings = findings(
            "resourceRules:\n  cpu:\n    containerQuery: sum(c{<<.LabelMatchers>>\n    \
             nodeQuery: n{<<.LabelMatchers>>}\n    containerLabel: container\n    \
             resources: {template: <<.Resource>>}\n",
        );
        assert!(
            findings[1].starts_with("3 resourceRules.cpu.containerQuery: not PromQL: the query")
        );
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
}
