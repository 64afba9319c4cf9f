//! Why a scenario cannot be used.

use std::{io, path::PathBuf};

use crate::workload::samples::SamplesError;

/// Why a scenario cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// It is no scenario: the text tells line and column.
    #[error("{0}")]
    Syntax(String),
    /// A member has no meaning.
    #[error("{field}: {problem}")]
    Invalid {
        /// The member.
        field: String,
        /// Why.
        problem: String,
    },
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is no table of samples.
    #[error("{path}: {source}")]
    Samples {
        /// Which.
        path: PathBuf,
        /// Why.
        source: SamplesError,
    },
}
