//! How many requests are answered at a time, and how many bytes wait for clients, by who sends the
//! requests.
//!
//! Everybody who reaches the port can send requests without credentials or with invalid ones, each
//! of which can cost a review by the API server. Each kind of caller therefore has limits of its
//! own, so that none of them can keep out another one, in particular not the API server.

use std::sync::Arc;

use crate::reviews::ReviewLimit;
use hyper::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Who sends a request, as far as limits are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The API server on behalf of a user, or a member of `system:masters`.
    Trusted,
    /// Another user with valid credentials.
    Authenticated,
    /// A client without credentials.
    Anonymous,
}

/// The limits of all callers.
pub(crate) struct Admission {
    trusted: Limits,
    authenticated: Limits,
    anonymous: Limits,
}

/// The limits of one kind of caller.
pub(crate) struct Limits {
    /// Requests that are answered at a time.
    pub(crate) requests: Semaphore,
    /// Reviews of accesses.
    pub(crate) reviews: ReviewLimit,
    /// Responses that clients have not read yet.
    pub(crate) unread: UnreadLimit,
}

impl Admission {
    /// The client of the API server runs 32 reviews at a time: 20, 8 and 4.
    pub(crate) fn new() -> Self {
        Self {
            // As many requests as in kube-apiserver.
            trusted: Limits::new(400, ReviewLimit::new(20, 380), 128 << 20),
            authenticated: Limits::new(100, ReviewLimit::new(8, 92), 32 << 20),
            anonymous: Limits::new(40, ReviewLimit::new(4, 36), 4 << 20),
        }
    }

    pub(crate) fn limits(&self, caller: Caller) -> &Limits {
        match caller {
            Caller::Trusted => &self.trusted,
            Caller::Authenticated => &self.authenticated,
            Caller::Anonymous => &self.anonymous,
        }
    }
}

impl Limits {
    fn new(requests: usize, reviews: ReviewLimit, unread_bytes: usize) -> Self {
        let requests = Semaphore::new(requests);
        Self { requests, reviews, unread: UnreadLimit::new(unread_bytes) }
    }
}

/// Bounds the bytes of responses that have not been sent yet.
pub(crate) struct UnreadLimit {
    free_kib: Arc<Semaphore>,
    kib: usize,
}

/// Bytes that count until they are dropped, that is until they have been sent.
struct Counted {
    bytes: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl UnreadLimit {
    fn new(bytes: usize) -> Self {
        let kib = bytes >> 10;
        Self { free_kib: Arc::new(Semaphore::new(kib)), kib }
    }

    /// Counts the bytes until they have been sent. `None` if there are too many. A response that
    /// is longer than the limit is sent alone.
    pub(crate) fn count(&self, bytes: Bytes) -> Option<Bytes> {
        let kib = bytes.len().div_ceil(1 << 10).min(self.kib);
        let kib = u32::try_from(kib).unwrap_or(u32::MAX);
        let permit = self.free_kib.clone().try_acquire_many_owned(kib).ok()?;
        Some(Bytes::from_owner(Counted { bytes, _permit: permit }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_until_they_are_dropped() {
        let limit = UnreadLimit::new(8 << 10);
        let bytes = |kib: usize| Bytes::from(vec![0; kib << 10]);
        let mut first = limit.count(bytes(5)).unwrap();
        assert!(limit.count(bytes(4)).is_none());
        let rest = first.split_off(10);
        drop(first);
        assert!(limit.count(bytes(4)).is_none(), "a part has not been sent");
        drop(rest);
        let all = limit.count(bytes(20)).unwrap();
        assert_eq!(all.len(), 20 << 10, "longer than the limit");
        assert!(limit.count(bytes(1)).is_none());
    }
}
