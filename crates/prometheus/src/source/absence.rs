//! The reason why no rule has a metric.

use hpa_calc::report::error_texts;
use hpa_metrics::{CustomQuery, Query};

use super::state::{CompiledRule, DiscoveryState, RuleEntry, list_rules};

impl DiscoveryState {
    /// The reason why no rule has the metric of a query. `None` for the usage of pods and nodes.
    pub(super) fn absence(&self, query: &Query) -> Option<String> {
        let (list, compiled, metric) = self.rules_for(query)?;
        let rules = || list.entries.iter().zip(compiled);
        let mut latest_first = rules().rev();
        let reason = latest_first.find_map(|(entry, rule)| reason_of(entry, rule, query, metric));
        reason.or_else(|| {
            let may_have = |rule: &CompiledRule| rule.as_ref().is_ok_and(|it| it.may_have(metric));
            let empty = rules().filter(|(entry, rule)| entry.has_no_series() && may_have(rule));
            let empty: Vec<&str> = empty.map(|(entry, _)| entry.status.rule.as_str()).collect();
            Some(no_rule(metric, &empty))
        })
    }
}

/// The reason if no rule is known to describe the metric. Each of the rules without series
/// (`empty`) may describe it, for example by a regular expression.
fn no_rule(metric: &str, empty: &[&str]) -> String {
    if empty.is_empty() {
        return format!("no rule of --metrics-config has {metric}");
    }
    let listed = list_rules(empty);
    let found_no_series = error_texts::FOUND_NO_SERIES;
    format!("no rule of --metrics-config has {metric} now ({listed} {found_no_series})")
}

impl RuleEntry {
    /// Whether the series of the rule were read, and there are none.
    fn has_no_series(&self) -> bool {
        self.status.series_count == 0 && self.status.last_success.is_some()
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
        format!("{} of --metrics-config describes {metric}, {problem}", entry.status.rule)
    };
    let series = entry.discovered.as_ref().map(|discovered| &discovered.series);
    if let Query::Custom(CustomQuery { resource, .. }) = query
        && series.is_some_and(|series| series.metric(metric).is_some())
    {
        return Some(reason(&format!("{}{resource}", error_texts::OF_OTHER_RESOURCES)));
    }
    if !rule.as_ref().ok()?.will_have(metric) {
        return None;
    }
    let problem = match series {
        Some(series) if series.series_count() == 0 => {
            format!("but {} when last listed", error_texts::FOUND_NO_SERIES)
        }
        Some(_) => format!("but {} in the last list", error_texts::NO_SERIES_OF_NAME),
        None => "but its series could not be read".to_owned(),
    };
    Some(reason(&problem))
}
