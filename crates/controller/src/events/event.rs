//! The events that the controller records.

use std::{borrow::Cow, sync::Arc};

use jiff::Timestamp;

pub use hpa_calc::event::EventType;

/// The longest message that the API accepts, in bytes.
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

/// Truncates a message between two characters.
pub(super) fn truncate(message: &mut String) {
    message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
}
