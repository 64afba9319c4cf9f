//! `hpa rules check`.

use std::{collections::BTreeMap, fmt::Write, mem};

use anyhow::Context;
use hpa_calc::{Quantity, Selector, explain::counted};
use hpa_metrics::{
    CustomQuery, ExternalQuery, MetricError, MetricSource, ObjectKey, Objects, describe,
    resource::{ApiResources, GroupResource},
    values::NoValue,
    wire::ItemLabels,
    with_causes,
};
use hpa_prometheus::promql::{self, Node};
use hpa_prometheus::rules::{
    Config, ConfigError, RuleSet,
    config::{Issues, ManifestRules},
    explain::RuleOutcome,
    lint::{Finding, advice, lint},
    ruleset::InvalidRule,
};
use hpa_prometheus::source::{InspectedMetric, PrometheusProvider, RuleInspection};

use super::{
    api, mapper, provider,
    resource::{self, ClusterObjects},
    sample::{self, Server},
};
use crate::{
    args::{CheckArguments, ResourceArguments},
    rules_provider::{file_name, read_configs},
};

/// The report lists at most this many metrics of a rule.
const MAX_METRICS: usize = 10;

/// Checks the rules of a file. Returns the report, and whether all rules work.
pub(super) async fn check(arguments: &CheckArguments) -> anyhow::Result<(String, bool)> {
    let all = read_configs(&arguments.file)?;
    let count = all.len();
    let (mut sections, mut bad) = (String::new(), Vec::new());
    for ManifestRules { place, config } in all {
        let config = config.with_context(|| file_name(&arguments.file));
        let (text, is_good) = match config {
            Ok(config) => check_config(arguments, &config).await?,
            Err(error) => {
                let error = with_other_mistakes(error, &arguments.resources).await;
                if count == 1 {
                    return Err(error);
                }
                (format!("{error:#}\n"), false)
            }
        };
        if count == 1 {
            return Ok((text, is_good));
        }
        // Writing to a string can't fail.
        let _ = write!(sections, "\n{place}\n{text}");
        bad.extend((!is_good).then_some(place));
    }
    let result = match bad.as_slice() {
        [] => "all are good".to_owned(),
        bad => format!("{} with problems: {}", bad.len(), bad.join("; ")),
    };
    Ok((format!("rules in {count} places: {result}\n{sections}"), bad.is_empty()))
}

/// Checks the rules of a file, or of a part of it.
async fn check_config(
    arguments: &CheckArguments,
    config: &Config,
) -> anyhow::Result<(String, bool)> {
    let CheckArguments { prometheus, connect, resources, .. } = arguments;
    let Some(provider) = provider(config, prometheus, *connect, resources).await? else {
        let resources = mapper(&arguments.resources).await?.load().await?;
        return Ok(check_syntax(config, &resources));
    };
    let objects = match api(resources).await? {
        Some(api) if config.resource_rules.is_some() => ClusterObjects::list(api).await?,
        _ => ClusterObjects::default(),
    };
    let discovery = provider.relist().await;
    if let Err(error @ hpa_prometheus::source::RelistError::Mapper(_)) = &discovery {
        anyhow::bail!("{}", with_causes(error));
    }
    let compiled = RuleSet::compile(config, &provider.resources());
    let refused = compiled.errors().map(|error| (error.rule.clone(), error.describe())).collect();
    let mut report = Report { provider: &provider, refused, text: String::new(), problems: 0 };
    let mut parts = Vec::new();
    for finding in lint(config, &compiled, &provider.resources()) {
        report.problems += usize::from(!finding.is_warning);
        parts.push((finding.position, display(&finding) + "\n"));
    }
    for rules in [provider.inspect_custom(), provider.inspect_external()] {
        for (index, rule) in rules.iter().enumerate() {
            report.rule(&rules, index).await;
            parts.push((rule.position, mem::take(&mut report.text)));
        }
    }
    report.resource_rules(config, &objects).await;
    let Report { text, problems, .. } = report;
    parts.push((config.positions.get("resourceRules"), text));
    parts.sort_by_key(|(position, _)| *position);
    let verdict =
        if problems == 0 { "no problems".to_owned() } else { counted(problems, "problem") };
    let file = file_name(&arguments.file);
    let parts: String = parts.into_iter().map(|(_, text)| text).collect();
    Ok((format!("{file}: {verdict}\n{parts}"), problems == 0))
}

