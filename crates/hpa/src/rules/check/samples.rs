//! Samples of the metrics of rules, for the report.

use std::collections::BTreeMap;

use hpa_calc::{Quantity, Selector};
use hpa_metrics::{
    CustomQuery, ExternalQuery, MetricError, MetricSource, NotFound, ObjectKey, Objects, describe,
    resource::GroupResource,
    values::{NoValue, OmittedSample},
    wire::ItemLabels,
};
use hpa_prometheus::{
    rules::{
        explain::RuleOutcome,
        query::{selects_objects, with_single_spaces},
    },
    source::{InspectedMetric, RuleInspection},
};

use super::report::{MAX_METRICS, Report};
use crate::rules::{
    outcome::QueryProblem, selectors, series, servers::PrometheusServer,
    short_range::query_without_result,
};

impl Report<'_> {
    /// Reports the value of a metric for an object that has it.
    pub(super) async fn add_sample(
        &mut self,
        index: usize,
        rule: &RuleInspection,
        metric: &InspectedMetric,
    ) {
        let Some(resource) = &metric.resource else {
            return self.add_external_sample(rule, metric).await;
        };
        let template = &rule.definition.metrics_query;
        let is_namespaced = resource.has_namespaced_metrics();
        let mut selected = self.selected_labels(index, resource);
        if is_namespaced && selected.len() < 2 {
            return self.problem(&format!(
                "no label is mapped to the namespace, with which the API reads metrics of \
                 {resource}: add one to resources.overrides, or use externalRules with \
                 `namespaced: false`; the labels are {}",
                series::list_labels(&rule.labels)
            ));
        }
        if !selects_objects(template) {
            // The result is the same for each namespace, so series need no label for it.
            selected.retain(|(named, label)| named == resource || rule.labels.contains(label));
        }
        let is_missing = |(_, label): &&(GroupResource, String)| !rule.labels.contains(label);
        if let Some((named, label)) = selected.iter().find(is_missing) {
            let text = self.missing_label(&metric.series, named, label, &rule.labels);
            return self.add_missing_label(rule, metric, &text);
        }
        let server = self.servers.server(&rule.definition.server);
        let required: Vec<&str> = selected.iter().map(|(_, label)| label.as_str()).collect();
        let selector =
            selectors::selector(&rule.definition.series_query, &metric.series, &required);
        let labels = match server.newest_labels(&selector).await {
            Ok(Some(labels)) => labels,
            Ok(None) => return self.add_missing_sample(server, rule, metric, &selected).await,
            Err(problem) => return self.add_lookup_problem(rule, &problem),
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
        match server.read(self.servers.source.read_custom(request.clone())).await {
            Ok(values) => {
                self.line(&format!("  query: {}", with_single_spaces(&values.origin.query)));
                for item in &values.items {
                    self.line(&format!("  {object} = {}", Quantity::from(item.value)));
                }
            }
            Err(error) => self.add_failure(server, rule, &object.to_string(), &error).await,
        }
        let explanation = self.servers.source.explain_custom(&request, &[name]);
        self.add_query_warnings(server, explanation.applied().map(|rule| &rule.outcome)).await;
    }

    /// The labels that queries of a rule use to select objects, each with the resource that it
    /// names: first the label of the object, then that of its namespace, if it has one. Leaves out
    /// resources without a label.
    fn selected_labels(
        &self,
        index: usize,
        resource: &GroupResource,
    ) -> Vec<(GroupResource, String)> {
        let namespaces = resource.has_namespaced_metrics().then(GroupResource::namespaces);
        let resources = [Some(resource.clone()), namespaces].into_iter().flatten();
        let with_label = |one: GroupResource| {
            let label = self.servers.source.object_label(index, &one)?;
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
        let resources = self.servers.source.resources();
        let known = resources.get(resource);
        let singular = known.map_or(&*resource.resource, |known| &*known.singular);
        series::missing_label(series, label, singular, labels)
    }

    /// Reports that series lack a label that selects objects in queries. This is only a warning if
    /// the query reads other series, which may have it.
    fn add_missing_label(&mut self, rule: &RuleInspection, metric: &InspectedMetric, text: &str) {
        let template = &rule.definition.metrics_query;
        let reads_series = template.contains(".Series") || template.contains(&metric.series);
        if reads_series { self.problem(text) } else { self.warning(text) }
    }

    /// Warns that no current series of a metric has the labels of its objects.
    async fn add_missing_sample(
        &mut self,
        server: PrometheusServer<'_>,
        rule: &RuleInspection,
        metric: &InspectedMetric,
        selected: &[(GroupResource, String)],
    ) {
        match self.describe_missing_sample(server, rule, metric, selected).await {
            Ok(text) => self.warning(&text),
            Err(problem) => self.add_lookup_problem(rule, &problem),
        }
    }

    /// The reason that no current series of a metric has the labels of its objects, although some
    /// series of the rule have them.
    async fn describe_missing_sample(
        &self,
        server: PrometheusServer<'_>,
        rule: &RuleInspection,
        metric: &InspectedMetric,
        selected: &[(GroupResource, String)],
    ) -> Result<String, QueryProblem> {
        let series = &metric.series;
        let selector =
            |labels: &[&str]| selectors::selector(&rule.definition.series_query, series, labels);
        let name_label = selected.first().map_or("", |(_, label)| label.as_str());
        if let Some((namespaces, label)) = selected.get(1)
            && let Some(labels) = server.newest_labels(&selector(&[name_label])).await?
        {
            let labels: Vec<String> = labels.into_keys().collect();
            return Ok(self.missing_label(series, namespaces, label, &labels));
        }
        Ok(match server.describe_age(&selector(&[])).await? {
            Some(age) => format!("{series} has no sample now. {age}"),
            None => format!("{series} has no sample with the label {name_label}"),
        })
    }

    /// Warns that the series of an external metric have no sample now, with the age of the newest.
    async fn add_stale_series(
        &mut self,
        server: PrometheusServer<'_>,
        rule: &RuleInspection,
        metric: &InspectedMetric,
    ) {
        let series = &metric.series;
        let selector = selectors::selector(&rule.definition.series_query, series, &[]);
        match server.describe_age(&selector).await {
            Ok(age) => {
                let age = age.unwrap_or_else(|| "The last day has none either".to_owned());
                self.warning(&format!("{series} has no sample now. {age}"));
            }
            Err(problem) => self.add_lookup_problem(rule, &problem),
        }
    }

    /// Reports a failed sample query. NaN is only a warning: an idle histogram has no value.
    async fn add_failure(
        &mut self,
        server: PrometheusServer<'_>,
        rule: &RuleInspection,
        object: &str,
        error: &MetricError,
    ) {
        if let Some(QueryProblem::Unanswered(cause)) = server.problem_of(error) {
            return self.not_checked(&rule.status.rule, &cause);
        }
        let mut text = format!("{object}: {}", describe(error));
        if let Some(query) = query_without_result(error)
            && let Some(reason) = server.explain_short_range(query).await
        {
            text = format!("{text}: {reason}");
        }
        let is_nan = matches!(
            error,
            MetricError::NoValueForObject(NotFound::UnusableSample {
                reason: NoValue::NotANumber,
                ..
            })
        );
        if is_nan { self.warning(&text) } else { self.problem(&text) }
    }

    /// Reports the values of an external metric, in the namespace of the newest series if the query
    /// selects one. Series that have no sample now are only a warning.
    async fn add_external_sample(&mut self, rule: &RuleInspection, metric: &InspectedMetric) {
        let server = self.servers.server(&rule.definition.server);
        let label = selectors::namespace_label(rule);
        let selects_namespace = selectors::selects_namespace(rule);
        let required: Vec<&str> = selects_namespace.then_some(&*label).into_iter().collect();
        let selector =
            selectors::selector(&rule.definition.series_query, &metric.series, &required);
        let mut newest = match server.newest_labels(&selector).await {
            Ok(newest) => newest,
            Err(problem) => return self.add_lookup_problem(rule, &problem),
        };
        let is_current = newest.is_some();
        if !is_current && selects_namespace {
            match server.explain_missing_namespace(rule, &metric.series).await {
                Ok(Some(text)) => return self.add_missing_label(rule, metric, &text),
                Ok(None) => {}
                Err(problem) => return self.add_lookup_problem(rule, &problem),
            }
            newest = match server.newest_labels_today(&selector).await {
                Ok(newest) => newest,
                Err(problem) => return self.add_lookup_problem(rule, &problem),
            };
        }
        let namespace = newest.and_then(|mut labels| labels.remove(&label));
        let namespace = namespace.filter(|_| selects_namespace);
        if namespace.is_none() && selects_namespace {
            return self.add_stale_series(server, rule, metric).await;
        }
        let place = namespace.as_ref().map(|name| format!(" in the namespace {name}"));
        let request = ExternalQuery {
            // A query that selects no namespace is the same for each.
            namespace: namespace.unwrap_or_else(|| "default".to_owned()),
            metric: metric.metric.clone(),
            metric_selector: Selector::everything(),
        };
        match server.read(self.servers.source.read_external(request.clone())).await {
            Ok(values) => {
                self.line(&format!("  query: {}", with_single_spaces(&values.origin.query)));
                let is_empty = values.items.is_empty() && values.omitted.is_empty();
                if is_empty && !is_current {
                    self.add_stale_series(server, rule, metric).await;
                } else if is_empty {
                    let reason = server.explain_short_range(&values.origin.query).await;
                    let reason = reason.map(|reason| format!(": {reason}"));
                    let (place, reason) = (place.unwrap_or_default(), reason.unwrap_or_default());
                    self.problem(&format!("no result{place}{reason}"));
                }
                for OmittedSample { subject, reason } in values.omitted.iter().take(MAX_METRICS) {
                    self.warning(&format!("{} {subject}: {reason}", request.metric));
                }
                for item in values.items.iter().take(MAX_METRICS) {
                    let labels: BTreeMap<_, _> =
                        item.labels.iter().flat_map(ItemLabels::pairs).collect();
                    self.line(&format!("  {labels:?} = {}", Quantity::from(item.value)));
                }
            }
            Err(error) => self.add_failure(server, rule, &request.metric, &error).await,
        }
        let explanation = self.servers.source.explain_external(&request);
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
}
