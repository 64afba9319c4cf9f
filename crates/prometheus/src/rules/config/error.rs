//! Errors of rules files.

use std::fmt;

use super::Position;

/// Why a rules file can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file is longer than [`MAX_FILE_LEN`](super::MAX_FILE_LEN).
    #[error("the file is longer than {} bytes", super::MAX_FILE_LEN)]
    TooLong,
    /// The file is no YAML.
    #[error("{position}: not YAML: {message}")]
    Syntax {
        /// Where the parser stopped.
        position: Position,
        /// What is wrong.
        message: String,
    },
    /// Fields are unknown, repeated or of the wrong type.
    #[error("{0}")]
    Fields(Issues),
}

/// Everything that is wrong with the fields of a file, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issues(pub Vec<Issue>);

/// A field that is unknown, repeated or of the wrong type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Where it is.
    pub position: Position,
    /// Its path, such as `rules[0].seriesQuery`. It is empty for the whole document.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.position)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, issue) in self.0.iter().enumerate() {
            let separator = if index > 0 { "\n" } else { "" };
            write!(f, "{separator}{issue}")?;
        }
        Ok(())
    }
}
