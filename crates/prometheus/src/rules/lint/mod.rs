//! Finds mistakes in rules without a server: each query is rendered for typical requests and
//! parsed.

mod invalid_rules;
mod resource_rules;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use hpa_calc::Selector;
use hpa_metrics::resource::{ApiResources, GroupResource};

use crate::{
    promql::{self, Expr, Node, SyntaxError},
    rules::{
        Compat, Config, RuleSet,
        config::{DiscoveryRule, Finding},
        explain::{expression_warnings, object_warnings},
        labels::AmbiguousLabel,
        mistake::UNKNOWN_FIELD,
        query::{QueriedObjects, QueryError, with_single_spaces},
        rule::{Naming, Rule},
        ruleset::InvalidRule,
    },
};

/// Stands for the name of the series in rendered queries, if `seriesQuery` has no constant name.
const ANY_SERIES: &str = "series_name";

const RESOURCE_RULES: &str = "resourceRules";
/// Advice for a rule whose series have no namespace.
const NAMESPACED_ADVICE: &str = ", or set `namespaced: false` in an external rule";
/// A valid `metricsQuery`, for advice and in place of an invalid one.
const METRICS_QUERY: &str = "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)";

/// Finds mistakes in `rules`, then in `externalRules` and `resourceRules`, except for those in
/// [`RuleSet::errors`] and [`server_mistakes`](crate::source::server_mistakes).
pub fn lint(config: &Config, rules: &RuleSet, resources: &ApiResources) -> Vec<Finding> {
    merge_unknown_fields(lint_each(config, rules, resources))
}

/// Like [`lint`], before [`merge_unknown_fields`]: with one finding for each path.
pub fn lint_each(config: &Config, rules: &RuleSet, resources: &ApiResources) -> Vec<Finding> {
    let mut linter = Linter { config, resources, rule_path: String::new(), findings: Vec::new() };
    linter.for_each_rule(rules, |linter, definition, rule, is_external| match rule {
        Ok(rule) => linter.check_rule(definition, rule, is_external),
        Err(_) => linter.check_invalid_rule(definition, is_external),
    });
    match (&rules.resource, &config.resource_rules) {
        (Some(Ok(metrics)), _) => linter.check_resource_rules(metrics),
        (Some(Err(_)), Some(definition)) => linter.check_invalid_resource_rules(definition),
        (Some(Err(_)), None) | (None, _) => {}
    }
    linter.findings
}

/// Merges findings about the same unknown field of templates: the first one lists the other paths.
pub fn merge_unknown_fields(findings: Vec<Finding>) -> Vec<Finding> {
    let mut merged: Vec<(Finding, Vec<String>)> = Vec::new();
    for finding in findings {
        let is_same = |(first, _): &&mut (Finding, Vec<String>)| first.message == finding.message;
        let is_unknown_field = finding.message.starts_with(UNKNOWN_FIELD);
        match merged.iter_mut().find(is_same).filter(|_| is_unknown_field) {
            Some((_, other_paths)) => other_paths.push(finding.path),
            None => merged.push((finding, Vec::new())),
        }
    }
    let with_paths = |(mut finding, other_paths): (Finding, Vec<String>)| {
        if !other_paths.is_empty() {
            finding.message = format!("{}; also in {}", finding.message, other_paths.join(", "));
        }
        finding
    };
    merged.into_iter().map(with_paths).collect()
}

/// Finds likely mistakes in the queries of `rules`, each rendered for one kind of objects, and of
/// `externalRules`. These are warnings that `explain` also has for the query of a request. Also
/// finds labels that queries don't use.
pub fn query_warnings(config: &Config, rules: &RuleSet, resources: &ApiResources) -> Vec<Finding> {
    let mut linter = Linter { config, resources, rule_path: String::new(), findings: Vec::new() };
    linter.for_each_rule(rules, |linter, definition, rule, is_external| {
        let Ok(rule) = rule else { return };
        linter.check_expression(definition, rule);
        if !is_external {
            linter.check_selection_and_grouping(definition, rule);
        }
        linter.check_labels(rule);
    });
    linter.findings
}

struct Linter<'a> {
    config: &'a Config,
    resources: &'a ApiResources,
    /// The path of the current rule, such as `rules[0]`.
    rule_path: String,
    findings: Vec<Finding>,
}

