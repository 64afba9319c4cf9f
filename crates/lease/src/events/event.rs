//! An event to write, and the numbers of events that were dropped.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

pub use hpa_calc::event::EventType;
use jiff::Timestamp;

/// The maximum length of a message in bytes. The core API, which receives the events, has no limit.
/// Messages contain texts of users and other servers, so they get the limit of `events.k8s.io`.
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

/// An event as recorded, before it is correlated with others.
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
    /// The queue was full, or the writer had stopped.
    pub queue_full: AtomicU64,
    /// The object had too many events.
    pub over_budget: AtomicU64,
    /// The API server refused the event, or all attempts failed.
    pub failed_write: AtomicU64,
}

pub(super) fn increment(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
