//! The table that `hpa-bench adapter` prints.

use std::collections::BTreeSet;

use super::outcome::{AdapterOutcome, Phase};
use crate::{
    args::AdapterArguments,
    table::{mebibytes, row, seconds, write_aligned},
};

type Cell = fn(&AdapterOutcome) -> String;
type PhaseCell = fn(&Phase) -> String;
type GetPhase = fn(&AdapterOutcome) -> &Phase;

const ROWS: &[(&str, Cell)] = &[
    ("metric served after start", |one| seconds(one.ready_after)),
    ("lists of series read before the measurement", |one| one.discoveries.to_string()),
    ("CPU time until then", |one| seconds(one.usage_at_begin.cpu_seconds)),
    ("peak memory until then", |one| mebibytes(one.usage_at_begin.peak_memory)),
    ("peak memory at the end", |one| mebibytes(one.usage_at_end.peak_memory)),
    ("CPUs in use without requests", |one| format!("{:.3}", one.idle.adapter_cpus)),
    ("  of the API server", |one| format!("{:.3}", one.idle.apiserver_cpus)),
];

const PHASE_ROWS: &[(&str, PhaseCell)] = &[
    ("  requests, failed", |phase| format!("{}, {}", phase.requests, phase.failed)),
    ("  response time, median / p99", |phase| {
        let times = phase.response_times;
        format!("{} / {}", seconds(times.p50), seconds(times.p99))
    }),
    ("  adapter's CPU per request", |phase| seconds(phase.adapter_cpu_per_request)),
    ("  API server's CPU per request", |phase| seconds(phase.apiserver_cpu_per_request)),
    ("  queries to Prometheus per request", |phase| format!("{:.3}", phase.queries_per_request)),
];

/// Formats the outcomes, with a column for each adapter.
pub(crate) fn table(arguments: &AdapterArguments, outcomes: &[&AdapterOutcome]) -> String {
    let (workloads, series) = (&arguments.workloads, &arguments.series);
    let rounds = match arguments.repeat {
        1 => String::new(),
        rounds => format!(", medians of {rounds} rounds"),
    };
    let mut text = format!(
        "{} series of {} names; {} autoscalers of {} pods in {} namespaces, period {:?}, measured \
         for {:?}{rounds}\n\n",
        series.series.max(series.names),
        series.names,
        workloads.autoscalers,
        workloads.pods,
        workloads.namespaces,
        workloads.period,
        arguments.duration,
    );
    let line = |name: &str, cell: &dyn Fn(&AdapterOutcome) -> String| {
        [vec![name.to_owned()], outcomes.iter().map(|one| cell(one)).collect()].concat()
    };
    let mut rows = vec![line("", &|one| one.adapter.clone())];
    rows.extend(ROWS.iter().map(|(name, cell)| line(name, cell)));
    let phases: [(&str, GetPhase); 2] = [
        ("requests through the API server", |one| &one.aggregated),
        ("requests past the API server", |one| &one.direct),
    ];
    for (heading, phase) in phases {
        rows.push(Vec::new());
        rows.push(vec![heading.to_owned()]);
        rows.extend(PHASE_ROWS.iter().map(|(name, cell)| line(name, &|one| cell(phase(one)))));
        rows.push(vec!["  the adapter's requests to the API server, per request".to_owned()]);
        let kinds = outcomes.iter().flat_map(|one| phase(one).api_requests_per_request.keys());
        let kinds: BTreeSet<&String> = kinds.collect();
        let count = |one: &AdapterOutcome, kind: &String| {
            let count = phase(one).api_requests_per_request.get(kind);
            count.map(|count| format!("{count:.3}"))
        };
        rows.extend(kinds.into_iter().filter_map(|kind| {
            row(&format!("    {kind}"), outcomes.iter().map(|one| count(one, kind)).collect())
        }));
    }
    write_aligned(&mut text, &rows);
    text
}
