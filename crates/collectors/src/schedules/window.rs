//! The windows of an entry.

use jiff::Timestamp;

/// A time in which an entry has its full value, without the ramps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Place of the entry in `spec.schedules`.
    pub entry: usize,
    /// The first instant.
    pub start: Timestamp,
    /// The first instant after it. It is the start if the window has no length.
    pub end: Timestamp,
    /// The value in the window.
    pub value: i64,
}
