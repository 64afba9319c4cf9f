//! Errors of scenario files.

use crate::workload::samples::SamplesError;

use super::position::Position;

/// Why a scenario file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The file is no YAML. The message has line and column.
    #[error(transparent)]
    Syntax(Box<serde_saphyr::Error>),
    #[error("{}{path}: {message}", place(*position))]
    Field {
        /// Of the field, or of the closest one around it that is in the file.
        position: Option<Position>,
        /// Path of the field.
        path: String,
        message: String,
    },
    #[error("{file}: {message}")]
    File { file: String, message: String },
    #[error("{file}")]
    Samples { file: String, source: SamplesError },
}

fn place(position: Option<Position>) -> String {
    position.map(|position| format!("{position}: ")).unwrap_or_default()
}

/// What is wrong with a field, before its position is known.
pub(super) struct FieldProblem {
    pub(super) path: String,
    pub(super) message: String,
}

impl FieldProblem {
    pub(super) fn new(path: impl Into<String>, message: impl ToString) -> Self {
        Self { path: path.into(), message: message.to_string() }
    }
}