/// Adds the mistakes in the other fields of the file to an error about undecodable fields.
async fn with_other_mistakes(error: anyhow::Error, arguments: &ResourceArguments) -> anyhow::Error {
    let Some(ConfigError::Fields(Issues { issues, rest })) = error.downcast_ref() else {
        return error;
    };
    let Ok(mapper) = mapper(arguments).await else { return error };
    let Ok(resources) = mapper.load().await else { return error };
    let rules = RuleSet::compile(rest, &resources);
    // A misspelled field can make another one missing or incomplete, which is no separate mistake.
    let is_independent = |path: &str| {
        rest.positions.0.contains_key(path)
            && !issues.iter().any(|issue| issue.path.starts_with(path))
    };
    let rejected = rules.errors().filter(|error| is_independent(&error.path));
    let findings = lint(rest, &rules, &resources).into_iter();
    let lines: Vec<String> = std::iter::once(format!("{error:#}"))
        .chain(rejected.map(InvalidRule::describe))
        .chain(findings.filter(|finding| is_independent(&finding.path)).map(|one| display(&one)))
        .collect();
    anyhow::Error::msg(lines.join("\n"))
}

/// Checks rules without a server.
fn check_syntax(config: &Config, resources: &ApiResources) -> (String, bool) {
    let rules = RuleSet::compile(config, resources);
    let findings = lint(config, &rules, resources);
    let refused = rules.errors().map(|error| (error.position, error.describe()));
    let advice = advice(config, &rules, resources);
    let others = findings.iter().chain(&advice).map(|one| (one.position, display(one)));
    let mut lines: Vec<_> = refused.chain(others).collect();
    lines.sort_by_key(|(position, _)| *position);
    let mut lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    let labels = rules.custom.iter().chain(&rules.external).flatten();
    lines.extend(labels.flat_map(|rule| rule.labels().ambiguous().to_vec()).map(|ambiguous| {
        let (resource, used) = (&ambiguous.resource, &ambiguous.used);
        let unused = &ambiguous.unused;
        format!("warning: {resource} has two labels: queries use {used}, not {unused}")
    }));
    let is_valid =
        rules.first_error().is_none() && findings.iter().all(|finding| finding.is_warning);
    if is_valid {
        lines.push(format!("valid: {}", parts(config)));
        let is_named = !config.servers.is_empty();
        let connect = if is_named { ", or --connect for the file's servers" } else { "" };
        lines.push(format!("To check against series, add --prometheus-url{connect}"));
    }
    (lines.into_iter().map(|line| line + "\n").collect(), is_valid)
}

/// The parts of a file, such as "1 rule, 2 external rules, resourceRules".
fn parts(config: &Config) -> String {
    let count = |count: usize, name: &str| (count > 0).then(|| counted(count, name));
    let parts = [
        count(config.default_rules, "default rule"),
        count(config.rules.len().saturating_sub(config.default_rules), "rule"),
        count(config.external_rules.len(), "external rule"),
        config.resource_rules.as_ref().map(|_| "resourceRules".to_owned()),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "no rules".to_owned() } else { parts.join(", ") }
}

fn display(finding: &Finding) -> String {
    let position = finding.position.map(|position| format!("{position}: ")).unwrap_or_default();
    let warning = if finding.is_warning { "warning: " } else { "" };
    format!("{position}{}: {warning}{}", finding.path, finding.message)
}

struct Report<'p> {
    provider: &'p PrometheusProvider,
    /// The mistakes of rules that are refused.
    refused: BTreeMap<String, String>,
    text: String,
    problems: usize,
}

