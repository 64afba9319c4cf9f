//! Kubernetes events: the recorder, the correlation of similar events, and the task that writes
//! them.

mod correlator;
mod dropped;
mod event;
mod recorder;
mod writer;

pub use dropped::DroppedEvents;
pub use event::{EventType, ObjectReference, RecordedEvent};
pub use recorder::EventRecorder;
pub use writer::{EventWriter, EventWriterConfig};
