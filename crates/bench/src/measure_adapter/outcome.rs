//! The numbers of one adapter.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use serde::{Deserialize, Serialize};

use super::requests::SentRequests;
use crate::{
    args::AdapterArguments,
    report::{Table, format_seconds, mebibytes, median_and_p99, rounds_text},
    stats::{Summary, Usage},
};

/// All measured values at one time.
pub(super) struct Snapshot {
    pub(super) at: Instant,
    pub(super) adapter_usage: Usage,
    /// Usage of etcd and the API server.
    pub(super) apiserver_usage: Usage,
    /// Requests of the adapter to the API server, by kind.
    pub(super) requests: BTreeMap<String, u64>,
    /// Queries to Prometheus.
    pub(super) queries: u64,
}

/// CPU time per second without requests.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct IdleUsage {
    pub(crate) adapter_cpus: f64,
    pub(crate) apiserver_cpus: f64,
}

impl IdleUsage {
    pub(super) fn new(begin: &Snapshot, end: &Snapshot) -> Self {
        let seconds = (end.at - begin.at).as_secs_f64();
        let cpus = |end: Usage, begin: Usage| (end.cpu_seconds - begin.cpu_seconds) / seconds;
        Self {
            adapter_cpus: cpus(end.adapter_usage, begin.adapter_usage),
            apiserver_cpus: cpus(end.apiserver_usage, begin.apiserver_usage),
        }
    }
}

/// The numbers of one adapter. Times are in seconds, sizes in bytes. The field names are part of
/// the `--json` output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AdapterOutcome {
    pub(crate) adapter: String,
    pub(crate) binary: String,
    pub(crate) flags: Vec<String>,
    pub(crate) series: u64,
    pub(crate) names: u64,
    /// From the start of the adapter to its first response with the metric.
    pub(crate) ready_after: f64,
    /// Lists of series that the adapter had read when the measurement began.
    pub(crate) discoveries: u64,
    /// Usage of the adapter when the measurement began.
    pub(crate) usage_at_begin: Usage,
    pub(crate) usage_at_end: Usage,
    pub(crate) idle: IdleUsage,
    /// Requests through the API server, as the HPA controller sends them.
    pub(crate) aggregated: Phase,
    /// Requests to the adapter itself, as the API server forwards them. The API server serves only
    /// the adapter's own requests.
    pub(crate) direct: Phase,
}

/// The numbers of the requests on one route. CPU time per request is without the idle usage.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Phase {
    pub(crate) requests: u64,
    pub(crate) failed: u64,
    pub(crate) response_times: Summary,
    pub(crate) adapter_cpu_per_request: f64,
    pub(crate) apiserver_cpu_per_request: f64,
    pub(crate) queries_per_request: f64,
    /// Requests of the adapter to the API server, by kind.
    pub(crate) api_requests_per_request: BTreeMap<String, f64>,
}

impl Phase {
    pub(super) fn new(
        begin: &Snapshot,
        end: &Snapshot,
        sent: &SentRequests,
        idle: IdleUsage,
    ) -> Self {
        let requests = sent.response_times.count as u64 + sent.failed;
        let per_request = |value: f64| value / requests.max(1) as f64;
        let seconds = (end.at - begin.at).as_secs_f64();
        let cpu = |end: Usage, begin: Usage, idle: f64| {
            per_request((end.cpu_seconds - begin.cpu_seconds - idle * seconds).max(0.0))
        };
        let new_requests = |(kind, count): (&String, &u64)| {
            let before = begin.requests.get(kind).copied().unwrap_or_default();
            (*count > before).then(|| (kind.clone(), per_request((count - before) as f64)))
        };
        Self {
            requests,
            failed: sent.failed,
            response_times: sent.response_times,
            adapter_cpu_per_request: cpu(end.adapter_usage, begin.adapter_usage, idle.adapter_cpus),
            apiserver_cpu_per_request: cpu(
                end.apiserver_usage,
                begin.apiserver_usage,
                idle.apiserver_cpus,
            ),
            queries_per_request: per_request((end.queries - begin.queries) as f64),
            api_requests_per_request: end.requests.iter().filter_map(new_requests).collect(),
        }
    }
}

