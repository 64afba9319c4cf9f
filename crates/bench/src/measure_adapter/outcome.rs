//! The numbers of one adapter.

use std::{collections::BTreeMap, time::Instant};

use serde::{Deserialize, Serialize};

use super::requests::Sent;
use crate::{summary::Summary, usage::Usage};

/// All measured values at one time.
pub(super) struct Snapshot {
    pub(super) at: Instant,
    pub(super) adapter: Usage,
    /// Of etcd and the API server.
    pub(super) apiserver: Usage,
    /// Requests of the adapter to the API server, by kind.
    pub(super) requests: BTreeMap<String, u64>,
    /// Queries to Prometheus.
    pub(super) queries: u64,
}

/// CPU time per second without requests.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Idle {
    pub(crate) adapter_cpus: f64,
    pub(crate) apiserver_cpus: f64,
}

impl Idle {
    pub(super) fn new(begin: &Snapshot, end: &Snapshot) -> Self {
        let seconds = (end.at - begin.at).as_secs_f64();
        let cpus = |end: Usage, begin: Usage| (end.cpu_seconds - begin.cpu_seconds) / seconds;
        Self {
            adapter_cpus: cpus(end.adapter, begin.adapter),
            apiserver_cpus: cpus(end.apiserver, begin.apiserver),
        }
    }
}

/// The numbers. Times are in seconds, sizes in bytes. The field names are part of the `--json`
/// output.
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
    /// Usage of the adapter at the end.
    pub(crate) usage_at_end: Usage,
    pub(crate) idle: Idle,
    /// Requests through the API server, as the HPA controller sends them.
    pub(crate) aggregated: Phase,
    /// Requests to the adapter in the name of the API server. The API server serves only the
    /// adapter's own requests.
    pub(crate) direct: Phase,
}

/// Requests for the metric of an autoscaler's pods. Usage per request is without the idle usage.
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
    pub(super) fn new(begin: &Snapshot, end: &Snapshot, sent: &Sent, idle: Idle) -> Self {
        let requests = sent.succeeded + sent.failed;
        let per_request = |value: f64| value / requests.max(1) as f64;
        let seconds = (end.at - begin.at).as_secs_f64();
        let cpu = |end: Usage, begin: Usage, idle: f64| {
            per_request((end.cpu_seconds - begin.cpu_seconds - idle * seconds).max(0.0))
        };
        let new = |(kind, count): (&String, &u64)| {
            let before = begin.requests.get(kind).copied().unwrap_or_default();
            (*count > before).then(|| (kind.clone(), per_request((count - before) as f64)))
        };
        Self {
            requests,
            failed: sent.failed,
            response_times: sent.response_times,
            adapter_cpu_per_request: cpu(end.adapter, begin.adapter, idle.adapter_cpus),
            apiserver_cpu_per_request: cpu(end.apiserver, begin.apiserver, idle.apiserver_cpus),
            queries_per_request: per_request((end.queries - begin.queries) as f64),
            api_requests_per_request: end.requests.iter().filter_map(new).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp, reason = "the numbers are exact")]

    use std::time::Duration;

    use super::*;

    fn snapshot(at: Instant, cpu: f64, reviews: u64, queries: u64) -> Snapshot {
        let usage = Usage { cpu_seconds: cpu, peak_memory: 0 };
        let requests = [("create reviews".to_owned(), reviews), ("watch pods".to_owned(), 1)];
        Snapshot { at, adapter: usage, apiserver: usage, requests: requests.into(), queries }
    }

    #[test]
    fn usage_per_request_is_without_the_idle_usage() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let [idle, begin, end] =
            [snapshot(at(0), 1.0, 0, 0), snapshot(at(10), 2.0, 0, 0), snapshot(at(30), 8.0, 4, 8)];
        let idle = Idle::new(&idle, &begin);
        assert_eq!(idle.adapter_cpus, 0.1);
        let sent =
            Sent { succeeded: 7, failed: 1, response_times: Summary::default(), first_error: None };
        let phase = Phase::new(&begin, &end, &sent, idle);
        assert_eq!((phase.requests, phase.failed), (8, 1));
        assert_eq!((phase.adapter_cpu_per_request, phase.queries_per_request), (0.5, 1.0));
        // The watch started before.
        let expected = [("create reviews".to_owned(), 0.5)];
        assert_eq!(phase.api_requests_per_request, expected.into());
    }
}
