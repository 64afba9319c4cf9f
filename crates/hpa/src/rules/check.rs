//! `hpa rules check`.

use std::{collections::BTreeMap, error::Error, fmt::Write};

use hpa_calc::{Quantity, Selector};
use hpa_metrics::{
    CustomQuery, ExternalQuery, MetricSource, ObjectKey, Objects, describe,
    resource::{ApiResources, GroupResource},
    wire::ItemLabels,
};
use hpa_prometheus::rules::{Config, RuleSet, explain::Verdict};
use hpa_prometheus::source::{InspectedMetric, PrometheusProvider, RuleInspection};

use super::{mapper, provider, read_config, sample};
use crate::args::CheckArguments;

/// How many metrics of a rule are listed.
const MAX_METRICS: usize = 10;

/// The report, and whether all rules work.
pub(super) async fn check(arguments: &CheckArguments) -> anyhow::Result<(String, bool)> {
    let config = read_config(&arguments.file)?;
    let CheckArguments { prometheus, connect, resources, .. } = arguments;
    let Some(provider) = provider(&config, prometheus, *connect, resources).await? else {
        let resources = mapper(&arguments.resources).await?.load().await?;
        return Ok(check_syntax(&config, &resources));
    };
    let discovery = provider.relist().await;
    let mut report = Report { provider: &provider, text: String::new(), problems: 0 };
    if let Err(error @ hpa_prometheus::source::RelistError::Mapper(_)) = &discovery {
        anyhow::bail!("{}", chain(error));
    }
    for rule in provider.inspect_custom() {
        report.rule(&rule).await;
    }
    for rule in provider.inspect_external() {
        report.rule(&rule).await;
    }
    report.resource_rules(&config);
    let Report { text, problems, .. } = report;
    let summary =
        if problems == 0 { "no problems".to_owned() } else { format!("problems: {problems}") };
    Ok((format!("{text}{summary}\n"), problems == 0))
}

/// Compiles the rules only.
fn check_syntax(config: &Config, resources: &ApiResources) -> (String, bool) {
    let rules = RuleSet::compile(config, resources);
    let mut text = String::new();
    for error in rules.errors() {
        // Writing to a string can't fail.
        let _ = writeln!(text, "{}", chain(error));
    }
    let labels = rules.custom.iter().chain(&rules.external).flatten();
    for ambiguous in labels.flat_map(|rule| rule.labels().ambiguous().to_vec()) {
        let _ = writeln!(
            text,
            "warning: {} has two labels: queries use {}, not {}",
            ambiguous.resource, ambiguous.used, ambiguous.unused
        );
    }
    let is_good = rules.first_error().is_none();
    if is_good {
        let (custom, external) = (rules.custom.len(), rules.external.len());
        let _ = writeln!(text, "{custom} rules and {external} external rules are valid");
        text.push_str("To check them against series, add --prometheus-url");
        let is_named = !config.servers.is_empty();
        text.push_str(if is_named { ", or --connect for the file's servers\n" } else { "\n" });
    }
    (text, is_good)
}

struct Report<'p> {
    provider: &'p PrometheusProvider,
    text: String,
    problems: usize,
}

