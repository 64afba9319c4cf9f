//! Errors in the servers of a rules file.

use std::path::Path;

use crate::client::SettingsError;
use crate::rules::config::Position;

/// An invalid server of a rules file, or a rule's reference to a server that doesn't exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{path}: {problem}", position.map(|at| format!("{at}: ")).unwrap_or_default())]
pub struct ServerError {
    /// The path of the invalid field.
    pub path: String,
    /// The position of the field in the file.
    pub position: Option<Position>,
    pub problem: ServerProblem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerProblem {
    #[error("a server needs a name")]
    NoName,
    /// Two servers have the same name.
    #[error("there are two servers with the name {0:?}")]
    Duplicate(String),
    /// The settings are invalid.
    #[error("the server {name:?} can't be used: {source}")]
    Settings { name: String, source: SettingsError },
    #[error("the server {name:?} may not use the file {path}: {}", permitted_files(.directory.as_deref()))]
    File {
        name: String,
        /// The path in the rules file.
        path: Box<str>,
        /// The directory of the permitted files.
        directory: Option<Box<Path>>,
    },
    #[error(
        "the server {name:?} may not use the service account of the pod, unless \
         --metrics-config-auth-incluster permits it to all servers of the file"
    )]
    ServiceAccount { name: String },
    /// A rule refers to a server that the file doesn't have.
    #[error("there is no server {0:?} in `servers`")]
    Unknown(String),
    #[error("the rule names no `server`, and --prometheus-url is not given")]
    NoDefault,
}

fn permitted_files(directory: Option<&Path>) -> String {
    match directory {
        Some(directory) => {
            format!("its files must be in {} (--metrics-config-credentials)", directory.display())
        }
        None => "--metrics-config-credentials permits no file".to_owned(),
    }
}