impl Linter<'_> {
    /// Calls `check` for each rule of `rules` and `externalRules`, with its definition and whether
    /// it is external. `rule_path` is then the path of the rule.
    fn for_each_rule(
        &mut self,
        rules: &RuleSet,
        check: impl Fn(&mut Self, &DiscoveryRule, &Result<Arc<Rule>, InvalidRule>, bool),
    ) {
        let config = self.config;
        let lists = [
            ("rules", &config.rules, &rules.custom),
            ("externalRules", &config.external_rules, &rules.external),
        ];
        for (list, definitions, compiled) in lists {
            for (index, (definition, rule)) in definitions.iter().zip(compiled).enumerate() {
                self.rule_path = config.rule_name(list, index);
                check(self, definition, rule, list == "externalRules");
            }
        }
    }

    fn add_finding(&mut self, is_warning: bool, field: &str, message: String) {
        let path = format!("{}.{field}", self.rule_path);
        let position = self.config.positions.get(&path);
        self.findings.push(Finding { path, position, is_warning, message });
    }

    fn add_error(&mut self, field: &str, message: impl Into<String>) {
        self.add_finding(false, field, message.into());
    }

    fn add_warning(&mut self, field: &str, message: impl Into<String>) {
        self.add_finding(true, field, message.into());
    }

    fn check_rule(&mut self, definition: &DiscoveryRule, rule: &Rule, is_external: bool) {
        let series = self.check_series_query(&definition.series_query);
        self.check_name(definition, rule, series);
        if definition.metrics_query.trim().is_empty() {
            let message = format!("the query is missing: write, for example, '{METRICS_QUERY}'");
            return self.add_error("metricsQuery", message);
        }
        let count_before = self.findings.len();
        // The second request is rendered only if the first one has no findings.
        for selector in ["", "color=red"] {
            let Ok(selector) = Selector::parse(selector) else { continue };
            let query = if is_external {
                let name = series.unwrap_or(ANY_SERIES);
                rule.external_query(name, "shop", &selector, self.resources, Compat::Off)
            } else {
                let Some((_, query)) = self.query_for_object(rule, series, &selector) else {
                    let message = "no label names an object: add, for example, overrides: {pod: \
                                   {resource: pod}, namespace: {resource: namespace}}, or \
                                   template: <<.Resource>>";
                    return self.add_error("resources", message);
                };
                query
            };
            self.check_query("metricsQuery", query, series);
            if self.findings.len() > count_before {
                return;
            }
        }
    }

    /// Warns if the query reads a counter without its rate, or computes a quantile without `le`.
    fn check_expression(&mut self, definition: &DiscoveryRule, rule: &Rule) {
        let Some(series) = rule.series_name() else { return };
        for warning in expression_warnings(series, &definition.metrics_query) {
            self.add_warning("metricsQuery", warning.to_string());
        }
    }

    /// Warns of labels that queries don't use, because another one is for the same resource.
    fn check_labels(&mut self, rule: &Rule) {
        for AmbiguousLabel { resource, used, unused } in rule.labels.ambiguous() {
            let message = format!("{resource} has two labels: queries use {used}, not {unused}");
            self.add_warning("resources", message);
        }
    }

    /// Warns if the query doesn't select objects, or aggregates them without grouping by the label
    /// of their names. Skips queries that can't be rendered or parsed.
    fn check_selection_and_grouping(&mut self, definition: &DiscoveryRule, rule: &Rule) {
        let query = self.query_for_object(rule, rule.series_name(), &Selector::everything());
        let Some((resource, Ok(query))) = query else { return };
        let Ok(label) = rule.labels.label(&resource, self.resources) else { return };
        if promql::parse(&query).is_err() {
            return;
        }
        let overridden = rule.labels.overridden().into_iter();
        let others: Vec<String> =
            overridden.filter_map(|other| rule.labels.label(other, self.resources).ok()).collect();
        for warning in object_warnings(&definition.metrics_query, &query, &label, &others) {
            self.add_warning("metricsQuery", warning.to_string());
        }
    }

    /// A resource that the rule has a label for, preferably pods, and the query for one of its
    /// objects.
    fn query_for_object(
        &self,
        rule: &Rule,
        series: Option<&str>,
        selector: &Selector,
    ) -> Option<(GroupResource, Result<String, QueryError>)> {
        let (labels, pods) = (&rule.labels, GroupResource::pods());
        let has_pods = labels.label(&pods, self.resources).is_ok();
        let resource = if has_pods { pods } else { (*labels.overridden().first()?).clone() };
        let namespace = if resource.has_namespaced_metrics() { "shop" } else { "" };
        let objects = QueriedObjects { resource: &resource, namespace, names: &["web".to_owned()] };
        let series = series.unwrap_or(ANY_SERIES);
        let query = rule.custom_query(series, objects, selector, self.resources, Compat::Off);
        let query = query.render();
        Some((resource, query))
    }

    /// Checks `seriesQuery`, and returns the name of the series if it is a constant.
    fn check_series_query<'q>(&mut self, query: &'q str) -> Option<&'q str> {
        let field = "seriesQuery";
        if query.trim().is_empty() {
            self.add_error(
                field,
                "the selector is missing: write, for example, 'http_requests_total'",
            );
            return None;
        }
        match promql::parse(query) {
            Err(error) => self.add_error(field, syntax_message(query, &error)),
            Ok(Expr {
                node: Node::Selector(selector),
                has_offset: false,
                has_at_modifier: false,
                ..
            }) => {
                return selector.metric_name();
            }
            Ok(expr) => {
                let advice = hyphen_advice(query, expr.at);
                let message = format!(
                    "it must be a selector, such as 'http_requests_total{{pod!=\"\"}}': write \
                     functions, operators, `offset` and `@` into metricsQuery{advice}"
                );
                self.add_error(field, message);
            }
        }
        None
    }

    fn check_name(&mut self, definition: &DiscoveryRule, rule: &Rule, series: Option<&str>) {
        let template = &definition.name.as_template;
        let regex = &rule.name.regex;
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
            self.add_error("name.as", message);
        }
        let is_name = |char: char| char.is_ascii_alphanumeric() || "_:.-${}".contains(char);
        if let Some(char) = template.chars().find(|char| !is_name(*char)) {
            let message = format!("the name of a metric can't have {char:?}");
            self.add_error("name.as", message);
        } else if template.contains("{$") {
            self.add_error(
                "name.as",
                "the dollar sign must be before the braces: write ${1}, not {$1}",
            );
        }
        match series.map(|series| (series, rule.naming(series))) {
            Some((series, Naming::NoMatch)) => {
                let message = format!("it doesn't match {series}, the name in seriesQuery");
                self.add_error("name.matches", message);
            }
            Some((series, Naming::Filtered(index))) => {
                let field = format!("seriesFilters[{index}]");
                self.add_error(&field, format!("it excludes {series}, the name in seriesQuery"));
            }
            Some((_, Naming::Metric(_))) | None => {}
        }
    }

    /// Warns if all selectors have constant names, and none of them is the name in `seriesQuery`.
    fn check_series_read(&mut self, field: &str, expr: &Expr<'_>, series: Option<&str>) {
        let Some(series) = series else { return };
        let selectors = expr.selectors();
        let names: Vec<&str> = selectors.iter().filter_map(promql::Selector::metric_name).collect();
        let is_constant = !names.is_empty() && names.len() == selectors.len();
        if is_constant && !names.contains(&series) {
            let read = names.join(", ");
            let message =
                format!("it reads {read}, but seriesQuery selects {series}: use <<.Series>>");
            self.add_warning(field, message);
        }
    }

    /// Checks a rendered query, or reports that it can't be rendered.
    fn check_query(
        &mut self,
        field: &str,
        query: Result<String, QueryError>,
        series: Option<&str>,
    ) {
        let query = match query {
            Ok(query) => query,
            Err(QueryError::Label(error)) => {
                let is_usage = self.rule_path.starts_with(RESOURCE_RULES);
                let alternative = if is_usage { "" } else { NAMESPACED_ADVICE };
                let message = format!(
                    "{error}: add a label for it to resources.overrides, such as namespace: \
                     {{resource: namespace}}{alternative}"
                );
                return self.add_error("resources", message);
            }
            Err(error) => {
                let mistake = error.template_mistake();
                let known = mistake.filter(|mistake| mistake.starts_with(UNKNOWN_FIELD));
                return self.add_error(field, known.unwrap_or_else(|| error.describe()));
            }
        };
        let expr = match promql::parse(&query) {
            Ok(expr) => expr,
            Err(error) => return self.add_error(field, syntax_message(&query, &error)),
        };
        if let Some(problem) = expr.value_problem() {
            self.add_error(field, problem);
        }
        self.check_series_read(field, &expr, series);
        for function in expr.unknown_functions() {
            let message =
                format!("Prometheus has no function {function}; other servers may have it");
            self.add_warning(field, message);
        }
    }
}

