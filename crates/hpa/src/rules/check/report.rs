//! The report of rules that were checked against a Prometheus server.

use std::collections::BTreeMap;

use hpa_calc::{Quantity, Selector};
use hpa_metrics::{
    CustomQuery, ExternalQuery, MetricError, MetricSource, ObjectKey, Objects, describe,
    resource::GroupResource,
    values::{NoValue, Omitted},
    wire::ItemLabels,
};
use hpa_prometheus::{
    promql::{self, Node},
    rules::{
        Config,
        explain::RuleOutcome,
        query::{on_one_line, selects_objects},
    },
    source::{InspectedMetric, PrometheusSource, RuleInspection},
};

use crate::rules::{
    resource::{self, ClusterObjects},
    sample::{self, PrometheusServer},
};

/// The report lists at most this many metrics of a rule, and values of an external metric.
const MAX_METRICS: usize = 10;

/// The report. The caller takes its `text` after each rule.
pub(super) struct Report<'p> {
    pub(super) source: &'p PrometheusSource,
    /// The mistakes of the refused rules, by the names of the rules.
    pub(super) refused: BTreeMap<String, String>,
    /// The paths of the fields with a mistake that was already reported.
    pub(super) mistakes: Vec<String>,
    pub(super) text: String,
    /// The number of problems, without warnings.
    pub(super) problems: usize,
    pub(super) warnings: usize,
}

