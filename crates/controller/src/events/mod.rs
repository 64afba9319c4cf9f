//! Kubernetes Events: what is recorded, how it is condensed, and the task that writes it.

mod correlator;
#[cfg(test)]
mod correlator_tests;
mod lru;
mod writer;
#[cfg(test)]
mod writer_tests;

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use jiff::Timestamp;
use kube::Client;
use tokio::sync::mpsc;

pub use hpa_calc::event::EventType;
pub use writer::{EventWriter, EventWriterConfig};

/// Names the object that an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectReference {
    /// Such as `autoscaling/v2`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace; the event is written there. Empty stands for `default`.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The identity over time.
    pub uid: String,
    /// The version that the event is about.
    pub resource_version: String,
}

/// An event to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEvent {
    /// What it is about.
    pub object: Arc<ObjectReference>,
    /// Normal life or trouble.
    pub event_type: EventType,
    /// Why, in one word.
    pub reason: Cow<'static, str>,
    /// The same for a person. Cut to 1024 bytes when recorded.
    pub message: String,
    /// When it happened.
    pub at: Timestamp,
}

/// How many events were not written, by cause. Those of a namespace that is gone are not counted.
#[derive(Debug, Default)]
pub struct DroppedEvents {
    queue_full: AtomicU64,
    over_budget: AtomicU64,
    failed_write: AtomicU64,
}

impl DroppedEvents {
    /// Those that found the queue full or the writer gone.
    pub fn queue_full(&self) -> u64 {
        self.queue_full.load(Ordering::Relaxed)
    }

    /// Those of objects that had too many.
    pub fn over_budget(&self) -> u64 {
        self.over_budget.load(Ordering::Relaxed)
    }

    /// Those that the API server did not take.
    pub fn failed_write(&self) -> u64 {
        self.failed_write.load(Ordering::Relaxed)
    }
}

fn count(cause: &AtomicU64) {
    cause.fetch_add(1, Ordering::Relaxed);
}

/// Takes events to be written by an [`EventWriter`]. Recording neither waits nor fails. Clones feed the same writer.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    queue: mpsc::Sender<RecordedEvent>,
    dropped: Arc<DroppedEvents>,
}

impl EventRecorder {
    /// A recorder and the writer for it, to be run as a task. The writer ends when the last recorder is dropped and
    /// everything recorded is written.
    pub fn new(client: Client, config: EventWriterConfig) -> (Self, EventWriter) {
        let (queue, events) = mpsc::channel(config.queue_length.max(1));
        let dropped = Arc::new(DroppedEvents::default());
        let recorder = Self { queue, dropped: Arc::clone(&dropped) };
        (recorder, EventWriter::new(client, config, events, dropped))
    }

    /// Has an event written, if there is room in the queue.
    pub fn record(&self, mut event: RecordedEvent) {
        truncate(&mut event.message);
        if let Err(error) = self.queue.try_send(event) {
            let (mpsc::error::TrySendError::Full(event) | mpsc::error::TrySendError::Closed(event)) =
                error;
            tracing::debug!(object = event.object.name, reason = %event.reason, "dropped an event: queue full");
            count(&self.dropped.queue_full);
        }
    }

    /// How many events were not written.
    pub fn dropped(&self) -> &Arc<DroppedEvents> {
        &self.dropped
    }
}

/// Cuts a message to what the API takes, between two characters.
fn truncate(message: &mut String) {
    const LONGEST_MESSAGE: usize = 1024;
    if message.len() > LONGEST_MESSAGE {
        let end = (0..=LONGEST_MESSAGE).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
        message.truncate(end);
    }
}
