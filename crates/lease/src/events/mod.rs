//! Kubernetes events: the recorder, the correlation of similar events, and the task that writes
//! them.

mod correlator;
mod event;
mod recorder;
mod writer;

pub use event::{DroppedEvents, EventType, ObjectReference, RecordedEvent};
pub use recorder::EventRecorder;
pub use writer::EventWriter;
