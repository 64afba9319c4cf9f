//! Failures of requests that are sent through kube.

use hpa_metrics::describe;
use kube::core::Status;

/// Why a request failed. The text ends in conditions, events and logs, so it includes the causes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// The API server responded with an error. Prints its message.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    #[error("{}", describe(.0))]
    Failed(kube::Error),
    #[error("timed out")]
    TimedOut,
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            error => Self::Failed(error),
        }
    }
}

impl ApiError {
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused(status) if status.is_not_found())
    }
}