impl Report<'_> {
    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn warning(&mut self, text: &str) {
        self.warnings += 1;
        self.line(&format!("  warning: {}", on_one_line(text)));
    }

    fn problem(&mut self, text: &str) {
        self.problems += 1;
        self.line(&format!("  problem: {}", on_one_line(text)));
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
        let query = on_one_line(&rule.definition.series_query);
        self.line(&format!("{}{position}: {query}", status.rule));
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
            let server = PrometheusServer { source: self.source, name: &rule.definition.server };
            let text = match server.describe_age(query).await {
                Some(age) => format!(
                    "{age}; none is within the maximum age: check the scrape targets, or raise \
                     --metrics-max-age"
                ),
                None => server.explain_mismatch(query).await.unwrap_or_else(|| {
                    "Prometheus has no such series: check names and labels in seriesQuery"
                        .to_owned()
                }),
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
                self.problem(&format!(
                    "no label of the series is mapped to a resource; the labels are {}: map the one \
                     with the object's name in resources.overrides, or use externalRules if the \
                     series are of no object",
                    sample::list_labels(&rule.labels)
                ));
            };
        }
        self.add_metrics(rules, rule);
        self.add_resources_without_metrics(rule);
        let named: Vec<_> =
            rule.metrics.iter().filter(|metric| !metric.metric.is_empty()).collect();
        let used = named.iter().filter(|metric| metric.shadowed_by.is_none());
        // Sample a metric of pods if there is one, and of namespaces only if there is no other.
        // Without the label of the namespace, only cluster-scoped objects can have a sample.
        let (pods, namespaces) = (GroupResource::pods(), GroupResource::namespaces());
        let namespace_label = self.source.object_label(index, &namespaces);
        let has_namespace = namespace_label.is_some_and(|label| rule.labels.contains(&label));
        let rank = |metric: &&&InspectedMetric| match &metric.resource {
            Some(resource) if *resource == pods => (!has_namespace, 0),
            Some(resource) if *resource == namespaces => (false, 2),
            Some(resource) => (resource.has_namespaced_metrics() && !has_namespace, 1),
            None => (false, 0),
        };
        match used.min_by_key(rank) {
            Some(metric) => self.add_sample(index, rule, metric).await,
            None if !named.is_empty() => self.warning("all metrics come from later rules"),
            None => {}
        }
    }

    /// Lists the metrics of a rule.
    fn add_metrics(&mut self, rules: &[RuleInspection], rule: &RuleInspection) {
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
    }

    /// Warns of resources in overrides that have no metric, because no series has their label.
    fn add_resources_without_metrics(&mut self, rule: &RuleInspection) {
        let with_metric: Vec<_> =
            rule.metrics.iter().filter_map(|metric| metric.resource.as_ref()).collect();
        if with_metric.is_empty() {
            // An external rule, whose metrics have no objects.
            return;
        }
        let resources = self.source.resources();
        for (label, target) in rule.definition.resources.overrides.iter() {
            let Ok(known) = resources.resolve(&target.group, &target.resource) else { continue };
            let resource = &known.group_resource;
            // The label of the namespace is checked with the sample.
            if *resource == GroupResource::namespaces() || with_metric.contains(&resource) {
                continue;
            }
            let advice = sample::mapping_advice(&known.singular, &rule.labels);
            self.warning(&format!(
                "{resource} have no metric, because no series has the label `{label}`: {advice}"
            ));
        }
    }

    /// Reports the value of a metric for an object that has it.
    async fn add_sample(&mut self, index: usize, rule: &RuleInspection, metric: &InspectedMetric) {
        let Some(resource) = &metric.resource else {
            return self.add_external_sample(rule, metric).await;
        };
        let template = &rule.definition.metrics_query;
        let is_namespaced = resource.has_namespaced_metrics();
        let mut selected = self.selected_labels(index, resource);
        if is_namespaced && selected.len() < 2 {
            return self.problem(&format!(
                "no label is mapped to the namespace, with which the API reads metrics of \
                 {resource}: add one to resources.overrides, or use externalRules with `namespaced: \
                 false`; the labels are {}",
                sample::list_labels(&rule.labels)
            ));
        }
        if !selects_objects(template) {
            // The result is the same for each namespace.
            selected.retain(|(of, label)| of == resource || rule.labels.contains(label));
        }
        if let Some((of, label)) = selected.iter().find(|(_, label)| !rule.labels.contains(label)) {
            let text = self.missing_label(&metric.series, of, label, &rule.labels);
            let reads_series = template.contains(".Series") || template.contains(&metric.series);
            return if reads_series { self.problem(&text) } else { self.warning(&text) };
        }
        let source = self.source;
        let server = PrometheusServer { source, name: &rule.definition.server };
        let required: Vec<&str> = selected.iter().map(|(_, label)| label.as_str()).collect();
        let selector = sample::selector(&rule.definition.series_query, &metric.series, &required);
        let Some(labels) = server.newest_labels(&selector).await else {
            let text = self.describe_missing_sample(server, rule, metric, &selected).await;
            return self.warning(&text);
        };
        let value = |label: Option<&&str>| label.and_then(|label| labels.get(*label)).cloned();
        let name = value(required.first()).unwrap_or_default();
        let namespace = value(required.get(1)).unwrap_or_else(|| "default".to_owned());
        let request = CustomQuery {
            resource: resource.clone(),
            namespace: if is_namespaced { namespace } else { String::new() },
            objects: Objects::Named(name.clone()),
            metric: metric.metric.clone(),
            metric_selector: Selector::everything(),
        };
        let object = ObjectKey::new(&request.namespace, &name);
        match source.read_custom(request.clone()).await {
            Ok(values) => {
                self.line(&format!("  query: {}", on_one_line(&values.origin.query)));
                for item in &values.items {
                    self.line(&format!("  {object} = {}", Quantity::from(item.value)));
                }
            }
            Err(error) => self.add_failure(&object.to_string(), &error),
        }
        let explanation = source.explain_custom(&request, &[name]);
        self.add_query_warnings(server, explanation.applied().map(|rule| &rule.outcome)).await;
    }

    /// The labels that queries of a rule select objects by: the one with their name, then the one
    /// with their namespace if they have one. Leaves out resources that the rule has no label for.
    fn selected_labels(
        &self,
        index: usize,
        resource: &GroupResource,
    ) -> Vec<(GroupResource, String)> {
        let namespaces = resource.has_namespaced_metrics().then(GroupResource::namespaces);
        let resources = [Some(resource.clone()), namespaces].into_iter().flatten();
        let with_label = |one: GroupResource| {
            let label = self.source.object_label(index, &one)?;
            Some((one, label))
        };
        resources.filter_map(with_label).collect()
    }

    /// A message that series have no label for a resource, with advice.
    fn missing_label(
        &self,
        series: &str,
        resource: &GroupResource,
        label: &str,
        labels: &[String],
    ) -> String {
        let resources = self.source.resources();
        let known = resources.get(resource);
        let singular = known.map_or(&*resource.resource, |known| &*known.singular);
        sample::missing_label(series, label, singular, labels)
    }

    /// The reason that no current series of a metric has the labels of its objects, although some
    /// series of the rule have them.
    async fn describe_missing_sample(
        &self,
        server: PrometheusServer<'_>,
        rule: &RuleInspection,
        metric: &InspectedMetric,
        selected: &[(GroupResource, String)],
    ) -> String {
        let series = &metric.series;
        let selector =
            |labels: &[&str]| sample::selector(&rule.definition.series_query, series, labels);
        let name_label = selected.first().map_or("", |(_, label)| label.as_str());
        if let Some((namespaces, label)) = selected.get(1)
            && let Some(labels) = server.newest_labels(&selector(&[name_label])).await
        {
            let labels: Vec<String> = labels.into_keys().collect();
            return self.missing_label(series, namespaces, label, &labels);
        }
        match server.describe_age(&selector(&[])).await {
            Some(age) => format!("{series} has no sample now. {age}"),
            None => format!("{series} has no sample with the label {name_label}"),
        }
    }

    /// Reports a failed sample query. NaN is only a warning: an idle histogram has no value.
    fn add_failure(&mut self, object: &str, error: &MetricError) {
        let text = format!("{object}: {}", describe(error));
        let is_nan = text.contains(&NoValue::NotANumber.to_string());
        if is_nan { self.warning(&text) } else { self.problem(&text) }
    }

    /// Reports the values of an external metric in a namespace that has series of it.
    async fn add_external_sample(&mut self, rule: &RuleInspection, metric: &InspectedMetric) {
        let server = PrometheusServer { source: self.source, name: &rule.definition.server };
        let label = sample::namespace_label(rule);
        let selector = sample::selector(&rule.definition.series_query, &metric.series, &[&label]);
        let newest = server.newest_labels(&selector).await;
        let namespace = newest.and_then(|mut labels| labels.remove(&label));
        let namespace = namespace.unwrap_or_else(|| "default".to_owned());
        let request = ExternalQuery {
            namespace: namespace.clone(),
            metric: metric.metric.clone(),
            metric_selector: Selector::everything(),
        };
        match self.source.read_external(request.clone()).await {
            Ok(values) => {
                self.line(&format!("  query: {}", on_one_line(&values.origin.query)));
                if values.items.is_empty() && values.omitted.is_empty() {
                    self.warning(&format!("no result in the namespace {namespace}"));
                }
                for Omitted { subject, reason } in values.omitted.iter().take(MAX_METRICS) {
                    self.warning(&format!("{} {subject}: {reason}", request.metric));
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
        self.add_query_warnings(server, explanation.applied().map(|rule| &rule.outcome)).await;
    }

    /// Reports the warnings about the query of the rule that applied.
    async fn add_query_warnings(
        &mut self,
        server: PrometheusServer<'_>,
        outcome: Option<&RuleOutcome>,
    ) {
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
