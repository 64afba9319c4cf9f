//! What a measurement comes to.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    args::{Change, Population},
    own_metrics::OwnMetrics,
    percentiles::Summary,
    process::Usage,
    record::{Counted, EXTRA, Seen, Stats},
    request::Kind,
};

/// What is known at one moment.
pub(crate) struct Moment {
    pub(crate) stats: Stats,
    pub(crate) own: OwnMetrics,
    pub(crate) controller: Usage,
}

/// A controller that was watched, from when all were decided to the end.
pub(crate) struct Run<'a> {
    pub(crate) name: &'a str,
    pub(crate) binary: &'a Path,
    pub(crate) flags: Vec<String>,
    /// When the controller was started, in the server's time.
    pub(crate) started: f64,
    pub(crate) begin: Moment,
    pub(crate) end: Moment,
}

/// What a reconcile is taken to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CountedBy {
    /// A status that the server was told.
    StatusWrites,
    /// What the controller says in its metrics.
    OwnMetrics,
    /// A scale that was read.
    ScaleReads,
}

/// The numbers. Times are in seconds, sizes in bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) controller: String,
    pub(crate) binary: String,
    pub(crate) flags: Vec<String>,
    /// How many autoscalers there were from the beginning.
    pub(crate) autoscalers: usize,
    /// From the start of the controller to the first status, of those that got one before the measurement began.
    pub(crate) decided: Summary,
    /// What the controller had used when the measurement began.
    pub(crate) usage_at_begin: Usage,
    /// What it had used at the end.
    pub(crate) usage_at_end: Usage,
    /// How long was measured.
    pub(crate) measured: f64,
    pub(crate) reconciles: u64,
    pub(crate) reconciles_counted_by: CountedBy,
    pub(crate) reconciles_per_second: f64,
    /// As many as there would be if each autoscaler was reconciled once a period.
    pub(crate) reconciles_due: f64,
    /// How many autoscalers had been due for their next status when the measurement ended.
    pub(crate) overdue_at_end: Option<usize>,
    /// How many the controller says it did; with those that had nothing new to tell.
    pub(crate) own_reconciles: Option<u64>,
    /// From one status of an autoscaler to its next; none if there are none to be written.
    pub(crate) cycle: Option<Summary>,
    /// How far that is above the period.
    pub(crate) lateness: Option<Summary>,
    /// What the controller says of its lateness, on average.
    pub(crate) own_lateness: Option<f64>,
    /// CPUs in use, on average.
    pub(crate) cpus: f64,
    pub(crate) cpu_per_reconcile: f64,
    /// From the creation of an autoscaler under load to its first status.
    pub(crate) extra_decided: Summary,
    /// How many were created but not decided before the end.
    pub(crate) extra_undecided: usize,
    pub(crate) requests_per_reconcile: f64,
    /// By verb, resource and subresource.
    pub(crate) requests: BTreeMap<String, Requests>,
    pub(crate) bytes_per_second: f64,
    /// The server's side: where it is busy, it is the server that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server_cpus: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server_peak_memory: Option<u64>,
    pub(crate) server_answers: Summary,
}

/// The requests of a kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Requests {
    /// Before the measurement began.
    pub(crate) at_start: u64,
    /// During the measurement.
    pub(crate) count: u64,
    /// How many of all were refused.
    pub(crate) failed: u64,
    /// During the measurement.
    pub(crate) per_reconcile: f64,
    /// What was sent in answer during the measurement.
    pub(crate) bytes: u64,
    pub(crate) bytes_per_reconcile: f64,
}

impl Outcome {
    pub(crate) fn new(run: Run<'_>, population: &Population) -> Self {
        let Run { name, binary, flags, started, begin, end } = run;
        let period = population.period.as_secs_f64();
        let measured = end.stats.now - begin.stats.now;
        let (extra, first): (Vec<_>, Vec<_>) =
            end.stats.autoscalers.iter().partition(|(id, _)| id.contains(&format!("/{EXTRA}")));
        let first: Vec<&Seen> = first.into_iter().map(|(_, seen)| seen).collect();
        let extra: Vec<&Seen> = extra.into_iter().map(|(_, seen)| seen).collect();
        let decided =
            first.iter().filter_map(|seen| seen.decided()).filter(|at| *at <= begin.stats.now);
        // Without change there is nothing to be written, and what an autoscaler waits for cannot be seen.
        let writes = population.change != Change::Steady;
        let cycles = writes.then(|| {
            let of = |seen: &&Seen| cycles(seen, begin.stats.now, end.stats.now, period);
            first.iter().flat_map(of).collect::<Vec<f64>>()
        });
        let overdue_at_end = writes.then(|| {
            let all = first.iter().chain(&extra);
            all.filter(|seen| outstanding(seen, end.stats.now) > period).count()
        });
        let late =
            cycles.as_ref().map(|all| all.iter().map(|cycle| (cycle - period).max(0.0)).collect());
        let soon: Vec<f64> =
            extra.iter().filter_map(|seen| Some(seen.decided()? - seen.created)).collect();
        let (reconciles, reconciles_counted_by) = reconciles(&begin, &end, writes);
        let lived = |seen: &Seen| end.stats.now - seen.created.max(begin.stats.now);
        let due: f64 = first.iter().chain(&extra).map(|seen| lived(seen)).sum();
        let cpu = end.controller.cpu_seconds - begin.controller.cpu_seconds;
        // The kernel tells the peak from counters that lag a little.
        let peak_memory = end.controller.peak_memory.max(begin.controller.peak_memory);
        let answers = end.stats.answered_in.iter().skip(begin.stats.answered_in.len());
        let requests = requests(&begin.stats, &end.stats, reconciles);
        let bytes: u64 = requests.values().map(|one| one.bytes).sum();
        Self {
            controller: name.to_owned(),
            binary: binary.display().to_string(),
            flags,
            autoscalers: first.len(),
            decided: Summary::of(decided.map(|at| at - started).collect()),
            usage_at_begin: begin.controller,
            usage_at_end: Usage { peak_memory, ..end.controller },
            measured,
            reconciles,
            reconciles_counted_by,
            reconciles_per_second: reconciles as f64 / measured,
            reconciles_due: due / period,
            overdue_at_end,
            own_reconciles: own_reconciles(&begin, &end),
            cycle: cycles.map(Summary::of),
            lateness: late.map(Summary::of),
            own_lateness: own_lateness(&begin, &end, period),
            cpus: cpu / measured,
            cpu_per_reconcile: ratio(cpu, reconciles),
            extra_undecided: extra.len() - soon.len(),
            extra_decided: Summary::of(soon),
            requests_per_reconcile: requests.values().map(|one| one.per_reconcile).sum(),
            requests,
            bytes_per_second: bytes as f64 / measured,
            server_cpus: server_cpus(&begin.stats, &end.stats),
            server_peak_memory: end.stats.server.map(|server| server.peak_memory),
            server_answers: Summary::of(answers.map(|micros| f64::from(*micros) / 1e6).collect()),
        }
    }
}

