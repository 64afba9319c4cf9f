//! The table that `hpa-bench run` prints.

use std::{collections::BTreeSet, fmt::Write as _};

use crate::{
    args::{ApiServer, RunArguments, value_name},
    measure::{CountedBy, Outcome, Requests},
    stats::Summary,
};

type Cell = fn(&Outcome) -> String;
/// Returns `None` if the value is unknown. A row without any values is left out.
type OptionalCell = fn(&Outcome) -> Option<String>;

const ROWS: &[(&str, Cell)] = &[
    ("time until all autoscalers are decided", all_decided),
    ("  first decision, median / p99", |one| median_and_p99(one.decided)),
    ("CPU time until the measurement", |one| format_seconds(one.usage_at_begin.cpu_seconds)),
    ("peak memory until the measurement", |one| mebibytes(one.usage_at_begin.peak_memory)),
    ("peak memory at the end", |one| mebibytes(one.usage_at_end.peak_memory)),
    ("reconciles per second", |one| format!("{:.1}", one.reconciles_per_second)),
    ("reconciles made / due", |one| format!("{} / {:.0}", one.reconciles, one.reconciles_due)),
    ("  overdue at the end", |one| {
        one.overdue_at_end.map_or_else(unknown, |count| count.to_string())
    }),
    ("  counted by", |one| counted_by(one).to_owned()),
    ("  by its own metrics", |one| {
        one.own_reconciles.map_or_else(unknown, |count| count.to_string())
    }),
    ("cycle, median / p99", |one| one.cycle.map_or_else(unknown, median_and_p99)),
    ("  p99.9 / max", |one| one.cycle.map_or_else(unknown, p999_and_max)),
    ("lateness, median / p99", |one| one.lateness.map_or_else(unknown, median_and_p99)),
    ("  p99.9 / max", |one| one.lateness.map_or_else(unknown, p999_and_max)),
    ("  mean, by its own metrics", |one| one.own_lateness.map_or_else(unknown, format_seconds)),
    ("CPU per reconcile", |one| format_seconds(one.cpu_per_reconcile)),
    ("CPUs in use", |one| format!("{:.3}", one.cpus)),
    ("new autoscaler decided, median / max", new_decided),
    ("requests per reconcile", |one| format!("{:.3}", one.requests_per_reconcile)),
    ("received per second", |one| format!("{:.2} MiB", one.bytes_per_second / MEBI)),
];

const OPTIONAL_ROWS: &[(&str, OptionalCell)] = &[
    ("server's CPUs in use", |one| one.server_cpus.map(|cpus| format!("{cpus:.3}"))),
    ("server's CPU per reconcile", |one| one.server_cpu_per_reconcile.map(format_seconds)),
    ("server's peak memory", |one| one.server_peak_memory.map(mebibytes)),
    ("server's response time, median / p99 / max", |one| {
        let times = one.server_response_times;
        Some(format!("{} / {}", median_and_p99(times), format_seconds(times.max)))
    }),
    ("queries per namespace and period, mean / max", |one| {
        let queries = one.prometheus.as_ref()?;
        let (mean, most) = (queries.per_namespace_and_period, queries.per_period_at_most);
        Some(format!("{mean:.2} / {most:.2}"))
    }),
    ("queries per reconcile", |one| Some(format!("{:.3}", one.prometheus.as_ref()?.per_reconcile))),
];

/// Formats the outcomes, with a column for each controller.
pub(crate) fn table(arguments: &RunArguments, outcomes: &[&Outcome]) -> String {
    let population = &arguments.population;
    let text = format!(
        "{} autoscalers of {} pods in {} namespaces, {} metric, {} load, period {:?}, \
         measured for {:?} against {}{}\n\n",
        population.autoscalers,
        population.pods,
        population.namespaces,
        value_name(&population.metric),
        value_name(&population.change),
        population.period,
        arguments.duration,
        match arguments.server {
            ApiServer::Testbed => "the testbed",
            ApiServer::KubeApiserver(_) => "kube-apiserver",
            ApiServer::Kubeconfig(_) => "the server of a kubeconfig",
        },
        rounds_text(arguments.repeat)
    );
    let headings =
        outcomes.iter().enumerate().map(|(index, one)| column_heading(outcomes, index, one));
    let mut table = Table::new(outcomes, headings);
    for (name, cell) in ROWS {
        table.add_row(name, cell);
    }
    for (name, cell) in OPTIONAL_ROWS {
        table.add_optional_row(name, cell);
    }
    table.add_line("");
    table.add_line("requests per reconcile (and total, including those before the measurement)");
    add_request_rows(&mut table, |requests| Some(request_cell(requests)));
    table.add_line("");
    let restriction = match arguments.server {
        ApiServer::Testbed | ApiServer::Kubeconfig(_) => "",
        ApiServer::KubeApiserver(_) => " (kube-apiserver has no numbers for writes)",
    };
    table.add_line(&format!("bytes received per reconcile{restriction}"));
    add_request_rows(&mut table, byte_cell);
    text + &table.to_text()
}

/// The number of rounds, for the text above a table. Empty if there is only one.
pub(crate) fn rounds_text(repeat: u32) -> String {
    match repeat {
        1 => String::new(),
        rounds => format!(", medians of {rounds} rounds"),
    }
}

/// Returns the heading of a column. Controllers with the same name are numbered.
fn column_heading(outcomes: &[&Outcome], index: usize, one: &Outcome) -> String {
    let has_namesake =
        outcomes.iter().filter(|other| other.controller == one.controller).count() > 1;
    if has_namesake {
        format!("{} ({})", one.controller, index + 1)
    } else {
        one.controller.clone()
    }
}

