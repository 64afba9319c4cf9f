//! Finds likely mistakes in a query, and names that are similar to a mistyped one.

use std::cmp::Reverse;

use super::Warning;
use crate::rules::{
    counter::plain_counter,
    quantile::aggregation_without_le,
    query::{example_query, selects_objects},
    registry::DiscoveredRule,
};

/// Suffixes of series whose unit is often confused in targets, with the unit and advice.
const UNITS: [(&[&str], &str, &str); 5] = [
    (&["_milliseconds", "_ms"], "milliseconds", "a target of 500m is half a millisecond"),
    (&["_microseconds", "_us"], "microseconds", "a target of 1 is a microsecond"),
    (&["_kilobytes", "_kb", "_megabytes", "_mb"], "multiples of bytes", "don't use Ki, Mi or Gi"),
    (&["_percent", "_percentage"], "percent", "a target of 80 is 80 percent"),
    (&["_ratio"], "a ratio from 0 to 1", "80 percent are a target of 800m"),
];

/// Finds likely mistakes by heuristics, because a query can be any expression.
pub(super) fn warnings(
    discovered: &DiscoveredRule,
    series: &str,
    query: &str,
    label: Option<&str>,
) -> Vec<Warning> {
    let mut warnings = expression_warnings(series, query);
    let unit = UNITS.iter().find(|(ends, ..)| ends.iter().any(|end| series.ends_with(end)));
    if let Some((_, unit, hint)) = unit {
        warnings.push(Warning::Unit { series: series.to_owned(), unit, hint });
    }
    // An external metric has no label, because it has no objects.
    if let Some(label) = label {
        let template = discovered.rule.query.text();
        warnings.extend(object_warnings(template, query, label, &[]));
    }
    warnings
}

/// Warns if a query reads a counter without its rate, or computes a quantile without `le`. `query`
/// may be a template for the series.
pub fn expression_warnings(series: &str, query: &str) -> Vec<Warning> {
    let query = example_query(query, series);
    let counter = plain_counter(&query).map(|series| Warning::CounterWithoutRate { series });
    let quantile = aggregation_without_le(&query);
    let quantile = quantile.map(|aggregation| Warning::QuantileWithoutLe { aggregation });
    counter.into_iter().chain(quantile).collect()
}

/// Finds likely mistakes in a query for objects that `label` names. `others` are the labels of
/// other resources: a query that groups by one of them is not a mistake.
pub(in crate::rules) fn object_warnings(
    template: &str,
    query: &str,
    label: &str,
    others: &[String],
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if !selects_objects(template) {
        warnings.push(Warning::NoMatchers);
    }
    let aggregations = ["sum", "avg", "max", "min", "count"];
    let words = || query.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    let aggregates = words().any(|word| aggregations.contains(&word));
    let has_grouping = words().any(|word| word == "without")
        || is_grouped_by(query, label)
        || others.iter().any(|other| is_grouped_by(query, other));
    if aggregates && !has_grouping {
        warnings.push(Warning::NotGroupedBy { label: label.to_owned() });
    }
    warnings
}

/// Whether a `by (…)` has the label.
fn is_grouped_by(query: &str, label: &str) -> bool {
    query.match_indices("by").any(|(start, by)| {
        let after = query.get(start + by.len()..).unwrap_or_default().trim_start();
        let list = after.strip_prefix('(').and_then(|list| list.split_once(')'));
        list.is_some_and(|(list, _)| list.split(',').any(|grouped| grouped.trim() == label))
    })
}

/// The most similar names, at most `max`, best first. Leaves out names that have no word and no
/// first letter in common with `name`.
pub(super) fn similar_names(name: &str, names: &[&str], max: usize) -> Vec<String> {
    let mut scored: Vec<(usize, &str)> =
        names.iter().map(|other| (similarity(name, other), *other)).collect();
    scored.retain(|(score, _)| *score > 0);
    scored.sort_by_key(|(score, other)| (Reverse(*score), *other));
    scored.into_iter().take(max).map(|(_, other)| other.to_owned()).collect()
}

/// The number of bytes in the words that both names have, plus the length of their common prefix.
fn similarity(name: &str, other: &str) -> usize {
    let words = |text: &str| text.split(['_', ':', '.']).map(str::to_owned).collect::<Vec<_>>();
    let others = words(other);
    let common: usize =
        words(name).iter().filter(|word| others.contains(word)).map(String::len).sum();
    let prefix = name.bytes().zip(other.bytes()).take_while(|(one, two)| one == two).count();
    common + prefix
}
