//! The comparison of variants as a table, and the scalings of a variant as a list.

use hpa_calc::explain::number;
use jiff::Timestamp;

use super::{
    VariantRun,
    times::{TimeFormat, format_duration},
};
use crate::{
    file::{Cost, Variant},
    measure::ACCEPTED_LATENCY,
    run::Run,
};

/// The header of a column, and a function that returns the cell of a result. If it returns `None`
/// for all results, the column is left out.
type Column = (&'static str, Box<dyn Fn(&VariantRun) -> Option<String>>);

/// The comparison of variants as text, one line per variant.
pub fn comparison_text(results: &[VariantRun]) -> String {
    let (headers, rows) = comparison_cells(results);
    let mut lines = vec![headers];
    lines.extend(rows);
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("   ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The headers and the cells of the comparison.
pub(super) fn comparison_cells(results: &[VariantRun]) -> (Vec<String>, Vec<Vec<String>>) {
    let columns: Vec<Column> = columns(results)
        .into_iter()
        .filter(|(_, cell)| results.iter().any(|result| cell(result).is_some()))
        .collect();
    let headers = columns.iter().map(|(header, _)| (*header).to_owned()).collect();
    let row = |result: &VariantRun| {
        columns.iter().map(|(_, cell)| cell(result).unwrap_or_else(|| "-".to_owned())).collect()
    };
    (headers, results.iter().map(row).collect())
}

fn columns(results: &[VariantRun]) -> Vec<Column> {
    let base = results.first().map(|(_, run)| run.outcome.pod_hours).unwrap_or_default();
    let name = results.first().map(|(variant, _)| variant.name.clone()).unwrap_or_default();
    let pod_hours = move |(variant, run): &VariantRun| {
        let hours = number(run.outcome.pod_hours);
        let change = relative_change(run.outcome.pod_hours, base).filter(|_| variant.name != name);
        Some(change.map_or(hours.clone(), |change| format!("{hours} ({change})")))
    };
    vec![
        ("VARIANT", Box::new(|(variant, _)| Some(variant.name.clone()))),
        ("POD-HOURS", Box::new(pod_hours)),
        ("COST", Box::new(|(variant, run)| cost(variant, run))),
        ("OVERLOAD", Box::new(|(_, run)| Some(percent(run.outcome.overload.share_of_load)))),
        ("OVERLOAD TIME", Box::new(|(_, run)| Some(format_duration(run.outcome.overload.seconds)))),
        ("LATENCY P99", Box::new(|(_, run)| latency(run))),
        ("WAIT P99", Box::new(|(_, run)| Some(format_duration(run.outcome.queue?.p99_seconds)))),
        ("REPLICAS", Box::new(|(_, run)| Some(replicas(run)))),
        ("SCALINGS", Box::new(|(_, run)| Some(run.outcome.rescales.total().to_string()))),
        ("REVERSALS", Box::new(|(_, run)| Some(run.outcome.rescales.reversals.to_string()))),
        ("REACTION", Box::new(|(_, run)| reaction(run))),
    ]
}

fn cost(variant: &Variant, run: &Run) -> Option<String> {
    (variant.cost.per_pod_hour > 0.0).then(|| money(run.outcome.cost, &variant.cost))
}

pub(super) fn latency(run: &Run) -> Option<String> {
    let latency = run.outcome.latency?;
    Some(format!("{}×", number(latency.p99)))
}

/// The minimum, mean and maximum replicas.
fn replicas(run: &Run) -> String {
    let replicas = run.outcome.replicas;
    format!("{}-{}, mean {}", replicas.min, replicas.max, number(replicas.mean))
}

/// The longest time with too few ready pods.
fn reaction(run: &Run) -> Option<String> {
    let reaction = run.outcome.reaction;
    (reaction.shortages > 0).then(|| format_duration(reaction.max_seconds))
}

/// Overloads are compared in steps of this share of the load.
const OVERLOAD_STEP: f64 = 1e-4;

/// The index of the variant with the least overload, in steps of [`OVERLOAD_STEP`]. If several are
/// equal, those that are not too slow come first (see [`is_too_slow`]), then those without any
/// overload, then those with the lowest cost or the fewest pod-hours (see [`cost_order`]). `None`
/// for a single variant.
pub(super) fn best_index(results: &[VariantRun]) -> Option<usize> {
    let has_prices = has_prices(results);
    let accepted_latency = accepted_latency(results);
    let key = |(_, run): &VariantRun| {
        let outcome = &run.outcome;
        let cost = if has_prices { outcome.cost } else { outcome.pod_hours };
        let overload = (outcome.overload.share_of_load / OVERLOAD_STEP).round();
        let is_slow = is_too_slow(run, accepted_latency);
        (overload, (is_slow, outcome.overload.seconds > 0.0), cost)
    };
    let keys = results.iter().map(key).enumerate();
    let best = keys.min_by(|(_, one), (_, other)| {
        one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)).then(one.2.total_cmp(&other.2))
    });
    best.map(|(index, _)| index).filter(|_| results.len() > 1)
}

/// The p99 latency up to which a variant isn't too slow: [`ACCEPTED_LATENCY`], or that of the base.
pub(super) fn accepted_latency(results: &[VariantRun]) -> f64 {
    let base = results.first().and_then(|(_, run)| run.outcome.latency);
    base.map_or(ACCEPTED_LATENCY, |latency| latency.p99.max(ACCEPTED_LATENCY))
}

/// Whether the p99 latency is above the accepted one. A run without overload is that slow if its
/// pods work at the limit of their capacity.
pub(super) fn is_too_slow(run: &Run, accepted_latency: f64) -> bool {
    run.outcome.latency.is_some_and(|latency| latency.p99 > accepted_latency)
}

/// Whether all variants have a price. If so, they are compared by money, otherwise by pod-hours.
pub(super) fn has_prices(results: &[VariantRun]) -> bool {
    results.iter().all(|(variant, _)| variant.cost.per_pod_hour > 0.0)
}

/// The criterion that decides between variants with the same overload.
pub(super) fn cost_order(results: &[VariantRun]) -> &'static str {
    if has_prices(results) { "lowest cost" } else { "fewest pod-hours" }
}

