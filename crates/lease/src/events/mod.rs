//! Kubernetes events: the recorder, the correlation of similar events, and the task that writes
//! them.

mod correlator;
mod recorder;
mod writer;

pub use recorder::{DroppedEvents, EventRecorder, EventType, ObjectReference, RecordedEvent};
pub use writer::{EventWriter, EventWriterConfig};