/// The message for a query that isn't PromQL, with an excerpt around the mistake.
fn syntax_message(query: &str, error: &SyntaxError) -> String {
    let before: String = query.get(..error.at).unwrap_or_default().chars().rev().take(20).collect();
    let before: String = before.chars().rev().collect();
    let after: String = query.get(error.at..).unwrap_or_default().chars().take(20).collect();
    let advice = if before.trim_end().ends_with('{') && after.starts_with(',') {
        ". Without matchers, there is nothing before the comma: write <<.LabelMatchers>> last, \
         after a comma"
    } else if query.contains("{{.") {
        ". The delimiters of templates are << and >>, as in <<.Series>>"
    } else {
        hyphen_advice(query, error.at)
    };
    let excerpt = with_single_spaces(&format!("{before}⟨here⟩{after}"));
    format!("not PromQL: {error}, at `{excerpt}`{advice}")
}

/// Advice for a `-` at a byte offset that is in a name, where PromQL subtracts.
fn hyphen_advice(query: &str, at: usize) -> &'static str {
    let is_in_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let (before, after) = query.split_at_checked(at).unwrap_or_default();
    let rest = after.strip_prefix('-').unwrap_or_default();
    if before.ends_with(is_in_name) && rest.starts_with(is_in_name) {
        ". `-` subtracts, so a name can't have it: use the name that the series has in Prometheus"
    } else {
        ""
    }
}
