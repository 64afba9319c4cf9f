//! The numbers of one measurement.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::controller_metrics::ControllerMetrics;
use crate::{
    args::{Change, Population},
    controller::Controller,
    objects::EXTRA_PREFIX,
    request_info::RequestKind,
    stats::{AutoscalerRecord, PrometheusStats, RequestCount, Stats, Summary, Usage},
};

/// All measured values at one time.
pub(super) struct Snapshot {
    pub(super) stats: Stats,
    /// `None` if they can't be read.
    pub(super) controller_metrics: Option<ControllerMetrics>,
    pub(super) controller_usage: Usage,
}

/// The source of the number of reconciles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CountedBy {
    /// By the status writes that the server received.
    StatusWrites,
    /// By the controller's own metrics.
    OwnMetrics,
    /// By the reads of scales that the server received.
    ScaleReads,
}

/// The numbers of one measurement. Times are in seconds, sizes in bytes. The field names are part
/// of the `--json` output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) controller: String,
    pub(crate) binary: String,
    pub(crate) flags: Vec<String>,
    /// Autoscalers that existed when the controller started.
    pub(crate) autoscalers: usize,
    /// Times from the start of the controller to the first status write, for each autoscaler that
    /// was decided before the measurement.
    pub(crate) decided: Summary,
    /// Usage of the controller when the measurement began.
    pub(crate) usage_at_begin: Usage,
    /// Usage of the controller at the end.
    pub(crate) usage_at_end: Usage,
    /// Length of the measurement.
    pub(crate) measured: f64,
    pub(crate) reconciles: u64,
    pub(crate) reconciles_counted_by: CountedBy,
    pub(crate) reconciles_per_second: f64,
    /// Reconciles that became due, with one per autoscaler and period.
    pub(crate) reconciles_due: f64,
    /// Autoscalers whose status write was overdue at the end. `None` unless every reconcile writes
    /// a status.
    pub(crate) overdue_at_end: Option<usize>,
    /// Reconciles by the controller's own metrics, which include those without a status write.
    pub(crate) own_reconciles: Option<u64>,
    /// Times from one status write of an autoscaler to the next, for the autoscalers that existed
    /// when the controller started. The unfinished cycle of an overdue autoscaler is included.
    /// `None` unless every reconcile writes a status.
    pub(crate) cycle: Option<Summary>,
    /// The cycles minus the period, at least zero.
    pub(crate) lateness: Option<Summary>,
    /// Mean lateness by the controller's own metrics.
    pub(crate) own_lateness: Option<f64>,
    /// CPU time per second.
    pub(crate) cpus: f64,
    pub(crate) cpu_per_reconcile: f64,
    /// Times from the creation of an autoscaler during the measurement to its first status write.
    pub(crate) extra_decided: Summary,
    /// Autoscalers that were created during the measurement and not decided by the end.
    pub(crate) extra_undecided: usize,
    pub(crate) requests_per_reconcile: f64,
    /// By verb, resource and subresource.
    pub(crate) requests: BTreeMap<String, Requests>,
    pub(crate) bytes_per_second: f64,
    /// The queries that the fake Prometheus received. `None` if it received none since its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prometheus: Option<PrometheusQueries>,
    /// CPUs in use by the server. If this is high, the server may have limited the measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server_cpus: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server_cpu_per_reconcile: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server_peak_memory: Option<u64>,
    #[serde(rename = "server_answers")]
    pub(crate) server_response_times: Summary,
}

/// Queries during the measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PrometheusQueries {
    pub(crate) count: u64,
    pub(crate) per_reconcile: f64,
    pub(crate) namespaces: usize,
    /// The mean over the namespaces.
    pub(crate) per_namespace_and_period: f64,
    /// The queries per period of the namespace with the most queries.
    pub(crate) per_period_at_most: f64,
}

impl PrometheusQueries {
    fn new(
        begin: &PrometheusStats,
        end: &PrometheusStats,
        periods: f64,
        reconciles: u64,
    ) -> Option<Self> {
        let before = |namespace| begin.queries.get(namespace).copied().unwrap_or_default();
        let counts: Vec<u64> =
            end.queries.iter().map(|(namespace, count)| count - before(namespace)).collect();
        let count: u64 = counts.iter().sum();
        let most = counts.iter().copied().max()? as f64;
        Some(Self {
            count,
            per_reconcile: ratio(count as f64, reconciles),
            namespaces: counts.len(),
            per_namespace_and_period: count as f64 / counts.len() as f64 / periods,
            per_period_at_most: most / periods,
        })
    }
}

