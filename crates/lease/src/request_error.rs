use std::error::Error;

use kube::core::Status;

#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// The API server responded with an error. Prints its message.
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

/// An error and its causes. The text of a kube error already contains its first cause.
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
