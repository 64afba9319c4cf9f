//! The reason why no rule has a metric.

use hpa_calc::report::error_texts;
use hpa_metrics::{CustomQuery, Query};

use super::state::{CompiledRule, DiscoveryState, RuleEntry, RuleList, list_rules};

impl DiscoveryState {
    /// The reason why no rule has the metric of a query. `None` for the usage of pods and nodes.
    pub(super) fn absence(&self, query: &Query) -> Option<String> {
        let (list, compiled, metric) = self.rules_for(query)?;
        let mut rules = list.entries.iter().zip(compiled).rev();
        let described = rules.find_map(|(entry, rule)| reason_of(entry, rule, query, metric));
        described.or_else(|| Some(no_rule(metric, &list.without_series())))
    }
}

/// The reason if no rule is known to describe the metric. One of the rules without series (`empty`)
/// may describe it, for example by a regular expression.
fn no_rule(metric: &str, empty: &[&str]) -> String {
    if empty.is_empty() {
        return format!("no rule of --metrics-config has {metric}");
    }
    let listed = list_rules(empty);
    let found_no_series = error_texts::FOUND_NO_SERIES;
    format!("no rule of --metrics-config has {metric} now ({listed} {found_no_series})")
}

impl RuleList {
    /// The rules whose series were read, but that have none.
    pub(super) fn without_series(&self) -> Vec<&str> {
        let statuses = self.entries.iter().map(|entry| &entry.status);
        let empty =
            statuses.filter(|status| status.series_count == 0 && status.last_success.is_some());
        empty.map(|status| status.rule.as_str()).collect()
    }
}

/// The reason why a rule doesn't have a metric that it describes, or has it for other objects.
/// `None` if the rule doesn't describe the metric, as far as that can be derived without series.
fn reason_of(
    entry: &RuleEntry,
    rule: &CompiledRule,
    query: &Query,
    metric: &str,
) -> Option<String> {
    let reason = |problem: &str| {
        format!("{} of --metrics-config describes {metric}, but {problem}", entry.status.rule)
    };
    let series = entry.discovered.as_ref().map(|discovered| &discovered.series);
    if let Query::Custom(CustomQuery { resource, .. }) = query
        && series.is_some_and(|series| series.metric(metric).is_some())
    {
        return Some(reason(&format!("not for {resource}")));
    }
    let is_described = rule.as_ref().ok()?.describes(metric);
    let problem = match series {
        Some(series) if series.series_count() == 0 => {
            format!("{} when last listed", error_texts::FOUND_NO_SERIES)
        }
        Some(_) => format!("{} in the last list", error_texts::NO_SERIES_OF_NAME),
        None => "its series could not be read".to_owned(),
    };
    is_described.then(|| reason(&problem))
}
