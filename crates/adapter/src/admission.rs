//! The limits of requests: how many are answered at a time, and how many bytes wait for clients.
//!
//! Everyone who reaches the port can send requests without credentials or with invalid ones, each
//! of which can cost a review by the API server. Each kind of caller has limits of its own, which
//! users or, without credentials, addresses share fairly. None of them can keep out another one, in
//! particular not kube-controller-manager behind the API server.

use std::{net::IpAddr, sync::Arc};

use http::Response;
use hyper::body::Bytes;

use crate::{
    response::{Reply, too_many_unread},
    reviews::{ANONYMOUS, FairLimit, FairPermit, Flow, MASTERS, ReviewLimit, User},
};

/// Shorter bodies don't count: a connection's limits bound them.
const FREE_BYTES: usize = 64;

/// The limits of all kinds of callers.
pub(crate) struct Admission {
    /// Users behind the front proxy, and members of `system:masters`.
    trusted: Limits,
    /// Other users with valid credentials.
    authenticated: Limits,
    /// Clients without credentials, or with invalid ones.
    anonymous: Limits,
}

pub(crate) struct Limits {
    /// Requests that are answered at a time.
    requests: Arc<FairLimit>,
    reviews: ReviewLimit,
    /// Responses that clients have not read yet.
    unread_kib: Arc<FairLimit>,
}

/// The limits of a caller.
#[derive(Clone, Copy)]
pub(crate) struct Share<'a> {
    limits: &'a Limits,
    flow: Flow,
}

impl Admission {
    /// A user can have half of each limit. The client of the API server runs 32 reviews at a time:
    /// 20, 8 and 4.
    pub(crate) fn new() -> Self {
        Self {
            // A user has as many requests as all users of kube-apiserver.
            trusted: Limits::new(800, ReviewLimit::new(20, 380), 128 << 10),
            authenticated: Limits::new(200, ReviewLimit::new(8, 92), 32 << 10),
            anonymous: Limits::new(80, ReviewLimit::new(4, 36), 8 << 10),
        }
    }

    pub(crate) fn of_user(&self, user: &User, is_proxied: bool, client: IpAddr) -> Share<'_> {
        let limits = if is_proxied || user.is_in(MASTERS) {
            &self.trusted
        } else if user.name == ANONYMOUS {
            return self.of_unknown(client);
        } else {
            &self.authenticated
        };
        Share { limits, flow: Flow::of_user(user) }
    }

    /// The limits of a client that has shown no valid credentials.
    pub(crate) fn of_unknown(&self, client: IpAddr) -> Share<'_> {
        Share { limits: &self.anonymous, flow: Flow::of_address(client) }
    }
}

impl Limits {
    fn new(requests: usize, reviews: ReviewLimit, unread_kib: usize) -> Self {
        let (requests, unread_kib) = (FairLimit::new(requests), FairLimit::new(unread_kib));
        Self { requests, reviews, unread_kib }
    }
}

impl<'a> Share<'a> {
    /// `None` if the caller has too many requests.
    pub(crate) fn start_request(self) -> Option<FairPermit> {
        self.limits.requests.try_acquire(self.flow, 1)
    }

    pub(crate) fn reviews(self) -> (&'a ReviewLimit, Flow) {
        (&self.limits.reviews, self.flow)
    }

    /// Counts the body until it has been sent. If the caller leaves too many unread, it is 429
    /// instead. A body that is longer than the limit is sent alone.
    pub(crate) fn send(self, response: Reply) -> Reply {
        if response.body().len() <= FREE_BYTES {
            return response;
        }
        let unread = &self.limits.unread_kib;
        let kib = response.body().len().div_ceil(1 << 10).min(unread.max_amount());
        let Some(permit) = unread.try_acquire(self.flow, kib) else { return too_many_unread() };
        let (head, bytes) = response.into_parts();
        Response::from_parts(head, Bytes::from_owner(CountedBody { bytes, _permit: permit }))
    }
}

/// A body that counts until this is dropped, that is until it has been sent.
struct CountedBody {
    bytes: Bytes,
    _permit: FairPermit,
}

impl AsRef<[u8]> for CountedBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::reply;

    #[test]
    fn bytes_count_until_they_are_dropped() {
        let limits = Limits::new(1, ReviewLimit::new(1, 1), 16);
        let share = Share { limits: &limits, flow: Flow::of_user(&User::anonymous()) };
        let send = |kib: usize| {
            let response = share.send(reply(200, "text/plain", vec![0; kib << 10]));
            (response.status().as_u16(), response.into_body())
        };
        let (_, mut first) = send(5);
        assert_eq!(send(4).0, 429);
        let rest = first.split_off(10);
        drop(first);
        assert_eq!(send(4).0, 429, "a part has not been sent");
        drop(rest);
        let (status, all) = send(20);
        assert_eq!((status, all.len()), (200, 20 << 10), "longer than the limit");
        assert_eq!(send(1).0, 429);
        assert_eq!(send(0).0, 200);
    }
}
