//! The reason why no rule has a metric.

use std::sync::Arc;

use crate::{
    promql::{self, Expr, Node},
    rules::{Rule, rule::Naming, ruleset::InvalidRule},
};
use hpa_metrics::{CustomQuery, ExternalQuery, Query};

use super::state::{DiscoveryState, RuleEntry, RuleList};

/// The maximum number of rules in a reason.
const MAX_RULES: usize = 3;

impl DiscoveryState {
    /// The reason why no rule has the metric of a query. `None` for the usage of pods and nodes.
    pub(super) fn absence(&self, query: &Query) -> Option<String> {
        let (list, compiled, metric) = match query {
            Query::Custom(CustomQuery { metric, .. }) => {
                (&self.custom, &self.compiled.custom, metric)
            }
            Query::External(ExternalQuery { metric, .. }) => {
                (&self.external, &self.compiled.external, metric)
            }
            Query::PodUsage { .. } | Query::NodeUsage { .. } => return None,
        };
        let mut known = list.entries.iter().zip(compiled).rev();
        let described = known.find_map(|(entry, rule)| reason_of(entry, rule, query, metric));
        described.or_else(|| Some(no_rule(metric, &list.without_series())))
    }
}

/// The reason if no rule describes the metric. `empty` are the rules without series: one of them
/// may describe it all the same.
fn no_rule(metric: &str, empty: &[&str]) -> String {
    if empty.is_empty() {
        return format!("no rule of --metrics-config has {metric}");
    }
    let listed = empty.iter().take(MAX_RULES).copied().collect::<Vec<_>>().join(", ");
    let more = match empty.len().saturating_sub(MAX_RULES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("no rule of --metrics-config has {metric} now ({listed}{more} found no series)")
}

impl RuleList {
    /// The rules whose series were read, but that have none.
    pub(super) fn without_series(&self) -> Vec<&str> {
        let statuses = self.entries.iter().map(|entry| &entry.status);
        let empty = statuses.filter(|one| one.series == 0 && one.last_success.is_some());
        empty.map(|one| one.rule.as_str()).collect()
    }
}

/// The reason why a rule doesn't have a metric that it describes, or has it for other objects.
/// `None` if the rule doesn't describe the metric, as far as that can be derived without series.
fn reason_of(
    entry: &RuleEntry,
    rule: &Result<Arc<Rule>, InvalidRule>,
    query: &Query,
    metric: &str,
) -> Option<String> {
    let reason = |problem: &str| {
        format!("{} of --metrics-config describes {metric}, but {problem}", entry.status.rule)
    };
    let series = entry.source.as_ref().map(|source| &source.series);
    if let Query::Custom(CustomQuery { resource, .. }) = query
        && series.is_some_and(|series| series.metric(metric).is_some())
    {
        return Some(reason(&format!("not for {resource}")));
    }
    let rule = rule.as_ref().ok()?;
    let is_described =
        rule.naming(constant_name(rule.series_query())?) == Naming::Metric(metric.to_owned());
    let problem = match series {
        Some(series) if series.series_count() == 0 => "found no series now",
        Some(_) => "none of its series has that name now",
        None => "its series could not be read",
    };
    is_described.then(|| reason(problem))
}

/// The name of the series that a `seriesQuery` selects, if it is a constant.
fn constant_name(series_query: &str) -> Option<&str> {
    match promql::parse_without_regexes(series_query) {
        Ok(Expr { node: Node::Selector(selector), .. }) => selector.metric_name(),
        _ => None,
    }
}
