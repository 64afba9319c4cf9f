//! Records the requests of the controller.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{
    request_info::{RequestInfo, RequestKind},
    stats::{AutoscalerRecord, Progress, PrometheusStats, RequestCount, Stats},
};

/// Collects [`Stats`].
#[derive(Debug)]
pub(crate) struct Recorder {
    start: Instant,
    /// The wall-clock time at `start`.
    start_time: Timestamp,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    requests: BTreeMap<RequestKind, Counters>,
    response_times: Vec<u32>,
    autoscalers: BTreeMap<String, AutoscalerRecord>,
    decided: usize,
}

#[derive(Debug, Default)]
struct Counters {
    count: u64,
    failed: u64,
    bytes: Arc<AtomicU64>,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), start_time: Timestamp::now(), state: Mutex::default() }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns the seconds since the start.
    pub(crate) fn now(&self) -> f64 {
        self.elapsed().as_secs_f64()
    }

    /// Returns the seconds from the start to `time`.
    pub(crate) fn seconds_until(&self, time: Timestamp) -> f64 {
        time.duration_since(self.start_time).as_secs_f64()
    }

    /// Records that an autoscaler is about to be created.
    pub(crate) fn record_creation(&self, namespace: &str, name: &str) {
        let autoscaler = AutoscalerRecord { created: self.now(), ..AutoscalerRecord::default() };
        self.state.lock().autoscalers.insert(format!("{namespace}/{name}"), autoscaler);
    }

    /// Records a response at time `at`, in seconds since the start.
    pub(crate) fn record_response(
        &self,
        request: &RequestInfo,
        at: f64,
        took: Duration,
        success: bool,
    ) {
        let took = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        let mut state = self.state.lock();
        state.response_times.push(took);
        let counters = state.requests.entry(request.kind.clone()).or_default();
        counters.count += 1;
        counters.failed += u64::from(!success);
        let is_status_write =
            request.is(&["update", "patch"], "horizontalpodautoscalers.autoscaling", "status");
        if !success || !is_status_write {
            return;
        }
        let key = format!("{}/{}", request.namespace, request.name);
        let autoscaler = state.autoscalers.entry(key).or_default();
        autoscaler.written.push(at);
        let is_first = autoscaler.written.len() == 1;
        state.decided += usize::from(is_first);
    }

    /// Returns the counter of response bytes for a kind of request.
    pub(crate) fn byte_counter(&self, kind: &RequestKind) -> Arc<AtomicU64> {
        Arc::clone(&self.state.lock().requests.entry(kind.clone()).or_default().bytes)
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress { now: self.now(), decided: self.state.lock().decided }
    }

    /// Returns everything but [`Stats::server`].
    pub(crate) fn stats(&self) -> Stats {
        let state = self.state.lock();
        let count = |(kind, counters): (&RequestKind, &Counters)| RequestCount {
            kind: kind.clone(),
            count: counters.count,
            failed: counters.failed,
            bytes: counters.bytes.load(Ordering::Relaxed),
        };
        Stats {
            now: self.now(),
            requests: state.requests.iter().map(count).collect(),
            response_times: state.response_times.clone(),
            autoscalers: state.autoscalers.clone(),
            prometheus: PrometheusStats::default(),
            server: None,
        }
    }
}