/// How many reconciles there were in the measurement, and how that is known.
fn reconciles(begin: &Moment, end: &Moment, writes: bool) -> (u64, CountedBy) {
    if writes {
        return (status_writes(&end.stats) - status_writes(&begin.stats), CountedBy::StatusWrites);
    }
    match own_reconciles(begin, end) {
        Some(count) => (count, CountedBy::OwnMetrics),
        None => (scale_reads(&end.stats) - scale_reads(&begin.stats), CountedBy::ScaleReads),
    }
}

fn own_reconciles(begin: &Moment, end: &Moment) -> Option<u64> {
    // Before the first there is no such counter, but there are metrics.
    Some(end.own.reconciles? - begin.own.reconciles.unwrap_or_default())
}

fn own_lateness(begin: &Moment, end: &Moment, period: f64) -> Option<f64> {
    let (count, sum) = end.own.periods?;
    let (count_before, sum_before) = begin.own.periods.unwrap_or_default();
    let count = count - count_before;
    (count > 0.0).then(|| ((sum - sum_before) / count - 1.0) * period)
}

/// The times between an autoscaler's statuses that ended in the measurement; and what the last one lasts already, if
/// it is overdue: else a controller that never comes to an autoscaler again would look good.
fn cycles(seen: &Seen, begin: f64, end: f64, period: f64) -> Vec<f64> {
    let mut times: Vec<f64> = seen.written.iter().copied().filter(|at| *at <= end).collect();
    times.sort_by(f64::total_cmp);
    let outstanding = outstanding(seen, end);
    let pairs = times.iter().zip(times.iter().skip(1));
    let mut cycles: Vec<f64> =
        pairs.filter(|(_, at)| **at > begin).map(|(before, at)| at - before).collect();
    if outstanding > period {
        cycles.push(outstanding);
    }
    cycles
}

/// How long ago the last status of an autoscaler was written, or it was created.
fn outstanding(seen: &Seen, end: f64) -> f64 {
    let times = seen.written.iter().copied().filter(|at| *at <= end);
    end - times.max_by(f64::total_cmp).unwrap_or(seen.created)
}

fn status_writes(stats: &Stats) -> u64 {
    stats.autoscalers.values().map(|seen| seen.written.len() as u64).sum()
}

fn scale_reads(stats: &Stats) -> u64 {
    let is_read = |one: &&Counted| one.kind.verb == "get" && one.kind.subresource == "scale";
    stats.requests.iter().filter(is_read).map(|one| one.count - one.failed).sum()
}

fn requests(begin: &Stats, end: &Stats, reconciles: u64) -> BTreeMap<String, Requests> {
    let before: BTreeMap<&Kind, &Counted> =
        begin.requests.iter().map(|one| (&one.kind, one)).collect();
    let of = |counted: &Counted| {
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
    end.requests.iter().map(of).collect()
}

/// CPUs that the server had in use, if its processes are known.
fn server_cpus(begin: &Stats, end: &Stats) -> Option<f64> {
    Some((end.server?.cpu_seconds - begin.server?.cpu_seconds) / (end.now - begin.now))
}

/// None of nothing is nothing.
fn ratio(of: f64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { of / count as f64 }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::regular(&[1.0, 3.0, 5.0, 7.0], &[2.0, 2.0])]
    #[case::noted_out_of_order(&[1.0, 5.0, 3.0, 7.0], &[2.0, 2.0])]
    #[case::one_was_left_out(&[1.0, 3.0, 7.0], &[4.0])]
    #[case::it_ceased(&[1.0, 3.0], &[5.0])]
    #[case::it_never_began(&[], &[7.5])]
    #[case::after_the_end(&[3.0, 5.0, 7.0, 9.0], &[2.0, 2.0])]
    fn cycles_end_in_the_measurement_or_are_overdue(
        #[case] written: &[f64],
        #[case] expected: &[f64],
    ) {
        let seen = Seen { created: 0.5, written: written.to_vec() };
        assert_eq!(cycles(&seen, 4.0, 8.0, 2.0), expected);
    }
}
