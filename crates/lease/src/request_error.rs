//! Errors of requests to the API server.

use std::error::Error;

use kube::core::Status;

#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// An error response of the API server. Displayed as its message.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    #[error("{}", with_causes(.0.as_ref()))]
    Failed(Box<dyn Error + Send + Sync>),
    #[error("timed out")]
    TimedOut,
}

impl From<kube::Error> for RequestError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            // kube prints the cause after a name of its own.
            kube::Error::Service(cause) => Self::Failed(cause),
            error => Self::Failed(error.into()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_request_is_displayed_as_its_cause() {
        let refused = kube::Error::Service(std::io::Error::other("connection refused").into());
        assert_eq!(RequestError::from(refused).to_string(), "connection refused");
    }
}