/// The scalings and problems of a run in order of time: second, replicas or duration, sentence.
pub(super) fn scalings_and_problems(run: &Run) -> Vec<(f64, String, &str)> {
    let steps = run
        .steps
        .iter()
        .map(|one| (one.second, format!("{} → {}", one.from, one.to), one.sentence.as_str()));
    let problems = run.problems.iter().map(|one| {
        (one.from, format!("for {}", format_duration(one.to - one.from)), one.sentence.as_str())
    });
    let mut rows: Vec<_> = steps.chain(problems).collect();
    rows.sort_by(|one, other| one.0.total_cmp(&other.0));
    rows
}

/// The scalings and problems of a run, one per line, with calendar times if `start` is set.
pub fn scalings_text(run: &Run, start: Option<Timestamp>) -> String {
    let line = |(second, change, sentence): (f64, String, &str)| {
        let change = change.replace('→', "->");
        format!("{:>11}  {change}: {sentence}\n", TimeFormat::of_run(start).text(second))
    };
    scalings_and_problems(run).into_iter().map(line).collect()
}

/// A share in percent with three significant digits, or `<0.01 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.01 {
        return "<0.01 %".to_owned();
    }
    format!("{} %", number(percent))
}

/// Rounds to six significant digits, to keep files and texts short.
pub fn six_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// The difference of a value from `base`, in percent of `base`, with a sign. `None` without a base.
pub fn relative_change(value: f64, base: f64) -> Option<String> {
    if base <= 0.0 {
        return None;
    }
    let change = (value / base - 1.0) * 100.0;
    let sign = if change < 0.0 { "−" } else { "+" };
    Some(if change.abs() < 0.05 {
        "±0 %".to_owned()
    } else {
        format!("{sign}{} %", number(change.abs()))
    })
}

pub(super) fn money(amount: f64, cost: &Cost) -> String {
    format!("{}{amount:.2}", cost.currency)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(90.0, 100.0, Some("−10 %"))]
    #[case(150.0, 100.0, Some("+50 %"))]
    #[case(100.0, 100.0, Some("±0 %"))]
    #[case(1.0, 0.0, None)]
    fn relative_change_has_a_sign(
        #[case] value: f64,
        #[case] base: f64,
        #[case] text: Option<&str>,
    ) {
        assert_eq!(relative_change(value, base).as_deref(), text);
    }

    #[test]
    fn small_shares_are_not_rounded_to_zero() {
        assert_eq!(
            [percent(0.0), percent(0.000_01), percent(0.1234)],
            ["0 %", "<0.01 %", "12.3 %"]
        );
    }
}
