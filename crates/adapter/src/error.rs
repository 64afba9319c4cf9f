//! The error of settings, certificates and CAs.

use std::error::Error;

/// A setting, a file, a certificate, a CA or an object of the cluster that can't be read, used or
/// written. The message names it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SetupError {
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl SetupError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), source: None }
    }

    pub(crate) fn caused_by(
        message: impl Into<String>,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self { message: message.into(), source: Some(cause.into()) }
    }
}
