//! Records events and passes them to the writer.

use std::sync::Arc;

use kube::Client;
use tokio::sync::mpsc::{self, error::TrySendError};
use tracing::debug;

use super::{
    event::{DroppedEvents, RecordedEvent, increment, truncate_message},
    writer::EventWriter,
};

/// The maximum number of queued events. If the queue is full, new events are dropped.
const QUEUE_CAPACITY: usize = 1000;

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
    pub fn new(client: Client) -> (Self, EventWriter) {
        let (queue, events) = mpsc::channel(QUEUE_CAPACITY);
        let dropped = Arc::new(DroppedEvents::default());
        let recorder = Self { queue, dropped: Arc::clone(&dropped) };
        (recorder, EventWriter::new(client, events, dropped))
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
