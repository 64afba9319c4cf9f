//! Errors of requests to the API server.

use std::error::Error;

use kube::core::Status;

#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// An error response of the API server. Displayed as its message.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    #[error("{}", with_causes(.0))]
    Failed(kube::Error),
    #[error("timed out")]
    TimedOut,
}

impl From<kube::Error> for RequestError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            error => Self::Failed(error),
        }
    }
}

/// The text of an error, and of those causes that the text doesn't contain.
fn with_causes(error: &dyn Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}