/// Requests of one kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Requests {
    /// Requests before the measurement.
    pub(crate) at_start: u64,
    /// Requests during the measurement.
    pub(crate) count: u64,
    /// Failed requests, before and during the measurement.
    pub(crate) failed: u64,
    pub(crate) per_reconcile: f64,
    /// Bytes of responses during the measurement.
    pub(crate) bytes: u64,
    pub(crate) bytes_per_reconcile: f64,
}

impl Outcome {
    /// The numbers between `begin` and `end`. `started` is the start time of the controller, in
    /// seconds since the start of the server.
    pub(super) fn new(
        controller: &Controller,
        flags: Vec<String>,
        population: &Population,
        started: f64,
        [begin, end]: [&Snapshot; 2],
    ) -> Self {
        let period = population.period.as_secs_f64();
        let (from, to) = (begin.stats.now, end.stats.now);
        let measured = to - from;
        let (initial, extra) = split_records(&end.stats);
        let decided = initial.iter().filter_map(|record| record.decided_at());
        let decided = decided.filter(|at| *at <= from);
        // Cycles can be observed only if every reconcile writes a status.
        let every_reconcile_writes =
            population.change != Change::Steady && controller.writes_each_status();
        let cycle_summary =
            every_reconcile_writes.then(|| CycleSummary::new(&initial, &extra, from, to, period));
        let extra_delays: Vec<f64> =
            extra.iter().filter_map(|record| Some(record.decided_at()? - record.created)).collect();
        let (reconciles, reconciles_counted_by) = reconciles(begin, end, every_reconcile_writes);
        let due = |record: &&AutoscalerRecord| {
            reconciles_due(record, from, to, period, every_reconcile_writes)
        };
        let reconciles_due = initial.iter().chain(&extra).map(due).sum();
        let cpu = end.controller_usage.cpu_seconds - begin.controller_usage.cpu_seconds;
        // VmHWM is derived from counters that lag a little, so it can decrease.
        let peak_memory = end.controller_usage.peak_memory.max(begin.controller_usage.peak_memory);
        let responses = end.stats.response_times.iter().skip(begin.stats.response_times.len());
        let requests = requests(&begin.stats, &end.stats, reconciles);
        let bytes: u64 = requests.values().map(|one| one.bytes).sum();
        let server_cpu = server_cpu(&begin.stats, &end.stats);
        Self {
            controller: controller.name(),
            binary: controller.binary.display().to_string(),
            flags,
            autoscalers: initial.len(),
            decided: Summary::new(decided.map(|at| at - started).collect()),
            usage_at_begin: begin.controller_usage,
            usage_at_end: Usage { peak_memory, ..end.controller_usage },
            measured,
            reconciles,
            reconciles_counted_by,
            reconciles_per_second: reconciles as f64 / measured,
            reconciles_due,
            overdue_at_end: cycle_summary.map(|summary| summary.overdue_at_end),
            own_reconciles: own_reconciles(begin, end),
            cycle: cycle_summary.map(|summary| summary.cycle),
            lateness: cycle_summary.map(|summary| summary.lateness),
            own_lateness: own_lateness(begin, end, period),
            cpus: cpu / measured,
            cpu_per_reconcile: ratio(cpu, reconciles),
            extra_undecided: extra.len() - extra_delays.len(),
            extra_decided: Summary::new(extra_delays),
            requests_per_reconcile: requests.values().map(|one| one.per_reconcile).sum(),
            requests,
            bytes_per_second: bytes as f64 / measured,
            prometheus: PrometheusQueries::new(
                &begin.stats.prometheus,
                &end.stats.prometheus,
                measured / period,
                reconciles,
            ),
            server_cpus: server_cpu.map(|cpu| cpu / measured),
            server_cpu_per_reconcile: server_cpu.map(|cpu| ratio(cpu, reconciles)),
            server_peak_memory: end.stats.server.map(|server| server.peak_memory),
            server_response_times: Summary::new(
                responses.map(|micros| f64::from(*micros) / 1e6).collect(),
            ),
        }
    }
}

/// Returns the records of the autoscalers that existed when the controller started, and of those
/// that were created during the measurement.
fn split_records(stats: &Stats) -> (Vec<&AutoscalerRecord>, Vec<&AutoscalerRecord>) {
    let prefix = format!("/{EXTRA_PREFIX}");
    let (mut initial, mut extra) = (Vec::new(), Vec::new());
    for (id, record) in &stats.autoscalers {
        let records = if id.contains(&prefix) { &mut extra } else { &mut initial };
        records.push(record);
    }
    (initial, extra)
}

/// The fields of [`Outcome`] with the same names.
#[derive(Clone, Copy)]
struct CycleSummary {
    cycle: Summary,
    lateness: Summary,
    overdue_at_end: usize,
}

