//! The report of rules that were checked against a Prometheus server.

use std::collections::BTreeMap;

use hpa_calc::{Quantity, Selector};
use hpa_metrics::{
    CustomQuery, ExternalQuery, MetricError, MetricSource, ObjectKey, Objects, describe,
    resource::GroupResource, values::NoValue, wire::ItemLabels,
};
use hpa_prometheus::{
    promql::{self, Node},
    rules::{Config, explain::RuleOutcome},
    source::{InspectedMetric, PrometheusSource, RuleInspection},
};

use crate::rules::{
    resource::{self, ClusterObjects},
    sample::{self, Server},
};

/// The report lists at most this many metrics of a rule, and values of an external metric.
const MAX_METRICS: usize = 10;

/// The lines of the report, which the caller takes out after each rule.
pub(super) struct Report<'p> {
    pub(super) source: &'p PrometheusSource,
    /// The mistakes of the refused rules, by the names of the rules.
    pub(super) refused: BTreeMap<String, String>,
    /// The paths of the fields with a mistake that was already reported.
    pub(super) mistakes: Vec<String>,
    pub(super) text: String,
    /// The number of problems, without warnings.
    pub(super) problems: usize,
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

    /// Reports that a rule has no series. This is only a warning if its query names no series.
    fn unused_rule(&mut self, series_query: &str, text: &str) {
        if names_a_series(series_query) { self.problem(text) } else { self.warning(text) }
    }

    /// Reports a rule, its metrics, and a sample of one of them.
    pub(super) async fn add_rule(&mut self, rules: &[RuleInspection], index: usize) {
        let Some(rule) = rules.get(index) else { return };
        let status = &rule.status;
        let position = rule.position.map(|at| format!(" ({at})")).unwrap_or_default();
        self.line(&format!("{}{position}: {}", status.rule, rule.definition.series_query));
        if let Some(error) = self.refused.get(&status.rule) {
            return self.problem(&error.clone());
        }
        let prefix = format!("{}.", status.rule);
        let is_mistaken = self.mistakes.iter().any(|path| path.starts_with(&prefix));
        let is_series_query_mistaken = self.mistakes.contains(&format!("{prefix}seriesQuery"));
        let unchecked = "  not queried, because of the mistake in the rule";
        if is_series_query_mistaken {
            return self.line(unchecked);
        }
        if let Some(error) = &status.error {
            return self.problem(error);
        }
        self.line(&format!("  series: {}, metrics: {}", status.series, status.metrics));
        if status.series == 0 {
            let query = &rule.definition.series_query;
            let age = Server { source: self.source, name: &rule.definition.server }
                .describe_age(query)
                .await;
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
        if is_mistaken {
            return self.line(unchecked);
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
        // Sample a metric of pods if there is one, and of namespaces only if there is no other.
        let used = || named.iter().copied().filter(|metric| metric.shadowed_by.is_none());
        let (pods, namespaces) = (GroupResource::pods(), GroupResource::namespaces());
        let rank = |metric: &&InspectedMetric| match &metric.resource {
            Some(resource) if *resource == pods => 0,
            Some(resource) if *resource == namespaces => 2,
            _ => 1,
        };
        match used().min_by_key(rank) {
            Some(metric) => self.add_sample(index, rule, metric).await,
            None => self.warning("all metrics come from later rules"),
        }
    }

    /// Reports the value of a metric for an object that has it.
    async fn add_sample(&mut self, index: usize, rule: &RuleInspection, metric: &InspectedMetric) {
        let source = self.source;
        let server = Server { source, name: &rule.definition.server };
        let query = &rule.definition.series_query;
        let all = sample::selector(query, &metric.series, &[]);
        let Some(resource) = &metric.resource else {
            let label = sample::namespace_label(rule);
            let selector = sample::selector(query, &metric.series, &[&label]);
            let newest = server.newest_labels(&selector).await;
            let namespace = newest.and_then(|mut labels| labels.remove(&label));
            let namespace = namespace.unwrap_or_else(|| "default".to_owned());
            return self.add_external_sample(rule, metric, &namespace).await;
        };
        let label = source.object_label(index, resource).unwrap_or_default();
        let namespace_label = source.object_label(index, &GroupResource::namespaces());
        let is_namespaced = resource.has_namespaced_metrics();
        let mut required = vec![label.as_str()];
        required.extend(namespace_label.as_deref().filter(|_| is_namespaced));
        let selector = sample::selector(query, &metric.series, &required);
        let Some(labels) = server.newest_labels(&selector).await else {
            let text = match server
                .newest_labels(&sample::selector(query, &metric.series, &[&label]))
                .await
            {
                Some(_) => format!(
                    "{} has no label for the namespace of {resource}, with which the API reads \
                     them: add one by relabeling, or use externalRules with `namespaced: false`",
                    metric.series
                ),
                None => match server.describe_age(&all).await {
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
        match source.read_custom(request.clone()).await {
            Ok(values) => {
                self.line(&format!("  query: {}", values.origin.query));
                for item in &values.items {
                    self.line(&format!("  {object} = {}", Quantity::from(item.value)));
                }
            }
            Err(error) => self.add_failure(&object.to_string(), &error),
        }
        let explanation = source.explain_custom(&request, &[name]);
        self.add_query_warnings(server, explanation.applied().map(|rule| &rule.outcome)).await;
    }

    /// Reports a failed sample query. NaN is only a warning: an idle histogram has no value.
    fn add_failure(&mut self, object: &str, error: &MetricError) {
        let text = format!("{object}: {}", describe(error));
        let is_nan = text.contains(&NoValue::NotANumber.to_string());
        if is_nan { self.warning(&text) } else { self.problem(&text) }
    }

    /// Reports the values of an external metric in a namespace.
    async fn add_external_sample(
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
        match self.source.read_external(request.clone()).await {
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
            Err(error) => self.add_failure(&request.metric, &error),
        }
        let explanation = self.source.explain_external(&request);
        let server = Server { source: self.source, name: &rule.definition.server };
        self.add_query_warnings(server, explanation.applied().map(|rule| &rule.outcome)).await;
    }

    /// Reports the warnings about the query of the rule that applied.
    async fn add_query_warnings(&mut self, server: Server<'_>, outcome: Option<&RuleOutcome>) {
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

    /// Reports `resourceRules`, and the results of their queries.
    pub(super) async fn add_resource_rules(&mut self, config: &Config, objects: &ClusterObjects) {
        let Some(rules) = &config.resource_rules else { return };
        let position = config.positions.get("resourceRules");
        let position = position.map(|at| format!(" ({at})")).unwrap_or_default();
        self.line(&format!("resourceRules{position}"));
        let status =
            self.source.rule_status().into_iter().find(|rule| rule.rule == "resourceRules");
        let refused = self.refused.get("resourceRules").cloned();
        if let Some(error) = refused.or_else(|| status.and_then(|status| status.error)) {
            return self.problem(&error);
        }
        if rules.missing().is_some() {
            // The findings of `lint` include the missing resource.
            return;
        }
        if rules.window.is_zero() {
            self.warning("window is missing: write the range of cpu's queries, such as 5m");
        }
        let (lines, problems) = resource::check_queries(config, self.source, objects).await;
        for line in &lines {
            self.line(&format!("  {line}"));
        }
        for problem in &problems {
            self.problem(problem);
        }
    }
}

/// Whether a series selector has a metric name, as `up{job="a"}` does.
fn names_a_series(selector: &str) -> bool {
    let expr = promql::parse(selector);
    expr.is_ok_and(|expr| matches!(&expr.node, Node::Selector(one) if one.metric_name().is_some()))
}

fn display_name(metric: &InspectedMetric) -> String {
    match &metric.resource {
        Some(resource) => format!("{resource}/{}", metric.metric),
        None => metric.metric.clone(),
    }
}