impl Report<'_> {
    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn problem(&mut self, text: &str) {
        self.problems += 1;
        self.line(&format!("  problem: {text}"));
    }

    async fn rule(&mut self, rule: &RuleInspection) {
        let status = &rule.status;
        let position = rule.position.map(|at| format!(" ({at})")).unwrap_or_default();
        self.line(&format!("{}{position}: {}", status.rule, rule.definition.series_query));
        if let Some(error) = &status.error {
            self.problem(error);
            return;
        }
        self.line(&format!("  series: {}, metrics: {}", status.series, status.metrics));
        if status.series == 0 {
            let query = &rule.definition.series_query;
            let age = sample::age(self.provider, &rule.definition.server, query).await;
            self.problem(&match age {
                Some(age) => format!(
                    "{age}, which is more than the maximum age: check the scrape targets, or \
                     raise --metrics-max-age"
                ),
                None => "Prometheus has no such series: check names and labels in seriesQuery"
                    .to_owned(),
            });
            return;
        }
        if rule.metrics.is_empty() {
            self.problem(if status.metrics == 0 {
                "no series passes seriesFilters and name.matches"
            } else {
                "no label of the series is an object: check resources.overrides and \
                 resources.template"
            });
            return;
        }
        for metric in rule.metrics.iter().take(MAX_METRICS) {
            let shadow = metric.shadowed_by.map(|by| format!(" (not used: rule {by} has it, too)"));
            let name = display_name(metric);
            self.line(&format!("  {name} <- {}{}", metric.series, shadow.unwrap_or_default()));
        }
        if rule.metrics.len() > MAX_METRICS {
            self.line(&format!("  and {} more", rule.metrics.len() - MAX_METRICS));
        }
        // A pod says more than its namespace, which nearly every metric has.
        let used = || rule.metrics.iter().filter(|metric| metric.shadowed_by.is_none());
        let namespaces = Some(GroupResource::namespaces());
        match used().find(|metric| metric.resource != namespaces).or_else(|| used().next()) {
            Some(metric) => self.sample(rule, metric).await,
            None => self.line("  warning: all metrics come from later rules"),
        }
    }

    /// Reads one metric of one object that exists.
    async fn sample(&mut self, rule: &RuleInspection, metric: &InspectedMetric) {
        let server = &rule.definition.server;
        let Some(labels) = sample::labels(self.provider, server, &metric.series).await else {
            let age = sample::age(self.provider, server, &metric.series).await;
            let age = age.map(|age| format!(". {age}")).unwrap_or_default();
            self.line(&format!("  warning: {} has no sample now{age}", metric.series));
            return;
        };
        let index = rule.status.rule.trim_end_matches(']').rsplit('[').next();
        let index = index.and_then(|index| index.parse().ok()).unwrap_or_default();
        let label = |resource: &GroupResource| {
            let name = self.provider.object_label(index, resource)?;
            labels.get(&name).cloned()
        };
        let namespace = label(&GroupResource::namespaces()).unwrap_or_default();
        let Some(resource) = &metric.resource else {
            let namespace = labels.get("namespace").map_or("default", String::as_str);
            return self.external_sample(metric, namespace).await;
        };
        let Some(name) = label(resource) else {
            self.line(&format!("  warning: the newest sample of {} names none", metric.series));
            return;
        };
        let is_namespaced = resource.has_namespaced_metrics();
        let request = CustomQuery {
            resource: resource.clone(),
            namespace: if is_namespaced { namespace } else { String::new() },
            objects: Objects::Named(name.clone()),
            metric: metric.metric.clone(),
            metric_selector: Selector::everything(),
        };
        let object = ObjectKey::new(&request.namespace, &name);
        match self.provider.read_custom(request.clone()).await {
            Ok(values) => {
                self.line(&format!("  query: {}", values.origin.query));
                for item in &values.items {
                    self.line(&format!("  {object} = {}", Quantity::from(item.value)));
                }
            }
            Err(error) => self.problem(&format!("{object}: {}", describe(&error))),
        }
        let explanation = self.provider.explain_custom(&request, &[name]);
        self.warnings(explanation.applied().map(|rule| &rule.verdict));
    }

    async fn external_sample(&mut self, metric: &InspectedMetric, namespace: &str) {
        let request = ExternalQuery {
            namespace: namespace.to_owned(),
            metric: metric.metric.clone(),
            metric_selector: Selector::everything(),
        };
        match self.provider.read_external(request.clone()).await {
            Ok(values) => {
                self.line(&format!("  query: {}", values.origin.query));
                if values.items.is_empty() {
                    self.line(&format!("  warning: no result in the namespace {namespace}"));
                }
                for item in values.items.iter().take(MAX_METRICS) {
                    let labels: BTreeMap<_, _> =
                        item.labels.iter().flat_map(ItemLabels::pairs).collect();
                    self.line(&format!("  {labels:?} = {}", Quantity::from(item.value)));
                }
            }
            Err(error) => self.problem(&describe(&error)),
        }
        let explanation = self.provider.explain_external(&request);
        self.warnings(explanation.applied().map(|rule| &rule.verdict));
    }

    fn warnings(&mut self, verdict: Option<&Verdict>) {
        if let Some(Verdict::Applies { warnings, .. }) = verdict {
            for warning in warnings {
                self.line(&format!("  warning: {warning}"));
            }
        }
        if let Some(sharing) = verdict.and_then(Verdict::sharing) {
            self.line(&format!("  {sharing}"));
        }
    }

    /// The only error that can be found without objects is that of the file.
    fn resource_rules(&mut self, config: &Config) {
        if config.resource_rules.is_none() {
            return;
        }
        self.line("resourceRules");
        let status =
            self.provider.rule_status().into_iter().find(|rule| rule.rule == "resourceRules");
        if let Some(error) = status.and_then(|status| status.error) {
            self.problem(&error);
        }
    }
}

fn display_name(metric: &InspectedMetric) -> String {
    match &metric.resource {
        Some(resource) => format!("{resource}/{}", metric.metric),
        None => metric.metric.clone(),
    }
}

/// An error with its causes, without those that the text before contains.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            let _ = write!(text, ": {message}");
        }
        cause = error.source();
    }
    text
}
