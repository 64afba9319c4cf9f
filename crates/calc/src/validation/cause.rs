//! Violations, as the API server reports them.

use std::fmt;

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
    /// The human-readable message, with the value unless it is absent or forbidden.
    pub message: String,
    /// The path of the field, for example `spec.metrics[0].type`.
    pub field: String,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}
