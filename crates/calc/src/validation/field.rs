//! Violations and the paths of their fields, as the API server prints them
//! (k8s.io/apimachinery/pkg/util/validation/field).

use std::fmt;

use crate::go_text::JsonString;

/// The path of a field. It is printed only for violations, so that valid objects need no
/// allocation.
#[derive(Clone, Copy)]
pub(super) struct Path<'a> {
    parent: Option<&'a Self>,
    segment: Segment<'a>,
}

#[derive(Clone, Copy)]
enum Segment<'a> {
    Child(&'static str),
    Index(usize),
    Key(&'a str),
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

    pub(super) const fn key<'a>(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), segment: Segment::Key(key) }
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
            (Segment::Key(key), _) => write!(f, "[{key}]"),
        }
    }
}

/// The reason of a violation: the `reason` of a meta/v1 `StatusCause`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CauseReason {
    /// The value violates a rule.
    Invalid,
    /// A value is required.
    Required,
    /// A value is not allowed in combination with other fields.
    Forbidden,
    /// The value is not one of the enumeration.
    NotSupported,
    /// The value is too long.
    TooLong,
}

impl CauseReason {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::Forbidden => "FieldValueForbidden",
            Self::NotSupported => "FieldValueNotSupported",
            Self::TooLong => "FieldValueTooLong",
        }
    }
}

impl fmt::Display for CauseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One violation: a meta/v1 `StatusCause`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cause {
    /// The reason of the violation.
    pub reason: CauseReason,
    /// The human-readable message. It has the value if that is invalid or not supported.
    pub message: String,
    /// The path of the field, for example `spec.metrics[0].type`.
    pub field: String,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// Collects violations in order.
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

    /// `value` must print like in the API server: plain numbers, quoted strings, anything else as
    /// JSON.
    pub(super) fn invalid(&mut self, path: &Path<'_>, value: impl fmt::Display, detail: &str) {
        self.push(CauseReason::Invalid, path, format!("Invalid value: {value}: {detail}"));
    }

    pub(super) fn not_supported(&mut self, path: &Path<'_>, value: &str, known: &[&str]) {
        let value = JsonString(value);
        let known = known.join("\", \"");
        let body = format!("Unsupported value: {value}: supported values: \"{known}\"");
        self.push(CauseReason::NotSupported, path, body);
    }

    pub(super) fn too_long(&mut self, path: &Path<'_>, max_bytes: usize) {
        let body = format!("Too long: may not be more than {max_bytes} bytes");
        self.push(CauseReason::TooLong, path, body);
    }

    fn push(&mut self, reason: CauseReason, path: &Path<'_>, message: String) {
        self.0.push(Cause { reason, message, field: path.to_string() });
    }
}
