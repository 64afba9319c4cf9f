//! Finds likely mistakes in a query, and names that are similar to a mistyped one.

use std::cmp::Reverse;

use super::{MAX_EXAMPLES, Warning};
use crate::{
    promql::{self, Node, is_one_of},
    rules::{
        counter::plain_counter,
        quantile::aggregation_without_le,
        query::{example_query, selects_objects},
        registry::DiscoveredRule,
    },
};

/// Suffixes of series whose unit is often confused in targets, with the unit and advice.
const UNITS: [(&[&str], &str, &str); 5] = [
    (&["_milliseconds", "_ms"], "milliseconds", "a target of 500m is half a millisecond"),
    (&["_microseconds", "_us"], "microseconds", "a target of 1 is a microsecond"),
    (&["_kilobytes", "_kb", "_megabytes", "_mb"], "multiples of bytes", "don't use Ki, Mi or Gi"),
    (&["_percent", "_percentage"], "percent", "a target of 80 is 80 percent"),
    (&["_ratio"], "a ratio from 0 to 1", "80 percent is a target of 800m"),
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
/// other resources: a query that groups by one of them is not a mistake. A query that isn't PromQL
/// is checked only for its selection of objects.
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
    let Ok(expr) = promql::parse(query) else { return warnings };
    let names_objects =
        |grouped: &&str| *grouped == label || others.iter().any(|other| other == grouped);
    let (mut aggregates, mut has_grouping) = (false, false);
    expr.visit(&mut |expr| {
        if let Node::Aggregation(name, grouping, _) = &expr.node {
            aggregates |= is_one_of(name, &["sum", "avg", "max", "min", "count"]);
            has_grouping |= grouping.as_ref().is_some_and(|grouping| {
                !grouping.is_by || grouping.labels.iter().any(names_objects)
            });
        }
    });
    if aggregates && !has_grouping {
        warnings.push(Warning::NotGroupedBy { label: label.to_owned() });
    }
    warnings
}

/// The [`MAX_EXAMPLES`] most similar names, best first. Leaves out names that have no word and no
/// first letter in common with `name`.
pub(super) fn similar_names(name: &str, names: &[&str]) -> Vec<String> {
    let mut scored: Vec<(usize, &str)> =
        names.iter().map(|other| (similarity(name, other), *other)).collect();
    scored.retain(|(score, _)| *score > 0);
    scored.sort_by_key(|(score, other)| (Reverse(*score), *other));
    scored.into_iter().take(MAX_EXAMPLES).map(|(_, other)| other.to_owned()).collect()
}

/// The number of bytes in the words that both names have, plus the length of their common prefix.
fn similarity(name: &str, other: &str) -> usize {
    const SEPARATORS: [char; 3] = ['_', ':', '.'];
    let others: Vec<&str> = other.split(SEPARATORS).collect();
    let words = name.split(SEPARATORS).filter(|word| others.contains(word));
    let common: usize = words.map(str::len).sum();
    let prefix = name.bytes().zip(other.bytes()).take_while(|(one, two)| one == two).count();
    common + prefix
}
