//! What the server was asked, and when.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::request::{About, Kind};

/// Autoscalers that are created later have names that begin with this.
pub(crate) const EXTRA: &str = "extra-";
/// Where they are.
pub(crate) const EXTRA_NAMESPACE: &str = "bench-0";

/// All that was noted. Times are seconds since the server started.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Stats {
    pub(crate) now: f64,
    pub(crate) requests: Vec<Counted>,
    /// What was sent in answer, watches included.
    pub(crate) bytes_sent: u64,
    /// How long each answer took, in microseconds; a watch, until it began.
    pub(crate) answered_in: Vec<u32>,
    /// By namespace and name.
    pub(crate) autoscalers: BTreeMap<String, Seen>,
}

/// How many requests of a kind came, and how many were refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Counted {
    pub(crate) kind: Kind,
    pub(crate) count: u64,
    pub(crate) failed: u64,
}

/// What was seen of an autoscaler.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) created: f64,
    /// When its status was first written.
    pub(crate) decided: Option<f64>,
    /// When its target's scale was read.
    pub(crate) reconciled: Vec<f64>,
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
    bytes_sent: AtomicU64,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    requests: BTreeMap<Kind, (u64, u64)>,
    answered_in: Vec<u32>,
    autoscalers: BTreeMap<String, Seen>,
    decided: usize,
}

impl Record {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), bytes_sent: AtomicU64::new(0), notes: Mutex::default() }
    }

    fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// An autoscaler is about to be created.
    pub(crate) fn creates(&self, namespace: &str, name: &str) {
        let seen = Seen { created: self.now(), ..Seen::default() };
        self.notes.lock().autoscalers.insert(format!("{namespace}/{name}"), seen);
    }

    /// A request was answered.
    pub(crate) fn answered(&self, about: &About, came: Instant, success: bool) {
        let at = came.duration_since(self.start).as_secs_f64();
        let took = u32::try_from(came.elapsed().as_micros()).unwrap_or(u32::MAX);
        let mut notes = self.notes.lock();
        notes.answered_in.push(took);
        let (count, failed) = notes.requests.entry(about.kind.clone()).or_default();
        *count += 1;
        *failed += u64::from(!success);
        if !success {
            return;
        }
        let id = format!("{}/{}", about.namespace, about.name);
        if about.is(&["get"], "deployments.apps", "scale") {
            // The target has the autoscaler's name.
            notes.autoscalers.entry(id).or_default().reconciled.push(at);
        } else if about.is(&["update", "patch"], "horizontalpodautoscalers.autoscaling", "status") {
            let seen = notes.autoscalers.entry(id).or_default();
            if seen.decided.is_none() {
                seen.decided = Some(self.now());
                notes.decided += 1;
            }
        }
    }

    /// So many bytes of an answer were sent.
    pub(crate) fn sent(&self, bytes: u64) {
        self.bytes_sent.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress { now: self.now(), decided: self.notes.lock().decided }
    }

    pub(crate) fn stats(&self) -> Stats {
        let notes = self.notes.lock();
        let counted =
            |(kind, &(count, failed)): (&Kind, &(u64, u64))| Counted { kind: kind.clone(), count, failed };
        Stats {
            now: self.now(),
            requests: notes.requests.iter().map(counted).collect(),
            bytes_sent: self.bytes_sent.load(Ordering::Relaxed),
            answered_in: notes.answered_in.clone(),
            autoscalers: notes.autoscalers.clone(),
        }
    }

    /// How long it runs.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}