fn all_decided(one: &Outcome) -> String {
    if one.decided.count < one.autoscalers {
        return format!("{} of {} undecided", one.autoscalers - one.decided.count, one.autoscalers);
    }
    format_seconds(one.decided.max)
}

fn new_decided(one: &Outcome) -> String {
    let Summary { count, p50, max, .. } = one.extra_decided;
    let undecided = match one.extra_undecided {
        0 => String::new(),
        count => format!(", {count} undecided"),
    };
    if count == 0 {
        format!("-{undecided}")
    } else {
        format!("{} / {}{undecided}", format_seconds(p50), format_seconds(max))
    }
}

fn counted_by(one: &Outcome) -> &'static str {
    match one.reconciles_counted_by {
        CountedBy::StatusWrites => "status writes",
        CountedBy::OwnMetrics => "its own metrics",
        CountedBy::ScaleReads => "reads of scales",
    }
}

pub(crate) fn median_and_p99(times: Summary) -> String {
    format!("{} / {}", format_seconds(times.p50), format_seconds(times.p99))
}

fn p999_and_max(times: Summary) -> String {
    format!("{} / {}", format_seconds(times.p999), format_seconds(times.max))
}

/// Adds a row for each kind of request that any controller has a value for.
fn add_request_rows(table: &mut Table<'_, Outcome>, cell: fn(&Requests) -> Option<String>) {
    let outcomes = table.outcomes;
    let kinds: BTreeSet<&String> = outcomes.iter().flat_map(|one| one.requests.keys()).collect();
    for kind in kinds {
        table.add_optional_row(&format!("  {kind}"), |one| one.requests.get(kind).and_then(cell));
    }
}

fn request_cell(requests: &Requests) -> String {
    let failed = match requests.failed {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    format!("{:.3} ({}{failed})", requests.per_reconcile, requests.at_start + requests.count)
}

fn byte_cell(requests: &Requests) -> Option<String> {
    (requests.bytes > 0).then(|| format!("{:.0}", requests.bytes_per_reconcile))
}

pub(crate) const MEBI: f64 = 1_048_576.0;

/// The cell of an unknown value.
fn unknown() -> String {
    "-".to_owned()
}

/// Formats a time in seconds, milliseconds or microseconds.
pub(crate) fn format_seconds(seconds: f64) -> String {
    if seconds >= 0.9995 {
        format!("{seconds:.2} s")
    } else if seconds >= 0.000_999_5 {
        format!("{:.1} ms", seconds * 1e3)
    } else {
        format!("{:.0} µs", seconds * 1e6)
    }
}

pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / MEBI)
}

/// A table with a column for each outcome.
pub(crate) struct Table<'a, T> {
    outcomes: &'a [&'a T],
    /// A name and a cell for each outcome, or only a text.
    rows: Vec<Vec<String>>,
}

impl<'a, T> Table<'a, T> {
    pub(crate) fn new(outcomes: &'a [&'a T], headings: impl IntoIterator<Item = String>) -> Self {
        let rows = vec![[String::new()].into_iter().chain(headings).collect()];
        Self { outcomes, rows }
    }

    pub(crate) fn add_row(&mut self, name: &str, cell: impl Fn(&T) -> String) {
        self.add_optional_row(name, |one| Some(cell(one)));
    }

    /// Adds a row, unless no cell has a value.
    pub(crate) fn add_optional_row(&mut self, name: &str, cell: impl Fn(&T) -> Option<String>) {
        let cells: Vec<Option<String>> = self.outcomes.iter().map(|one| cell(one)).collect();
        if cells.iter().any(Option::is_some) {
            let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(unknown));
            self.rows.push([name.to_owned()].into_iter().chain(cells).collect());
        }
    }

    /// Adds a line that spans all columns.
    pub(crate) fn add_line(&mut self, text: &str) {
        self.rows.push(vec![text.to_owned()]);
    }

    /// The first column is left-aligned, the others are right-aligned.
    pub(crate) fn to_text(&self) -> String {
        let full = self.rows.iter().filter(|row| row.len() > 1);
        let width = |column: usize| {
            full.clone().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..=self.outcomes.len()).filter_map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
                // Writing to a string cannot fail.
                let _ = if index == 0 {
                    write!(line, "{cell:width$}")
                } else {
                    write!(line, "  {cell:>width$}")
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0.0, "0 µs")]
    #[case(0.000_25, "250 µs")]
    #[case(0.000_999_6, "1.0 ms")]
    #[case(0.25, "250.0 ms")]
    #[case(0.9996, "1.00 s")]
    #[case(15.0, "15.00 s")]
    fn time_is_formatted_in_a_suitable_unit(#[case] time: f64, #[case] expected: &str) {
        assert_eq!(format_seconds(time), expected);
    }

    #[test]
    fn row_without_values_is_left_out() {
        let outcomes = [&0, &1];
        let mut table = Table::new(&outcomes, ["x", "y"].map(ToOwned::to_owned));
        table.add_optional_row("none", |_| None);
        table.add_optional_row("some", |one| (*one > 0).then(|| one.to_string()));
        assert_eq!(table.to_text(), "      x  y\nsome  -  1\n");
    }

    #[test]
    fn columns_are_aligned_and_headings_do_not_widen_them() {
        let outcomes = [&1];
        let mut table = Table::new(&outcomes, ["a".to_owned()]);
        table.add_row("long", ToString::to_string);
        table.add_line("a long heading");
        table.add_row("b", |one| (one * 100).to_string());
        assert_eq!(table.to_text(), "        a\nlong    1\na long heading\nb     100\n");
    }
}