impl Report<'_> {
    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn warning(&mut self, text: &str) {
        self.line(&format!("  warning: {text}"));
    }

    fn problem(&mut self, text: &str) {
        self.problems += 1;
        self.line(&format!("  problem: {text}"));
    }

    /// Reports that a rule has no series. Without a fixed name of series, this is only a warning.
    fn unused_rule(&mut self, series_query: &str, text: &str) {
        if names_a_series(series_query) { self.problem(text) } else { self.warning(text) }
    }

    async fn rule(&mut self, rules: &[RuleInspection], index: usize) {
        let Some(rule) = rules.get(index) else { return };
        let status = &rule.status;
        let position = rule.position.map(|at| format!(" ({at})")).unwrap_or_default();
        self.line(&format!("{}{position}: {}", status.rule, rule.definition.series_query));
        if let Some(error) = self.refused.get(&status.rule).or(status.error.as_ref()) {
            return self.problem(&error.clone());
        }
        self.line(&format!("  series: {}, metrics: {}", status.series, status.metrics));
        if status.series == 0 {
            let query = &rule.definition.series_query;
            let age =
                Server { provider: self.provider, name: &rule.definition.server }.age(query).await;
            let text = match age {
                Some(age) => format!(
                    "{age}; none is within the maximum age: check the scrape targets, or raise \
                     --metrics-max-age"
                ),
                None => "Prometheus has no such series: check names and labels in seriesQuery"
                    .to_owned(),
            };
            return self.unused_rule(query, &text);
        }
        if rule.metrics.is_empty() {
            let query = &rule.definition.series_query;
            return if status.metrics == 0 {
                self.unused_rule(query, "no series passes seriesFilters and name.matches");
            } else {
                self.problem(
                    "no label of the series is an object: check resources.overrides and \
                     resources.template",
                );
            };
        }
        let (named, nameless): (Vec<_>, Vec<_>) =
            rule.metrics.iter().partition(|metric| !metric.metric.is_empty());
        if let Some(metric) = nameless.first() {
            self.problem(&format!(
                "the name of the metric of {} is empty: check name.matches and name.as",
                metric.series
            ));
        }
        for metric in named.iter().take(MAX_METRICS) {
            let shadow = metric.shadowed_by.and_then(|by| rules.get(by));
            let note = shadow.map(|by| format!(" (not used: {} also has it)", by.status.rule));
            let name = display_name(metric);
            self.line(&format!("  {name} <- {}{}", metric.series, note.unwrap_or_default()));
        }
        if named.len() > MAX_METRICS {
            self.line(&format!("  and {} more", named.len() - MAX_METRICS));
        }
        if named.is_empty() {
            return;
        }
        // Prefer metrics of pods. Use metrics of namespaces last.
        let used = || named.iter().copied().filter(|metric| metric.shadowed_by.is_none());
        let (pods, namespaces) = (GroupResource::pods(), GroupResource::namespaces());
        let rank = |metric: &&InspectedMetric| match &metric.resource {
            Some(resource) if *resource == pods => 0,
            Some(resource) if *resource == namespaces => 2,
            _ => 1,
        };
        match used().min_by_key(rank) {
            Some(metric) => self.sample(index, rule, metric).await,
            None => self.warning("all metrics come from later rules"),
        }
    }

    /// Reads one metric of one object that exists.
    async fn sample(&mut self, index: usize, rule: &RuleInspection, metric: &InspectedMetric) {
        let provider = self.provider;
        let server = Server { provider, name: &rule.definition.server };
        let query = &rule.definition.series_query;
        let all = sample::selector(query, &metric.series, &[]);
        let Some(resource) = &metric.resource else {
            let label = namespace_label(rule);
            let found = server.newest(&sample::selector(query, &metric.series, &[&label])).await;
            let namespace = found.and_then(|mut labels| labels.remove(&label));
            let namespace = namespace.unwrap_or_else(|| "default".to_owned());
            return self.external_sample(rule, metric, &namespace).await;
        };
        let label = provider.object_label(index, resource).unwrap_or_default();
        let namespace_label = provider.object_label(index, &GroupResource::namespaces());
        let is_namespaced = resource.has_namespaced_metrics();
        let mut required = vec![label.as_str()];
        required.extend(namespace_label.as_deref().filter(|_| is_namespaced));
        let selector = sample::selector(query, &metric.series, &required);
        let Some(labels) = server.newest(&selector).await else {
            let text =
                match server.newest(&sample::selector(query, &metric.series, &[&label])).await {
                    Some(_) => format!(
                        "{} has no label for the namespace of {resource}, with which the API reads \
                     them: add one by relabeling, or use externalRules with `namespaced: false`",
                        metric.series
                    ),
                    None => match server.age(&all).await {
                        Some(age) => format!("{} has no sample now. {age}", metric.series),
                        None => format!("{} has no sample with the label {label}", metric.series),
                    },
                };
            return self.warning(&text);
        };
        let value = |label: Option<&str>| {
            label.and_then(|label| labels.get(label)).cloned().unwrap_or_default()
        };
        let name = value(Some(&label));
        let namespace = value(namespace_label.as_deref().filter(|_| is_namespaced));
        if is_namespaced && namespace.is_empty() {
            return self.warning(&format!(
                "{} has no label for the namespace of {resource}, with which the API reads them: \
                 add one to resources.overrides, or use externalRules with `namespaced: false`",
                metric.series
            ));
        }
        let request = CustomQuery {
            resource: resource.clone(),
            namespace,
            objects: Objects::Named(name.clone()),
            metric: metric.metric.clone(),
            metric_selector: Selector::everything(),
        };
        let object = ObjectKey::new(&request.namespace, &name);
        match provider.read_custom(request.clone()).await {
            Ok(values) => {
                self.line(&format!("  query: {}", values.origin.query));
                for item in &values.items {
                    self.line(&format!("  {object} = {}", Quantity::from(item.value)));
                }
            }
            Err(error) => self.failure(&object.to_string(), &error),
        }
        let explanation = provider.explain_custom(&request, &[name]);
        self.warnings(server, explanation.applied().map(|rule| &rule.outcome)).await;
    }

    /// Reports a failed sample query. NaN is only a warning: an idle histogram has no value.
    fn failure(&mut self, object: &str, error: &MetricError) {
        let text = format!("{object}: {}", describe(error));
        let is_nan = text.contains(&NoValue::NotANumber.to_string());
        if is_nan { self.warning(&text) } else { self.problem(&text) }
    }

    async fn external_sample(
        &mut self,
        rule: &RuleInspection,
        metric: &InspectedMetric,
        namespace: &str,
    ) {
        let request = ExternalQuery {
            namespace: namespace.to_owned(),
            metric: metric.metric.clone(),
            metric_selector: Selector::everything(),
        };
        match self.provider.read_external(request.clone()).await {
            Ok(values) => {
                self.line(&format!("  query: {}", values.origin.query));
                if values.items.is_empty() {
                    self.warning(&format!("no result in the namespace {namespace}"));
                }
                for item in values.items.iter().take(MAX_METRICS) {
                    let labels: BTreeMap<_, _> =
                        item.labels.iter().flat_map(ItemLabels::pairs).collect();
                    self.line(&format!("  {labels:?} = {}", Quantity::from(item.value)));
                }
            }
            Err(error) => self.failure(&request.metric, &error),
        }
        let explanation = self.provider.explain_external(&request);
        let server = Server { provider: self.provider, name: &rule.definition.server };
        self.warnings(server, explanation.applied().map(|rule| &rule.outcome)).await;
    }

    async fn warnings(&mut self, server: Server<'_>, outcome: Option<&RuleOutcome>) {
        if let Some(RuleOutcome::Applies { warnings, .. }) = outcome {
            let mut warnings = warnings.clone();
            server.remove_gauge_warnings(&mut warnings).await;
            for warning in warnings {
                self.warning(&warning.to_string());
            }
        }
        if let Some(sharing) = outcome.and_then(RuleOutcome::sharing) {
            self.line(&format!("  {sharing}"));
        }
    }

    async fn resource_rules(&mut self, config: &Config, objects: &ClusterObjects) {
        let Some(rules) = &config.resource_rules else { return };
        let position = config.positions.get("resourceRules");
        let position = position.map(|at| format!(" ({at})")).unwrap_or_default();
        self.line(&format!("resourceRules{position}"));
        let status =
            self.provider.rule_status().into_iter().find(|rule| rule.rule == "resourceRules");
        let refused = self.refused.get("resourceRules").cloned();
        if let Some(error) = refused.or_else(|| status.and_then(|status| status.error)) {
            return self.problem(&error);
        }
        if rules.missing().is_some() {
            // `lint` reports it.
            return;
        }
        if rules.window.is_zero() {
            self.warning("window is missing: write the range of cpu's queries, such as 5m");
        }
        let (lines, problems) = resource::check(config, self.provider, objects).await;
        for line in &lines {
            self.line(&format!("  {line}"));
        }
        for problem in &problems {
            self.problem(problem);
        }
    }
}

/// Whether a selector names its series.
fn names_a_series(selector: &str) -> bool {
    let expr = promql::parse(selector);
    expr.is_ok_and(|expr| matches!(&expr.node, Node::Selector(one) if one.series().is_some()))
}

/// The namespace label of an external rule.
pub(super) fn namespace_label(rule: &RuleInspection) -> String {
    let resources = &rule.definition.resources;
    let mut overrides = resources.overrides.iter();
    let namespace_override = overrides.find(|(_, target)| {
        ["namespace", "namespaces"].contains(&target.resource.as_str()) && target.group.is_empty()
    });
    match namespace_override {
        Some((label, _)) => label.to_owned(),
        None if resources.template.is_empty() => "namespace".to_owned(),
        None => resources.template.replace("<<.Resource>>", "namespace"),
    }
}

fn display_name(metric: &InspectedMetric) -> String {
    match &metric.resource {
        Some(resource) => format!("{resource}/{}", metric.metric),
        None => metric.metric.clone(),
    }
}
