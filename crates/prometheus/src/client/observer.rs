//! Observation of requests, for metrics.

use std::time::Duration;

use crate::client::error::QueryFailure;

/// Is called after each request.
pub trait RequestObserver: Send + Sync {
    /// A request to `path` of the server with this name has ended.
    fn observe(
        &self,
        server: &str,
        path: &'static str,
        duration: Duration,
        failure: Option<&QueryFailure>,
    );
}

impl RequestObserver for () {
    fn observe(&self, _: &str, _: &'static str, _: Duration, _: Option<&QueryFailure>) {}
}
