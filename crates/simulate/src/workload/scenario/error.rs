//! Errors of scenarios.

use hpa_calc::crd::FieldError;
use serde_saphyr::{MessageFormatter, UserMessageFormatter};

/// An error while a scenario is loaded.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file isn't YAML, or doesn't match the schema.
    #[error("{place}: {problem}")]
    Syntax {
        /// The line, the column and the path of the field, as far as they are known.
        place: String,
        problem: String,
    },
    #[error("{place}: unknown field, expected one of {}", known.join(", "))]
    UnknownField { place: String, name: String, known: Vec<&'static str> },
    #[error("{0}")]
    InvalidField(FieldError),
    /// A file of samples can't be read or parsed.
    #[error("{file}: {problem}")]
    Samples { file: String, problem: String },
}

impl ScenarioError {
    /// `path` is that of the field, or `.` outside of fields.
    pub(super) fn syntax(path: &str, error: &serde_saphyr::Error) -> Self {
        let position =
            error.location().map(|at| format!("line {}, column {}", at.line(), at.column()));
        let path = Some(path.to_owned()).filter(|path| path != ".");
        let place = position.into_iter().chain(path).collect::<Vec<_>>().join(": ");
        match error.without_snippet() {
            serde_saphyr::Error::SerdeUnknownField { field, expected, .. } => {
                Self::UnknownField { place, name: field.clone(), known: expected.clone() }
            }
            other => {
                let problem = UserMessageFormatter.format_message(other).into_owned();
                Self::Syntax { place, problem }
            }
        }
    }
}
