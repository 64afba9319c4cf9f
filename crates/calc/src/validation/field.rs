//! Where something is wrong in an object, and how the API server words it
//! (k8s.io/apimachinery/pkg/util/validation/field).

use std::fmt;

use super::{Cause, CauseReason};
use crate::go_text::Json;

/// A field's place in the object. It is printed only where something is wrong, so a valid object costs nothing.
#[derive(Clone, Copy)]
pub(super) struct Path<'a> {
    parent: Option<&'a Self>,
    segment: Segment,
}

#[derive(Clone, Copy)]
enum Segment {
    Child(&'static str),
    Index(usize),
}

impl Path<'_> {
    pub(super) const fn root(name: &'static str) -> Self {
        Self { parent: None, segment: Segment::Child(name) }
    }

    pub(super) const fn child(&self, name: &'static str) -> Path<'_> {
        Path { parent: Some(self), segment: Segment::Child(name) }
    }

    pub(super) const fn index(&self, index: usize) -> Path<'_> {
        Path { parent: Some(self), segment: Segment::Index(index) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match (self.segment, self.parent) {
            (Segment::Child(name), None) => f.write_str(name),
            (Segment::Child(name), Some(_)) => write!(f, ".{name}"),
            (Segment::Index(index), _) => write!(f, "[{index}]"),
        }
    }
}

/// Collects causes in the order they are found.
#[derive(Default)]
pub(super) struct Causes(pub(super) Vec<Cause>);

impl Causes {
    pub(super) fn required(&mut self, path: &Path<'_>, detail: &str) {
        let body = if detail.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {detail}")
        };
        self.push(CauseReason::Required, path, body);
    }

    pub(super) fn forbidden(&mut self, path: &Path<'_>, detail: &str) {
        self.push(CauseReason::Forbidden, path, format!("Forbidden: {detail}"));
    }

    /// `value` prints itself as the server prints it: a number plainly, a string quoted, anything else as JSON.
    pub(super) fn invalid(&mut self, path: &Path<'_>, value: impl fmt::Display, detail: &str) {
        self.push(CauseReason::Invalid, path, format!("Invalid value: {value}: {detail}"));
    }

    pub(super) fn not_supported(&mut self, path: &Path<'_>, value: &str, known: &[&str]) {
        let value = Json(value);
        let known = known.join("\", \"");
        let body = format!("Unsupported value: {value}: supported values: \"{known}\"");
        self.push(CauseReason::NotSupported, path, body);
    }

    fn push(&mut self, reason: CauseReason, path: &Path<'_>, message: String) {
        self.0.push(Cause { reason, message, field: path.to_string() });
    }
}
