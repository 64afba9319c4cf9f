//! The metrics of `external.metrics.k8s.io`.

use hpa_calc::Selector;

use super::{DiscoveredRule, MetricRule, SortedMetrics, last_rule};
use crate::rules::{Compat, query::QueryError};
use hpa_metrics::{resource::ApiResources, source::ListedExternalMetric};

/// All external metrics that the rules have series for.
#[derive(Debug, Default)]
pub struct ExternalRegistry {
    rules: Vec<DiscoveredRule>,
    sorted: SortedMetrics,
}

/// The reason that an external metric has no query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExternalQueryError {
    /// No rule has a series for the metric.
    #[error("external metric {0} is not registered")]
    Unknown(String),
    /// The query can't be built.
    #[error("unable to generate a query for the metric: {0}")]
    Query(#[from] QueryError),
}

impl ExternalRegistry {
    /// The metrics of all rules. If several rules have a metric, the last one takes precedence.
    pub fn new<'s>(rules: impl IntoIterator<Item = &'s DiscoveredRule>) -> Self {
        let rules: Vec<DiscoveredRule> = rules.into_iter().cloned().collect();
        let sorted = SortedMetrics::new(&rules, |_| true);
        Self { rules, sorted }
    }

    /// All metrics, sorted by their name. With compatibility, all are listed as namespaced, as in
    /// prometheus-adapter. Otherwise, a metric is namespaced if its rule selects the namespace of a
    /// request.
    pub fn metrics(&self, compat: Compat) -> impl Iterator<Item = ListedExternalMetric> {
        self.sorted.names(&self.rules).map(move |metric| {
            let mut rules = self.rules.iter().rev();
            let last = rules.find(|discovered| discovered.series.metric(metric).is_some());
            let is_namespaced = last.is_some_and(|discovered| discovered.rule.is_namespaced);
            let is_namespaced = is_namespaced || compat == Compat::Reference;
            ListedExternalMetric { metric: metric.to_owned(), is_namespaced }
        })
    }

    /// The rule and the series of a metric.
    pub fn metric_rule(&self, metric: &str) -> Option<MetricRule> {
        last_rule(
            self.rules.iter().filter_map(|discovered| {
                Some((discovered, discovered.series.metric(metric)?.last))
            }),
        )
    }

    /// The query that reads a metric.
    pub fn query(
        &self,
        namespace: &str,
        metric: &str,
        selector: &Selector,
        resources: &ApiResources,
        compat: Compat,
    ) -> Result<String, ExternalQueryError> {
        let found = self.metric_rule(metric);
        let MetricRule { rule, series, .. } =
            found.ok_or_else(|| ExternalQueryError::Unknown(metric.to_owned()))?;
        Ok(rule.external_query(&series, namespace, selector, resources, compat)?)
    }
}