impl CycleSummary {
    fn new(
        initial: &[&AutoscalerRecord],
        extra: &[&AutoscalerRecord],
        begin: f64,
        end: f64,
        period: f64,
    ) -> Self {
        let cycles: Vec<f64> =
            initial.iter().flat_map(|record| cycles(record, begin, end, period)).collect();
        let lateness = cycles.iter().map(|cycle| (cycle - period).max(0.0)).collect();
        let all = initial.iter().chain(extra);
        let overdue_at_end = all.filter(|record| since_last_write(record, end) > period).count();
        Self { cycle: Summary::new(cycles), lateness: Summary::new(lateness), overdue_at_end }
    }
}

/// Returns the reconciles during the measurement, and how they were counted.
fn reconciles(begin: &Snapshot, end: &Snapshot, every_reconcile_writes: bool) -> (u64, CountedBy) {
    if every_reconcile_writes {
        return (status_writes(&end.stats) - status_writes(&begin.stats), CountedBy::StatusWrites);
    }
    match own_reconciles(begin, end) {
        Some(count) => (count, CountedBy::OwnMetrics),
        None => (scale_reads(&end.stats) - scale_reads(&begin.stats), CountedBy::ScaleReads),
    }
}

fn own_reconciles(begin: &Snapshot, end: &Snapshot) -> Option<u64> {
    let (begin, end) = (begin.controller_metrics?, end.controller_metrics?);
    // The counter does not exist before the first reconcile.
    Some(end.reconciles? - begin.reconciles.unwrap_or_default())
}

fn own_lateness(begin: &Snapshot, end: &Snapshot, period: f64) -> Option<f64> {
    let (begin, end) = (begin.controller_metrics?, end.controller_metrics?);
    let (count, sum) = end.delay_ratios?;
    let (count_before, sum_before) = begin.delay_ratios.unwrap_or_default();
    let count = count - count_before;
    (count > 0.0).then(|| ((sum - sum_before) / count - 1.0) * period)
}

/// Returns the cycles of an autoscaler that ended during the measurement. If the autoscaler is
/// overdue at the end, its unfinished cycle is included: skipping autoscalers must not improve the
/// result.
fn cycles(record: &AutoscalerRecord, begin: f64, end: f64, period: f64) -> Vec<f64> {
    let mut times: Vec<f64> = record.written.iter().copied().filter(|at| *at <= end).collect();
    times.sort_by(f64::total_cmp);
    let since_last = since_last_write(record, end);
    let pairs = times.iter().zip(times.iter().skip(1));
    let mut cycles: Vec<f64> =
        pairs.filter(|(_, at)| **at > begin).map(|(before, at)| at - before).collect();
    if since_last > period {
        cycles.push(since_last);
    }
    cycles
}

/// Returns how many reconciles of an autoscaler were due during the measurement. One is due each
/// period after the last status write before the measurement. Later writes don't change that. If
/// the autoscaler was overdue at the beginning, or had no status write until then, one is due at
/// the beginning, and one each period after that. If it was created later, its creation counts as
/// the beginning. Without `every_reconcile_writes`, an overdue autoscaler is not detected.
fn reconciles_due(
    record: &AutoscalerRecord,
    begin: f64,
    end: f64,
    period: f64,
    every_reconcile_writes: bool,
) -> f64 {
    let before = record.written.iter().copied().filter(|at| *at <= begin).max_by(f64::total_cmp);
    let periods = |from: f64, to: f64| ((to - from) / period).floor();
    match before {
        Some(last) if !every_reconcile_writes || begin - last <= period => {
            periods(last, end) - periods(last, begin)
        }
        _ => 1.0 + periods(begin.max(record.created), end),
    }
}

/// Returns the time from the last status write to the end, or from the creation if there is none.
fn since_last_write(record: &AutoscalerRecord, end: f64) -> f64 {
    let times = record.written.iter().copied().filter(|at| *at <= end);
    end - times.max_by(f64::total_cmp).unwrap_or(record.created)
}

fn status_writes(stats: &Stats) -> u64 {
    stats.autoscalers.values().map(|record| record.written.len() as u64).sum()
}

fn scale_reads(stats: &Stats) -> u64 {
    let is_read = |one: &&RequestCount| one.kind.verb == "get" && one.kind.subresource == "scale";
    stats.requests.iter().filter(is_read).map(|one| one.count - one.failed).sum()
}

