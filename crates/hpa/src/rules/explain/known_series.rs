//! The series of a custom metric, and the reasons why they have no value for its objects.

use std::iter;

use hpa_calc::{explain::list_first, go_text::Quoted};
use hpa_metrics::{CustomQuery, resource::GroupResource};
use hpa_prometheus::{rules::query::selects_objects, source::RuleInspection};

use super::MAX_NAMESPACES;
use crate::rules::{
    outcome::{MAX_NAMED, QueryProblem},
    selectors, series,
    servers::{PrometheusServer, RuleServers},
};

/// The series that a request reads.
pub(super) struct KnownSeries<'s> {
    servers: &'s RuleServers<'s>,
    server: String,
    series_query: String,
    series: String,
    /// The singular name of the object's resource.
    singular: String,
    /// The label with the object's name.
    label: String,
    /// The label with the namespace, if the request has one and the query selects it.
    namespace_label: Option<String>,
}

/// Finds the series of the rule that serves a metric. `None` if no rule serves it.
pub(super) fn known_series<'s>(
    servers: &'s RuleServers<'s>,
    request: &CustomQuery,
) -> Option<KnownSeries<'s>> {
    let source = servers.source;
    let resources = source.resources();
    let resolved = resources.resolve(&request.resource.group, &request.resource.resource);
    let resolved = resolved.ok()?;
    let resource = &resolved.group_resource;
    let (index, rule, series) =
        source.inspect_custom().into_iter().enumerate().find_map(|(index, rule)| {
            let metric = rule.metrics.iter().find(|metric| {
                metric.metric == request.metric
                    && metric.resource.as_ref() == Some(resource)
                    && metric.shadowed_by.is_none()
            })?;
            let series = metric.series.clone();
            Some((index, rule, series))
        })?;
    let namespace_label = source.object_label(index, &GroupResource::namespaces());
    let is_selected = |label: &String| {
        request.is_namespaced()
            && (selects_objects(&rule.definition.metrics_query) || rule.labels.contains(label))
    };
    let namespace_label = namespace_label.filter(is_selected);
    Some(KnownSeries {
        servers,
        server: rule.definition.server,
        series_query: rule.definition.series_query,
        series,
        singular: resolved.singular.clone(),
        label: source.object_label(index, resource)?,
        namespace_label,
    })
}

impl KnownSeries<'_> {
    fn server(&self) -> PrometheusServer<'_> {
        self.servers.server(&self.server)
    }

    /// The names of the objects that have the metric.
    pub(super) async fn object_names(
        &self,
        request: &CustomQuery,
    ) -> Result<Vec<String>, QueryProblem> {
        self.server().label_values(&self.label, &self.selector(request)).await
    }

    /// Says that the named objects have no sample now, with the others of the namespace that have
    /// one. `None` if a named object has a sample, or if that is unknown.
    pub(super) async fn explain_missing_objects(
        &self,
        names: &[String],
        request: &CustomQuery,
    ) -> Option<String> {
        let others = self.object_names(request).await.ok()?;
        if names.iter().any(|name| others.contains(name)) {
            return None;
        }
        if others.is_empty() {
            return Some(self.describe_absence(request).await);
        }
        let pattern = names.join("|").replace('.', "\\.");
        let has_name = format!("{}=~{}", selectors::label_name(&self.label), Quoted(&pattern));
        let selector = self.selector_with(request, Some(has_name));
        let names = list_first(names, MAX_NAMED, ", ");
        let reason = match self.server().describe_age(&selector).await.ok()? {
            Some(age) => format!("now. {age}: check the scrape targets"),
            None => "now, and had none within the last day: check the name".to_owned(),
        };
        let (series, others) = (&self.series, list_first(&others, MAX_NAMED, ", "));
        Some(format!("{series} has no sample of {names} {reason}. Others have one: {others}"))
    }

    /// A selector for the series of the objects in the namespace of a request.
    fn selector(&self, request: &CustomQuery) -> String {
        self.selector_with(request, None)
    }

    /// Like [`Self::selector`], with another matcher.
    fn selector_with(&self, request: &CustomQuery, matcher: Option<String>) -> String {
        let has_label = selectors::presence_matcher(&self.label);
        let label = self.namespace_label.as_ref();
        let in_namespace =
            label.map(|label| selectors::equality_matcher(label, &request.namespace));
        let added = iter::once(has_label).chain(in_namespace).chain(matcher);
        selectors::selector_with(&self.series_query, &self.series, |_| true, added)
    }

    /// Names a requirement of the request's selector that no series in its namespace meets. `None`
    /// also if that is unknown, or if the query doesn't select by labels.
    pub(super) async fn explain_unmet_requirement(
        &self,
        rule: &RuleInspection,
        request: &CustomQuery,
    ) -> Option<String> {
        if !selects_objects(&rule.definition.metrics_query) {
            return None;
        }
        let requirements = request.metric_selector.requirements();
        let reason =
            self.server().explain_unmet_requirement(&self.selector(request), requirements).await;
        reason.ok().flatten()
    }

    /// Explains why no object has the metric, or says that the reason could not be read.
    pub(super) async fn describe_absence(&self, request: &CustomQuery) -> String {
        let reason = self.explain_absence(request).await;
        reason.unwrap_or_else(|problem| {
            format!("no object has series of the metric, and the reason is unknown: {problem}")
        })
    }

    async fn explain_absence(&self, request: &CustomQuery) -> Result<String, QueryProblem> {
        let Self { series, label, .. } = self;
        let namespace = &request.namespace;
        let server = self.server();
        let selector = selectors::selector(&self.series_query, series, &[label]);
        if let Some(namespace_label) = &self.namespace_label {
            let mut namespaces = server.label_values(namespace_label, &selector).await?;
            let none = format!("no object of the namespace {namespace} has series of the metric");
            let has_unlabeled = namespaces.iter().any(String::is_empty);
            namespaces.retain(|namespace| !namespace.is_empty());
            if !namespaces.is_empty() {
                let namespaces = list_first(&namespaces, MAX_NAMESPACES, ", ");
                let unlabeled = self.explain_unlabeled_series(namespace, namespace_label).await?;
                if let Some(unlabeled) = unlabeled {
                    return Ok(format!("{unlabeled}; the series in {namespaces} have `{label}`"));
                }
                return Ok(format!("{none}: {series} is in {namespaces}"));
            }
            if has_unlabeled {
                let labels = server.newest_labels(&selector).await?.unwrap_or_default();
                let labels: Vec<String> = labels.into_keys().collect();
                return Ok(series::missing_label(series, namespace_label, "namespace", &labels));
            }
        }
        let all = selectors::selector(&self.series_query, series, &[]);
        Ok(match server.describe_age(&all).await? {
            Some(age) => {
                format!("no object has series of the metric now. {age}: check the scrape targets")
            }
            None => "no object has series of the metric".to_owned(),
        })
    }

    /// Says that the series of the namespace lack the label with the object's name. `None` if there
    /// are no such series.
    async fn explain_unlabeled_series(
        &self,
        namespace: &str,
        namespace_label: &str,
    ) -> Result<Option<String>, QueryProblem> {
        let Self { series_query, series, singular, label, .. } = self;
        let in_namespace = (namespace_label, namespace);
        let selector = selectors::selector_without(label, series_query, series, in_namespace);
        let labels = self.server().newest_labels(&selector).await?;
        Ok(labels.map(|labels| {
            let labels: Vec<String> = labels.into_keys().collect();
            let missing = series::missing_label(series, label, singular, &labels);
            format!("in the namespace {namespace}, {missing}")
        }))
    }
}