type Cell = fn(&AdapterOutcome) -> String;
type PhaseCell = fn(&Phase) -> String;
type GetPhase = fn(&AdapterOutcome) -> &Phase;

const ROWS: &[(&str, Cell)] = &[
    ("metric served after start", |one| format_seconds(one.ready_after)),
    ("lists of series read before the measurement", |one| one.discoveries.to_string()),
    ("CPU time until the measurement", |one| format_seconds(one.usage_at_begin.cpu_seconds)),
    ("peak memory until the measurement", |one| mebibytes(one.usage_at_begin.peak_memory)),
    ("peak memory at the end", |one| mebibytes(one.usage_at_end.peak_memory)),
    ("CPUs in use without requests", |one| format!("{:.3}", one.idle.adapter_cpus)),
    ("  of the API server", |one| format!("{:.3}", one.idle.apiserver_cpus)),
];

const PHASE_ROWS: &[(&str, PhaseCell)] = &[
    ("  requests, failed", |phase| format!("{}, {}", phase.requests, phase.failed)),
    ("  response time, median / p99", |phase| median_and_p99(phase.response_times)),
    ("  adapter's CPU per request", |phase| format_seconds(phase.adapter_cpu_per_request)),
    ("  API server's CPU per request", |phase| format_seconds(phase.apiserver_cpu_per_request)),
    ("  queries to Prometheus per request", |phase| format!("{:.3}", phase.queries_per_request)),
];

/// Formats the outcomes, with a column for each adapter.
pub(crate) fn table(arguments: &AdapterArguments, outcomes: &[&AdapterOutcome]) -> String {
    let (workloads, series) = (&arguments.workloads, &arguments.series);
    let rounds = rounds_text(arguments.repeat);
    let text = format!(
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
    let mut table = Table::new(outcomes, outcomes.iter().map(|one| one.adapter.clone()));
    for (name, cell) in ROWS {
        table.add_row(name, cell);
    }
    let phases: [(&str, GetPhase); 2] = [
        ("requests through the API server", |one| &one.aggregated),
        ("requests past the API server", |one| &one.direct),
    ];
    for (heading, phase) in phases {
        table.add_line("");
        table.add_line(heading);
        for (name, cell) in PHASE_ROWS {
            table.add_row(name, |one| cell(phase(one)));
        }
        table.add_line("  the adapter's requests to the API server, per request");
        let kinds = outcomes.iter().flat_map(|one| phase(one).api_requests_per_request.keys());
        for kind in kinds.collect::<BTreeSet<&String>>() {
            table.add_optional_row(&format!("    {kind}"), |one| {
                let count = phase(one).api_requests_per_request.get(kind)?;
                Some(format!("{count:.3}"))
            });
        }
    }
    text + &table.to_text()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp, reason = "the numbers are exact")]
    use std::time::Duration;

    use super::*;

    fn snapshot(at: Instant, cpu: f64, reviews: u64, queries: u64) -> Snapshot {
        let usage = Usage { cpu_seconds: cpu, peak_memory: 0 };
        let requests = [("create reviews".to_owned(), reviews), ("watch pods".to_owned(), 1)];
        Snapshot {
            at,
            adapter_usage: usage,
            apiserver_usage: usage,
            requests: requests.into(),
            queries,
        }
    }

    #[test]
    fn usage_per_request_is_without_the_idle_usage() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let [idle, begin, end] =
            [snapshot(at(0), 1.0, 0, 0), snapshot(at(10), 2.0, 0, 0), snapshot(at(30), 8.0, 4, 8)];
        let idle = IdleUsage::new(&idle, &begin);
        assert_eq!(idle.adapter_cpus, 0.1);
        let response_times = Summary { count: 7, ..Summary::default() };
        let sent = SentRequests { response_times, failed: 1, first_error: None };
        let phase = Phase::new(&begin, &end, &sent, idle);
        assert_eq!((phase.requests, phase.failed), (8, 1));
        assert_eq!((phase.adapter_cpu_per_request, phase.queries_per_request), (0.5, 1.0));
        // The watch started before the phase.
        let expected = [("create reviews".to_owned(), 0.5)];
        assert_eq!(phase.api_requests_per_request, expected.into());
    }
}
