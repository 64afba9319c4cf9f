//! The metrics of `custom.metrics.k8s.io`.

use std::sync::Arc;

use super::{DiscoveredRule, MetricRule, SortedMetrics, last_rule};
use crate::rules::{
    Compat,
    query::{QueriedObjects, QueryError},
    rule::Rule,
    series::MetricSeries,
};
use hpa_metrics::{
    CustomQuery,
    resource::{ApiResource, ApiResources, GroupResource, ResourceError},
    source::ListedCustomMetric,
};

/// All custom metrics that the rules have series for.
#[derive(Debug, Default)]
pub struct CustomRegistry {
    rules: Vec<DiscoveredRule>,
    sorted: SortedMetrics,
}

/// The rule and the series that a custom metric is read from.
#[derive(Clone, Debug)]
pub struct FoundMetric<'a> {
    /// The resource of the objects.
    pub resource: &'a ApiResource,
    /// The label with the name of an object in the query's result.
    pub label: String,
    /// The position of the rule in `rules`.
    pub index: usize,
    pub rule: Arc<Rule>,
    pub series: Arc<str>,
}

/// The reason why a custom metric has no query. Clients of the API receive "not found".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CustomQueryError {
    /// The request names no object.
    #[error("no resource names requested")]
    NoNames,
    /// The API has no such resource.
    #[error("unable to normalize group resource: {0}")]
    Resource(#[from] ResourceError),
    /// No rule has a series for the metric, or only one of request and metric has a namespace.
    #[error("metric {metric} is not registered for {resource}")]
    Unknown { resource: GroupResource, metric: String },
    /// The query can't be built.
    #[error("unable to construct query: {0}")]
    Query(#[from] QueryError),
}

impl CustomRegistry {
    /// The metrics of all rules. If several rules have a metric, the last one takes precedence.
    pub fn new<'s>(rules: impl IntoIterator<Item = &'s DiscoveredRule>) -> Self {
        let rules: Vec<DiscoveredRule> = rules.into_iter().cloned().collect();
        let sorted = SortedMetrics::new(&rules, |metric| metric.by_resource().next().is_some());
        Self { rules, sorted }
    }

    /// All metrics, sorted by their name and resource.
    pub fn metrics(&self) -> impl Iterator<Item = ListedCustomMetric> {
        self.sorted.names(&self.rules).flat_map(|metric| {
            let found = self.rules.iter().filter_map(|discovered| discovered.series.metric(metric));
            let mut resources: Vec<&GroupResource> = found
                .flat_map(MetricSeries::by_resource)
                .map(|(resource, _)| resource.as_ref())
                .collect();
            resources.sort_unstable();
            resources.dedup();
            resources.into_iter().map(move |resource| ListedCustomMetric {
                resource: resource.clone(),
                metric: metric.to_owned(),
                is_namespaced: resource.has_namespaced_metrics(),
            })
        })
    }

    /// The rule and the series of a metric.
    pub fn metric_rule(&self, resource: &GroupResource, metric: &str) -> Option<MetricRule> {
        last_rule(self.rules.iter().filter_map(|discovered| {
            Some((discovered, discovered.series.metric(metric)?.for_resource(resource)?))
        }))
    }

    /// The query that reads a metric of the objects with these names. Ignores `request.objects`.
    pub fn query(
        &self,
        request: &CustomQuery,
        names: &[String],
        resources: &ApiResources,
        compat: Compat,
    ) -> Result<String, CustomQueryError> {
        let FoundMetric { resource, rule, series, .. } = self.find(request, names, resources)?;
        let CustomQuery { namespace, metric_selector, .. } = request;
        let objects = QueriedObjects { resource: &resource.group_resource, namespace, names };
        Ok(rule.custom_query(&series, objects, metric_selector, resources, compat).render()?)
    }

    /// The rule and the series of a requested metric, and the label of its objects.
    pub fn find<'r>(
        &self,
        request: &CustomQuery,
        names: &[String],
        resources: &'r ApiResources,
    ) -> Result<FoundMetric<'r>, CustomQueryError> {
        let metric = &request.metric;
        if names.is_empty() {
            return Err(CustomQueryError::NoNames);
        }
        let api_resource =
            resources.resolve(&request.resource.group, &request.resource.resource)?;
        let resource = &api_resource.group_resource;
        let MetricRule { index, rule, series } = self
            .metric_rule(resource, metric)
            .filter(|_| resource.has_namespaced_metrics() == request.is_namespaced())
            .ok_or_else(|| CustomQueryError::Unknown {
                resource: resource.clone(),
                metric: metric.clone(),
            })?;
        let label = rule.labels.label(resource, resources).map_err(QueryError::from)?;
        Ok(FoundMetric { resource: api_resource, label, index, rule, series })
    }
}
