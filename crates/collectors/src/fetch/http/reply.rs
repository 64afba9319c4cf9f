//! Responses.

use http::{HeaderMap, StatusCode};
use tokio::sync::SemaphorePermit;

use crate::fetch::error::HttpError;

/// The number of larger responses is limited.
pub(super) const SMALL_RESPONSE: usize = 64 << 10;

/// A response.
pub(crate) struct Reply<'s> {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// Held until a large body is dropped.
    pub(super) _large: Option<SemaphorePermit<'s>>,
}

impl Reply<'_> {
    /// Whether the body is long, so that decoding it should not block a thread of the runtime.
    pub(crate) fn is_large(&self) -> bool {
        self.body.len() > SMALL_RESPONSE
    }

    /// An error unless the status is 200.
    pub(crate) fn ok(self) -> Result<Self, HttpError> {
        if self.status == StatusCode::OK { Ok(self) } else { Err(HttpError::Status(self.status)) }
    }
}
