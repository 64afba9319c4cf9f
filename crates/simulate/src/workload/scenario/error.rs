//! Errors of scenarios.

use std::{io, path::PathBuf};

use super::incident::IncidentError;
use crate::workload::{
    load::LoadError, profile::ProfileError, samples::SamplesError, series::SourceSettingsError,
};

/// Why a scenario can't be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The YAML doesn't match the schema. The message has line and column.
    #[error(transparent)]
    Syntax(Box<serde_saphyr::Error>),
    #[error("{field}")]
    InvalidField {
        /// Path of the field.
        field: String,
        source: FieldError,
    },
    #[error("cannot read {path}")]
    ReadFile { path: PathBuf, source: io::Error },
    #[error("{path} is larger than {limit} bytes")]
    FileTooLarge { path: PathBuf, limit: u64 },
    #[error("{path}")]
    Samples { path: PathBuf, source: SamplesError },
}

/// Why a field of a scenario is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FieldError {
    #[error("is required")]
    Required,
    #[error("is required for the kind \"{0}\"")]
    RequiredForKind(String),
    #[error("is a duplicate")]
    Duplicate,
    #[error("must be more than 0")]
    NotPositive,
    #[error("must not be negative")]
    Negative,
    #[error("there is no workload \"{0}\"")]
    UnknownWorkload(String),
    #[error("there is no queue \"{0}\"")]
    UnknownQueue(String),
    #[error(transparent)]
    Incident(#[from] IncidentError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error(transparent)]
    Source(#[from] SourceSettingsError),
}
