//! The metrics of `external.metrics.k8s.io`.

use super::{DiscoveredRule, MetricRule, SortedMetrics, last_rule};
use crate::rules::Compat;
use hpa_metrics::source::ListedExternalMetric;

/// All external metrics that the rules have series for.
#[derive(Debug, Default)]
pub struct ExternalRegistry {
    rules: Vec<DiscoveredRule>,
    sorted: SortedMetrics,
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
            let is_namespaced = compat == Compat::Reference
                || self.metric_rule(metric).is_some_and(|found| found.rule.is_namespaced);
            ListedExternalMetric { metric: metric.to_owned(), is_namespaced }
        })
    }

    /// The rule and the series of a metric.
    pub fn metric_rule(&self, metric: &str) -> Option<MetricRule> {
        last_rule(self.rules.iter().filter_map(|discovered| {
            Some((discovered, discovered.series.metric(metric)?.last_series))
        }))
    }
}
