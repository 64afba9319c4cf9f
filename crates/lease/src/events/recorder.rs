//! Records events and passes them to the writer.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

pub use hpa_calc::event::EventType;
use jiff::Timestamp;
use kube::Client;
use tokio::sync::mpsc::{self, error::TrySendError};
use tracing::debug;

use super::writer::{EventWriter, EventWriterConfig};

/// Passes events to an [`EventWriter`]. Recording neither blocks nor fails. Clones share the
/// writer.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    queue: mpsc::Sender<RecordedEvent>,
    dropped: Arc<DroppedEvents>,
}

impl EventRecorder {
    /// A recorder, and its writer to run as a task. The writer ends when all recorders are dropped
    /// and the queue is empty.
    pub fn new(client: Client, config: EventWriterConfig) -> (Self, EventWriter) {
        let (queue, events) = mpsc::channel(config.queue_length.max(1));
        let dropped = Arc::new(DroppedEvents::default());
        let recorder = Self { queue, dropped: Arc::clone(&dropped) };
        (recorder, EventWriter::new(client, config, events, dropped))
    }

    /// Queues an event. If the queue is full or the writer has stopped, drops it.
    pub fn record(&self, mut event: RecordedEvent) {
        truncate_message(&mut event.message);
        if let Err(TrySendError::Full(event) | TrySendError::Closed(event)) =
            self.queue.try_send(event)
        {
            debug!(
                object = event.object.name,
                reason = %event.reason,
                "dropped an event: queue full or writer stopped"
            );
            increment(&self.dropped.queue_full);
        }
    }

    pub fn dropped(&self) -> &Arc<DroppedEvents> {
        &self.dropped
    }
}

/// The longest message that `events.k8s.io` accepts, in bytes.
const MAX_MESSAGE_BYTES: usize = 1024;

/// The object that an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectReference {
    pub api_version: String,
    pub kind: String,
    /// Also the namespace of the event. Empty means `default`.
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
}

/// An event to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEvent {
    pub object: Arc<ObjectReference>,
    pub event_type: EventType,
    pub reason: Cow<'static, str>,
    /// Truncated to 1024 bytes when recorded.
    pub message: String,
    pub at: Timestamp,
}

/// Truncates a message to [`MAX_MESSAGE_BYTES`], at a character boundary.
pub(super) fn truncate_message(message: &mut String) {
    message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
}

/// The numbers of events that were not written, by cause. Events of a namespace that is deleted or
/// being deleted don't count.
#[derive(Debug, Default)]
pub struct DroppedEvents {
    pub(super) queue_full: AtomicU64,
    pub(super) over_budget: AtomicU64,
    pub(super) failed_write: AtomicU64,
}

impl DroppedEvents {
    /// The queue was full, or the writer had ended.
    pub fn queue_full(&self) -> u64 {
        self.queue_full.load(Ordering::Relaxed)
    }

    /// The object had too many events.
    pub fn over_budget(&self) -> u64 {
        self.over_budget.load(Ordering::Relaxed)
    }

    /// The API server refused the event, or all attempts failed.
    pub fn failed_write(&self) -> u64 {
        self.failed_write.load(Ordering::Relaxed)
    }
}

pub(super) fn increment(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
