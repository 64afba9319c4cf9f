//! Finds the rule and the series of a metric.

mod custom;
mod external;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use custom::{CustomQueryError, CustomRegistry, FoundMetric};
pub use external::ExternalRegistry;

use crate::rules::{
    rule::Rule,
    series::{MetricSeries, RuleSeries},
};

/// A rule with its series from the last successful discovery.
#[derive(Clone, Debug)]
pub struct DiscoveredRule {
    /// The position of the rule in `rules` or `externalRules`.
    pub index: usize,
    pub rule: Arc<Rule>,
    pub series: Arc<RuleSeries>,
}

/// The rule and the series of a metric.
#[derive(Clone, Debug)]
pub struct MetricRule {
    /// The position of the rule in `rules` or `externalRules`.
    pub index: usize,
    pub rule: Arc<Rule>,
    pub series: Arc<str>,
}

/// The rule of a metric: the last of the `candidates`, which are the rules that have it.
fn last_rule<'s>(
    candidates: impl Iterator<Item = (&'s DiscoveredRule, &'s str)>,
) -> Option<MetricRule> {
    let (DiscoveredRule { index, rule, .. }, series) = candidates.last()?;
    Some(MetricRule { index: *index, rule: rule.clone(), series: series.into() })
}

/// The metrics of a list of rules, sorted by name. An item has the positions of a rule in the list
/// and of a metric in [`RuleSeries::metrics`] of the rule.
#[derive(Debug, Default)]
struct SortedMetrics(Vec<(u32, u32)>);

impl SortedMetrics {
    /// Sorts the metrics that `is_included` accepts, each name once.
    fn new(rules: &[DiscoveredRule], is_included: impl Fn(MetricSeries<'_>) -> bool) -> Self {
        let all = (0..).zip(rules).flat_map(|(position, rule)| {
            (0..).zip(rule.series.metrics()).map(move |(index, metric)| (position, index, metric))
        });
        let included = all.filter(|(_, _, metric)| is_included(*metric));
        let mut sorted: Vec<(u32, u32)> =
            included.map(|(position, index, _)| (position, index)).collect();
        let name = |entry: &(u32, u32)| metric_at(rules, *entry).map(|metric| metric.metric);
        sorted.sort_unstable_by(|left, right| name(left).cmp(&name(right)));
        sorted.dedup_by(|left, right| name(left) == name(right));
        sorted.shrink_to_fit();
        Self(sorted)
    }

    fn names<'s>(&'s self, rules: &'s [DiscoveredRule]) -> impl Iterator<Item = &'s str> {
        let found = self.0.iter().filter_map(|entry| metric_at(rules, *entry));
        found.map(|metric| metric.metric)
    }
}

fn metric_at(rules: &[DiscoveredRule], (rule, metric): (u32, u32)) -> Option<MetricSeries<'_>> {
    rules.get(rule as usize)?.series.metric_at(metric)
}