fn requests(begin: &Stats, end: &Stats, reconciles: u64) -> BTreeMap<String, Requests> {
    let before: BTreeMap<&RequestKind, &RequestCount> =
        begin.requests.iter().map(|one| (&one.kind, one)).collect();
    let requests_since = |counted: &RequestCount| {
        let before = before.get(&counted.kind);
        let at_start = before.map_or(0, |before| before.count);
        let count = counted.count - at_start;
        let bytes = counted.bytes - before.map_or(0, |before| before.bytes);
        let requests = Requests {
            at_start,
            count,
            failed: counted.failed,
            per_reconcile: ratio(count as f64, reconciles),
            bytes,
            bytes_per_reconcile: ratio(bytes as f64, reconciles),
        };
        (counted.kind.to_string(), requests)
    };
    end.requests.iter().map(requests_since).collect()
}

/// Returns the CPU time of the server's processes between two times, in seconds. `None` if the
/// processes aren't known.
fn server_cpu(begin: &Stats, end: &Stats) -> Option<f64> {
    Some(end.server?.cpu_seconds - begin.server?.cpu_seconds)
}

fn ratio(value: f64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { value / count as f64 }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::due_once(&[4.4], true, 1.0)]
    #[case::due_twice(&[1.0, 3.0], true, 2.0)]
    #[case::at_the_end(&[4.0], true, 2.0)]
    #[case::made_late(&[4.4, 7.5], true, 1.0)]
    #[case::overdue_at_the_beginning(&[1.0], true, 2.0)]
    #[case::unchanged_status(&[0.4], false, 1.0)]
    #[case::never_decided(&[], true, 2.0)]
    fn reconciles_are_due_each_period_after_the_last_write(
        #[case] written: &[f64],
        #[case] every_reconcile_writes: bool,
        #[case] expected: f64,
    ) {
        let record = AutoscalerRecord { created: 0.5, written: written.to_vec() };
        // From 4.5 s to 8.0 s: not a multiple of the period of 2 s.
        let due = reconciles_due(&record, 4.5, 8.0, 2.0, every_reconcile_writes);
        assert!((due - expected).abs() < f64::EPSILON, "{due}");
    }

    #[test]
    fn queries_are_those_during_the_measurement() {
        let stats = |queries: &[(&str, u64)]| PrometheusStats {
            queries: queries.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            series_responses: 1,
        };
        let (begin, end) = (stats(&[("a", 5)]), stats(&[("a", 8), ("b", 1)]));
        let queries = PrometheusQueries::new(&begin, &end, 2.0, 8).expect("queries");
        let PrometheusQueries {
            count, per_reconcile, namespaces, per_namespace_and_period, ..
        } = queries;
        assert_eq!((count, namespaces), (4, 2));
        let ratios = [per_reconcile, per_namespace_and_period, queries.per_period_at_most];
        assert_eq!(ratios.map(|ratio| format!("{ratio:.2}")), ["0.50", "1.00", "1.50"]);
        assert!(PrometheusQueries::new(&stats(&[]), &stats(&[]), 2.0, 8).is_none());
    }

    #[test]
    fn own_numbers_are_unknown_unless_metrics_were_read_at_both_ends() {
        let snapshot = |controller_metrics| Snapshot {
            stats: Stats::default(),
            controller_metrics,
            controller_usage: Usage::default(),
        };
        let metrics = ControllerMetrics { reconciles: Some(9), delay_ratios: Some((9.0, 9.0)) };
        let (unread, end) = (snapshot(None), snapshot(Some(metrics)));
        assert_eq!(own_reconciles(&unread, &end), None);
        assert_eq!(own_lateness(&unread, &end, 1.0), None);
        let without_reconciles = snapshot(Some(ControllerMetrics::default()));
        assert_eq!(own_reconciles(&without_reconciles, &end), Some(9));
    }

    #[test]
    fn new_autoscaler_is_due_when_it_is_created() {
        let record = AutoscalerRecord { created: 5.0, written: vec![5.1, 7.1] };
        assert!((reconciles_due(&record, 4.5, 8.0, 2.0, true) - 2.0).abs() < f64::EPSILON);
    }

    #[rstest]
    #[case::regular(&[1.0, 3.0, 5.0, 7.0], &[2.0, 2.0])]
    #[case::recorded_out_of_order(&[1.0, 5.0, 3.0, 7.0], &[2.0, 2.0])]
    #[case::one_cycle_skipped(&[1.0, 3.0, 7.0], &[4.0])]
    #[case::stopped(&[1.0, 3.0], &[5.0])]
    #[case::never_started(&[], &[7.5])]
    #[case::write_after_the_end(&[3.0, 5.0, 7.0, 9.0], &[2.0, 2.0])]
    fn cycles_that_ended_or_are_overdue_count(#[case] written: &[f64], #[case] expected: &[f64]) {
        let record = AutoscalerRecord { created: 0.5, written: written.to_vec() };
        assert_eq!(cycles(&record, 4.0, 8.0, 2.0), expected);
    }
}
