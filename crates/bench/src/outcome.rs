//! What a measurement comes to.

use std::{collections::BTreeMap, path::Path, time::Duration};

use serde::Serialize;

use crate::{
    percentiles::Summary,
    process::Usage,
    record::{EXTRA, Seen, Stats},
    request::Kind,
};

/// What is known at one moment.
pub(crate) struct Moment {
    pub(crate) stats: Stats,
    pub(crate) controller: Usage,
    pub(crate) server: Usage,
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

/// The numbers. Times are in seconds, sizes in bytes.
#[derive(Debug, Serialize)]
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
    pub(crate) reconciles_per_second: f64,
    /// As many as there would be if each autoscaler was reconciled once a period.
    pub(crate) reconciles_due: f64,
    /// From one reconcile of an autoscaler to its next.
    pub(crate) cycle: Summary,
    /// How far that is above the period.
    pub(crate) lateness: Summary,
    /// CPUs in use, on average.
    pub(crate) cpus: f64,
    pub(crate) cpu_per_reconcile: f64,
    /// From the creation of an autoscaler under load to its first status.
    pub(crate) extra_decided: Summary,
    /// How many were created but not decided before the end.
    pub(crate) extra_undecided: usize,
    pub(crate) requests: Vec<Requests>,
    pub(crate) bytes_per_second: f64,
    /// The server's side: where it is busy, it is the server that was measured.
    pub(crate) server_cpus: f64,
    pub(crate) server_peak_memory: u64,
    pub(crate) server_answers: Summary,
}

/// The requests of a kind.
#[derive(Debug, Serialize)]
pub(crate) struct Requests {
    #[serde(flatten)]
    pub(crate) kind: Kind,
    /// Before the measurement began.
    pub(crate) at_start: u64,
    /// During the measurement.
    pub(crate) count: u64,
    /// How many of all were refused.
    pub(crate) failed: u64,
    /// During the measurement.
    pub(crate) per_reconcile: f64,
}

impl Outcome {
    pub(crate) fn new(run: Run<'_>, period: Duration) -> Self {
        let Run { name, binary, flags, started, begin, end } = run;
        let measured = end.stats.now - begin.stats.now;
        let (extra, first): (Vec<_>, Vec<_>) =
            end.stats.autoscalers.iter().partition(|(id, _)| id.contains(&format!("/{EXTRA}")));
        let first: Vec<&Seen> = first.into_iter().map(|(_, seen)| seen).collect();
        let extra: Vec<&Seen> = extra.into_iter().map(|(_, seen)| seen).collect();
        let decided = first.iter().filter_map(|seen| seen.decided).filter(|at| *at <= begin.stats.now);
        let cycles: Vec<f64> =
            first.iter().flat_map(|seen| cycles(seen, begin.stats.now, end.stats.now, period)).collect();
        let late = cycles.iter().map(|cycle| (cycle - period.as_secs_f64()).max(0.0));
        let soon: Vec<f64> = extra.iter().filter_map(|seen| Some(seen.decided? - seen.created)).collect();
        let reconciles = scale_reads(&end.stats) - scale_reads(&begin.stats);
        let lived = |seen: &Seen| end.stats.now - seen.created.max(begin.stats.now);
        let due: f64 = first.iter().chain(&extra).map(|seen| lived(seen)).sum();
        let cpu = end.controller.cpu_seconds - begin.controller.cpu_seconds;
        // The kernel tells the peak from counters that lag a little.
        let peak_memory = end.controller.peak_memory.max(begin.controller.peak_memory);
        let answers = end.stats.answered_in.iter().skip(begin.stats.answered_in.len());
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
            reconciles_per_second: reconciles as f64 / measured,
            reconciles_due: due / period.as_secs_f64(),
            lateness: Summary::of(late.collect()),
            cycle: Summary::of(cycles),
            cpus: cpu / measured,
            cpu_per_reconcile: ratio(cpu, reconciles),
            extra_undecided: extra.len() - soon.len(),
            extra_decided: Summary::of(soon),
            requests: requests(&begin.stats, &end.stats, reconciles),
            bytes_per_second: (end.stats.bytes_sent - begin.stats.bytes_sent) as f64 / measured,
            server_cpus: (end.server.cpu_seconds - begin.server.cpu_seconds) / measured,
            server_peak_memory: end.server.peak_memory,
            server_answers: Summary::of(answers.map(|micros| f64::from(*micros) / 1e6).collect()),
        }
    }
}

/// The times between an autoscaler's reconciles that ended in the measurement; and what the last one lasts already, if
/// it is overdue: else a controller that reconciles an autoscaler never again would look good.
fn cycles(seen: &Seen, begin: f64, end: f64, period: Duration) -> Vec<f64> {
    let mut times: Vec<f64> = seen.reconciled.iter().copied().filter(|at| *at <= end).collect();
    times.sort_by(f64::total_cmp);
    let outstanding = end - times.last().copied().unwrap_or(seen.created);
    let pairs = times.iter().zip(times.iter().skip(1));
    let mut cycles: Vec<f64> = pairs.filter(|(_, at)| **at > begin).map(|(before, at)| at - before).collect();
    if outstanding > period.as_secs_f64() {
        cycles.push(outstanding);
    }
    cycles
}

fn scale_reads(stats: &Stats) -> u64 {
    stats.autoscalers.values().map(|seen| seen.reconciled.len() as u64).sum()
}

fn requests(begin: &Stats, end: &Stats, reconciles: u64) -> Vec<Requests> {
    let before: BTreeMap<&Kind, u64> = begin.requests.iter().map(|one| (&one.kind, one.count)).collect();
    let of = |counted: &crate::record::Counted| {
        let at_start = before.get(&counted.kind).copied().unwrap_or_default();
        let count = counted.count - at_start;
        let per_reconcile = ratio(count as f64, reconciles);
        Requests { kind: counted.kind.clone(), at_start, count, failed: counted.failed, per_reconcile }
    };
    end.requests.iter().map(of).collect()
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
    fn cycles_end_in_the_measurement_or_are_overdue(#[case] reconciled: &[f64], #[case] expected: &[f64]) {
        let seen = Seen { created: 0.5, decided: None, reconciled: reconciled.to_vec() };
        assert_eq!(cycles(&seen, 4.0, 8.0, Duration::from_secs(2)), expected);
    }
}
