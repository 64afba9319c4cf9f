//! The records of `hpa-bench serve`, and the HTTP paths that serve them. Times are seconds since
//! the server started.

use std::{collections::BTreeMap, fs};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::request_info::RequestKind;

pub(crate) const STATS_PATH: &str = "/stats";
pub(crate) const PROGRESS_PATH: &str = "/progress";
/// A POST to this path creates one more autoscaler.
pub(crate) const ADD_PATH: &str = "/add";

/// All recorded values.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Stats {
    pub(crate) now: f64,
    pub(crate) requests: Vec<RequestCount>,
    /// Response times in microseconds. For a watch, and for any request through the proxy to a
    /// running API server, the time until the response started.
    pub(crate) response_times: Vec<u32>,
    /// By `NAMESPACE/NAME`.
    pub(crate) autoscalers: BTreeMap<String, AutoscalerRecord>,
    pub(crate) prometheus: PrometheusStats,
    /// Usage of all processes of the server. `None` if they aren't known.
    pub(crate) server: Option<Usage>,
}

/// The requests to the fake Prometheus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PrometheusStats {
    /// Queries by the namespace that they select.
    pub(crate) queries: BTreeMap<String, u64>,
    /// Lists of series that were sent to the end.
    pub(crate) series_responses: u64,
}

impl PrometheusStats {
    pub(crate) fn total_queries(&self) -> u64 {
        self.queries.values().sum()
    }
}

/// Requests of one kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RequestCount {
    pub(crate) kind: RequestKind,
    /// All requests, including failed ones.
    pub(crate) count: u64,
    pub(crate) failed: u64,
    /// Bytes of the response bodies, watch events included. A kube-apiserver that `hpa-bench`
    /// started doesn't count those of writes.
    pub(crate) bytes: u64,
}

/// The creation and the status writes of an autoscaler.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct AutoscalerRecord {
    pub(crate) created: f64,
    /// Times of the status writes, not necessarily in order.
    pub(crate) written: Vec<f64>,
}

impl AutoscalerRecord {
    /// Returns the time of the first status write.
    pub(crate) fn decided_at(&self) -> Option<f64> {
        self.written.iter().copied().min_by(f64::total_cmp)
    }
}

/// The part of [`Stats`] that is polled.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) now: f64,
    /// Number of autoscalers whose status was written.
    pub(crate) decided_count: usize,
}

/// Count, percentiles and maximum of values, in the unit of the values. All zero if there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) count: usize,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

impl Summary {
    /// Summarizes values in any order.
    pub(crate) fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |per_mille| nearest_rank(&values, per_mille);
        Self { count: values.len(), p50: at(500), p99: at(990), p999: at(999), max: at(1000) }
    }
}

/// Returns the smallest value that is at least as large as `per_mille` thousandths of the values.
fn nearest_rank(sorted: &[f64], per_mille: usize) -> f64 {
    let rank = (sorted.len() * per_mille).div_ceil(1000);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// CPU time and memory that a process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// User and system time, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Peak resident memory, in bytes.
    pub(crate) peak_memory: u64,
}

impl Usage {
    /// Reads the usage of a running process.
    pub(crate) fn for_process(id: u32) -> Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{id}/{file}");
            fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
        };
        let cpu_seconds = cpu_seconds(&read("stat")?).context("cannot parse the CPU time")?;
        let peak_memory = peak_memory(&read("status")?).context("cannot parse the memory")?;
        Ok(Self { cpu_seconds, peak_memory })
    }

    /// Reads and adds the usage of two running processes.
    pub(crate) fn for_both([one, other]: [u32; 2]) -> Result<Self> {
        Ok(Self::for_process(one)?.add(Self::for_process(other)?))
    }

    /// Adds the usage of two processes. The peaks are added, even if they were at different times.
    pub(crate) fn add(self, other: Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
            peak_memory: self.peak_memory + other.peak_memory,
        }
    }
}

/// Parses `/proc/PID/stat`.
fn cpu_seconds(stat: &str) -> Option<f64> {
    // The name is in parentheses and may contain parentheses itself.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11).map(str::parse::<u64>);
    let (user, system) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some((user + system) as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Parses `/proc/PID/status`.
fn peak_memory(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none(0, [0.0, 0.0, 0.0, 0.0])]
    #[case::one(1, [1.0, 1.0, 1.0, 1.0])]
    #[case::two(2, [1.0, 2.0, 2.0, 2.0])]
    #[case::three(3, [2.0, 3.0, 3.0, 3.0])]
    #[case::hundred(100, [50.0, 99.0, 100.0, 100.0])]
    #[case::thousand(1000, [500.0, 990.0, 999.0, 1000.0])]
    #[case::more(10_001, [5001.0, 9901.0, 9991.0, 10_001.0])]
    fn percentiles_are_values_of_the_input(#[case] count: u32, #[case] expected: [f64; 4]) {
        // In descending order.
        let summary = Summary::new((1..=count).rev().map(f64::from).collect());
        let [p50, p99, p999, max] = expected;
        assert_eq!(summary, Summary { count: count as usize, p50, p99, p999, max });
    }

    #[test]
    fn cpu_time_is_the_sum_of_user_and_system_time() {
        let ticks = rustix::param::clock_ticks_per_second();
        let stat = format!("17 (a) b) S 1 2 3 4 5 6 7 8 9 10 {} {} 0 0 20 0 1", ticks * 2, ticks);
        assert_eq!(cpu_seconds(&stat), Some(3.0));
        assert_eq!(cpu_seconds("17 (a) S 1"), None);
    }

    #[test]
    fn peak_memory_is_in_bytes() {
        assert_eq!(
            peak_memory("Name:\ta\nVmPeak:\t 9 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n"),
            Some(2_097_152)
        );
        assert_eq!(peak_memory("Name:\ta\n"), None);
    }
}
