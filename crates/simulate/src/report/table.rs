//! The comparison of variants, and the scalings of one, as text.

use hpa_calc::explain::number;

use super::{
    Result,
    format::{change, clock, money, percent, span},
};
use crate::{file::Variant, run::Run};

/// The header of a column, and its cell for a variant. A column without a cell is left out.
type Column = (&'static str, Box<dyn Fn(&Result) -> Option<String>>);

/// One line per variant.
pub fn table(results: &[Result]) -> String {
    let (headers, rows) = cells(results);
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
pub(super) fn cells(results: &[Result]) -> (Vec<String>, Vec<Vec<String>>) {
    let columns: Vec<Column> = columns(results)
        .into_iter()
        .filter(|(_, cell)| results.iter().any(|result| cell(result).is_some()))
        .collect();
    let headers = columns.iter().map(|(header, _)| (*header).to_owned()).collect();
    let row = |result: &Result| {
        columns.iter().map(|(_, cell)| cell(result).unwrap_or_else(|| "-".to_owned())).collect()
    };
    (headers, results.iter().map(row).collect())
}

fn columns(results: &[Result]) -> Vec<Column> {
    let base = results.first().map(|(_, run)| run.outcome.pod_hours).unwrap_or_default();
    let name = results.first().map(|(variant, _)| variant.name.clone()).unwrap_or_default();
    let pod_hours = move |(variant, run): &Result| {
        let hours = number(run.outcome.pod_hours);
        let change = change(run.outcome.pod_hours, base).filter(|_| variant.name != name);
        Some(change.map_or(hours.clone(), |change| format!("{hours} ({change})")))
    };
    vec![
        ("VARIANT", Box::new(|(variant, _)| Some(variant.name.clone()))),
        ("POD-HOURS", Box::new(pod_hours)),
        ("COST", Box::new(|(variant, run)| cost(variant, run))),
        ("OVERLOAD", Box::new(|(_, run)| Some(percent(run.outcome.overload.share_of_load)))),
        ("OVERLOAD TIME", Box::new(|(_, run)| Some(span(run.outcome.overload.seconds)))),
        ("LATENCY P99", Box::new(|(_, run)| latency(run))),
        ("WAIT P99", Box::new(|(_, run)| Some(span(run.outcome.queue?.p99_seconds)))),
        ("REPLICAS", Box::new(|(_, run)| Some(replicas(run)))),
        ("SCALINGS", Box::new(|(_, run)| Some(run.outcome.rescales.total().to_string()))),
        ("REVERSALS", Box::new(|(_, run)| Some(run.outcome.rescales.reversals.to_string()))),
        ("REACTION", Box::new(|(_, run)| reaction(run))),
    ]
}

fn cost(variant: &Variant, run: &Run) -> Option<String> {
    (variant.cost.per_pod_hour > 0.0).then(|| money(run.outcome.cost, &variant.cost))
}

fn latency(run: &Run) -> Option<String> {
    let latency = run.outcome.latency?;
    Some(format!("{}×", number(latency.p99)))
}

/// The least, the mean and the most replicas.
fn replicas(run: &Run) -> String {
    let replicas = run.outcome.replicas;
    format!("{}-{}, mean {}", replicas.min, replicas.max, number(replicas.mean))
}

/// The longest time with too few ready pods.
fn reaction(run: &Run) -> Option<String> {
    let reaction = run.outcome.reaction;
    (reaction.shortages > 0).then(|| span(reaction.max_seconds))
}

/// The scalings and problems of a run, one per line.
pub fn steps(run: &Run) -> String {
    let step = |step: &crate::run::Step| {
        (step.second, format!("{} -> {}: {}", step.from, step.to, step.sentence))
    };
    let problem = |problem: &crate::run::Problem| {
        let text = format!("for {}: {}", span(problem.to - problem.from), problem.sentence);
        (problem.from, text)
    };
    let mut lines: Vec<(f64, String)> =
        run.steps.iter().map(step).chain(run.problems.iter().map(problem)).collect();
    lines.sort_by(|one, other| one.0.total_cmp(&other.0));
    let line = |(second, text): &(f64, String)| format!("{:>11}  {text}", clock(*second));
    let lines: Vec<String> = lines.iter().map(line).collect();
    if lines.is_empty() { String::new() } else { lines.join("\n") + "\n" }
}
