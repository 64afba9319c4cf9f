//! The records of `hpa-bench serve`, and the HTTP paths that serve them. Times are seconds since
//! the server started.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{request_info::RequestKind, usage::Usage};

/// Path of [`Stats`].
pub(crate) const STATS_PATH: &str = "/stats";
/// Path of [`Progress`].
pub(crate) const PROGRESS_PATH: &str = "/progress";
/// A POST to this path creates one more autoscaler.
pub(crate) const ADD_PATH: &str = "/add";

/// Everything that was recorded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Stats {
    pub(crate) now: f64,
    pub(crate) requests: Vec<RequestCount>,
    /// Response times in microseconds. For a watch, the time until it started.
    pub(crate) response_times: Vec<u32>,
    /// By `NAMESPACE/NAME`.
    pub(crate) autoscalers: BTreeMap<String, AutoscalerRecord>,
    /// The requests to the fake Prometheus.
    #[serde(default)]
    pub(crate) prometheus: PrometheusStats,
    /// Usage of all processes of the server, if they are known.
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
    /// Bytes of the response bodies, watch events included.
    pub(crate) bytes: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct AutoscalerRecord {
    pub(crate) created: f64,
    /// Times of the status writes, not necessarily in order.
    pub(crate) written: Vec<f64>,
}

impl AutoscalerRecord {
    /// Returns the time of the first status write.
    pub(crate) fn decided(&self) -> Option<f64> {
        self.written.iter().copied().min_by(f64::total_cmp)
    }
}

/// The part of [`Stats`] that is polled.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) now: f64,
    /// Autoscalers whose status was written.
    pub(crate) decided: usize,
}
