//! What the server was asked, and when.

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
use serde::{Deserialize, Serialize};

use crate::{
    process::Usage,
    request::{About, Kind},
};

/// Autoscalers that are created later have names that begin with this.
pub(crate) const EXTRA: &str = "extra-";
/// Where they are.
pub(crate) const EXTRA_NAMESPACE: &str = "bench-0";

/// All that was noted. Times are seconds since the server started.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Stats {
    pub(crate) now: f64,
    pub(crate) requests: Vec<Counted>,
    /// How long each answer took, in microseconds; a watch, until it began.
    pub(crate) answered_in: Vec<u32>,
    /// By namespace and name.
    pub(crate) autoscalers: BTreeMap<String, Seen>,
    /// What all of the server's processes have used; none if they are not known.
    pub(crate) server: Option<Usage>,
}

/// How many requests of a kind came.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Counted {
    pub(crate) kind: Kind,
    pub(crate) count: u64,
    /// How many of them were refused.
    pub(crate) failed: u64,
    /// What was sent in answer, a watch's events included.
    pub(crate) bytes: u64,
}

/// What was seen of an autoscaler.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) created: f64,
    /// When its status was written.
    pub(crate) written: Vec<f64>,
}

impl Seen {
    /// When its status was first written.
    pub(crate) fn decided(&self) -> Option<f64> {
        self.written.iter().copied().min_by(f64::total_cmp)
    }
}

/// How far it is, in a few bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) now: f64,
    /// How many autoscalers were decided.
    pub(crate) decided: usize,
}

/// Notes what the server is asked.
#[derive(Debug)]
pub(crate) struct Record {
    start: Instant,
    /// The same moment, as a clock on the wall has it.
    start_time: Timestamp,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    requests: BTreeMap<Kind, Requests>,
    answered_in: Vec<u32>,
    autoscalers: BTreeMap<String, Seen>,
    decided: usize,
}

#[derive(Debug, Default)]
struct Requests {
    count: u64,
    failed: u64,
    bytes: Arc<AtomicU64>,
}

impl Record {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), start_time: Timestamp::now(), notes: Mutex::default() }
    }

    /// The seconds from the start until now.
    pub(crate) fn now(&self) -> f64 {
        self.elapsed().as_secs_f64()
    }

    /// The seconds from the start until a moment.
    pub(crate) fn at(&self, time: Timestamp) -> f64 {
        time.duration_since(self.start_time).as_secs_f64()
    }

    /// An autoscaler is about to be created.
    pub(crate) fn creates(&self, namespace: &str, name: &str) {
        let seen = Seen { created: self.now(), ..Seen::default() };
        self.notes.lock().autoscalers.insert(format!("{namespace}/{name}"), seen);
    }

    /// A request was answered then, after so long.
    pub(crate) fn answered(&self, about: &About, at: f64, took: Duration, success: bool) {
        let took = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        let mut notes = self.notes.lock();
        notes.answered_in.push(took);
        let requests = notes.requests.entry(about.kind.clone()).or_default();
        requests.count += 1;
        requests.failed += u64::from(!success);
        if !success
            || !about.is(&["update", "patch"], "horizontalpodautoscalers.autoscaling", "status")
        {
            return;
        }
        let seen =
            notes.autoscalers.entry(format!("{}/{}", about.namespace, about.name)).or_default();
        seen.written.push(at);
        let is_first = seen.written.len() == 1;
        notes.decided += usize::from(is_first);
    }

    /// Where to add the bytes that are sent in answer to requests of a kind.
    pub(crate) fn bytes_of(&self, kind: &Kind) -> Arc<AtomicU64> {
        Arc::clone(&self.notes.lock().requests.entry(kind.clone()).or_default().bytes)
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress { now: self.now(), decided: self.notes.lock().decided }
    }

    pub(crate) fn stats(&self) -> Stats {
        let notes = self.notes.lock();
        let counted = |(kind, requests): (&Kind, &Requests)| Counted {
            kind: kind.clone(),
            count: requests.count,
            failed: requests.failed,
            bytes: requests.bytes.load(Ordering::Relaxed),
        };
        Stats {
            now: self.now(),
            requests: notes.requests.iter().map(counted).collect(),
            answered_in: notes.answered_in.clone(),
            autoscalers: notes.autoscalers.clone(),
            server: None,
        }
    }

    /// How long it runs.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}
