//! Limits of concurrent requests, of access reviews, and of response bytes that clients have not
//! read.
//!
//! Every client that reaches the port can send requests without credentials or with invalid ones.
//! Each such request can cost a review by the API server. Trusted, authenticated and anonymous
//! callers therefore have separate limits. Within a limit, users (or addresses, without
//! credentials) get fair shares. No other kind of caller can exhaust the limit of
//! kube-controller-manager, whose requests the front proxy forwards.

use std::{net::IpAddr, sync::Arc};

use crate::{
    authentication::KnownClient,
    response::{Reply, bodiless_too_many_requests, hold_until_sent},
    reviews::{ANONYMOUS, FairLimit, FairPermit, Flow, MASTERS, Rate, ReviewLimit, User},
};

/// Bodies up to this length are not counted. `ConnectionLimits::unread` bounds their number, except
/// on connections of front proxies.
const UNCOUNTED_BYTES: usize = 64;

/// The rates of access reviews for callers that aren't trusted, in total and of a user or address.
/// A thousand reviews a second would use most of a core of kube-apiserver. A burst suffices for a
/// client that starts and reads a few hundred metrics for the first time.
const USERS_RATE: Rate = Rate { per_second: 100, burst: 1000 };
const USER_RATE: Rate = Rate { per_second: 20, burst: 300 };
const ANONYMOUS_RATE: Rate = Rate { per_second: 40, burst: 500 };
const ADDRESS_RATE: Rate = Rate { per_second: 10, burst: 300 };

/// The limits of all kinds of callers.
pub(crate) struct Admission {
    /// Users behind the front proxy, and members of `system:masters`.
    trusted: Limits,
    /// Other users with valid credentials.
    authenticated: Limits,
    /// Clients without credentials, or with invalid ones.
    anonymous: Limits,
}

/// The limits of one kind of callers.
struct Limits {
    /// Concurrent requests.
    requests: Arc<FairLimit>,
    reviews: ReviewLimit,
    /// The bodies of responses that clients have not read.
    unread_kib: Arc<FairLimit>,
}

/// A caller's share of the limits for its kind.
#[derive(Clone, Copy)]
pub(crate) struct Share<'a> {
    limits: &'a Limits,
    flow: Flow,
}

impl Admission {
    /// Half of each limit is available to a single user. Together, the kinds run 32 access reviews
    /// at a time, as many as the client sends to one API group.
    pub(crate) fn new() -> Self {
        Self {
            // A single user gets half, 400: the default of kube-apiserver's
            // --max-requests-inflight.
            trusted: Limits::new(800, ReviewLimit::new(20, 380), 128 << 10),
            authenticated: Limits::new(
                200,
                ReviewLimit::new(8, 92).with_rate(USERS_RATE, USER_RATE),
                32 << 10,
            ),
            anonymous: Limits::new(
                80,
                ReviewLimit::new(4, 36).with_rate(ANONYMOUS_RATE, ADDRESS_RATE),
                8 << 10,
            ),
        }
    }

    pub(crate) fn share_of_user(&self, user: &User, is_proxied: bool, client: IpAddr) -> Share<'_> {
        if is_trusted(user, is_proxied) {
            Share { limits: &self.trusted, flow: Flow::of_user(user) }
        } else if user.name == ANONYMOUS {
            self.share_of_anonymous(client)
        } else {
            Share { limits: &self.authenticated, flow: Flow::of_user(user) }
        }
    }

    /// The share of a client without valid credentials.
    pub(crate) fn share_of_anonymous(&self, client: IpAddr) -> Share<'_> {
        Share { limits: &self.anonymous, flow: Flow::of_address(client) }
    }
}

fn is_trusted(user: &User, is_proxied: bool) -> bool {
    is_proxied || user.is_in(MASTERS)
}

/// The kind of a client that has sent the credentials of this user. `None` for [`ANONYMOUS`].
pub(crate) fn known_client(user: &User, is_proxied: bool) -> Option<KnownClient> {
    if user.name == ANONYMOUS {
        return None;
    }
    Some(if is_trusted(user, is_proxied) {
        KnownClient::Trusted
    } else {
        KnownClient::User(Flow::of_user(user))
    })
}

impl Limits {
    fn new(requests: usize, reviews: ReviewLimit, unread_kib: usize) -> Self {
        let (requests, unread_kib) = (FairLimit::new(requests), FairLimit::new(unread_kib));
        Self { requests, reviews, unread_kib }
    }
}

impl<'a> Share<'a> {
    /// `None` if the caller's share of concurrent requests is used up.
    pub(crate) fn start_request(self) -> Option<FairPermit> {
        self.limits.requests.try_acquire(self.flow, 1)
    }

    pub(crate) fn reviews(self) -> (&'a ReviewLimit, Flow) {
        (&self.limits.reviews, self.flow)
    }

    /// Counts the body as unread until it has been sent. If too many bytes are unread already,
    /// returns 429 instead of the response. A body longer than half the limit counts as half. It is
    /// accepted only while callers of this kind have almost no other unread response.
    pub(crate) fn limit_unread(self, response: Reply) -> Reply {
        if response.body().len() <= UNCOUNTED_BYTES {
            return response;
        }
        let unread = &self.limits.unread_kib;
        let kib = response.body().len().div_ceil(1 << 10).min(unread.max_amount());
        let Some(permit) = unread.try_acquire(self.flow, kib) else {
            return bodiless_too_many_requests();
        };
        response.map(|body| hold_until_sent(body, permit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::reply;

    #[test]
    fn unread_bodies_count_until_they_are_sent() {
        let limits = Limits::new(1, ReviewLimit::new(1, 1), 16);
        let share = Share { limits: &limits, flow: Flow::of_user(&User::anonymous()) };
        let send = |kib: usize| {
            let response = share.limit_unread(reply(200, "text/plain", vec![0; kib << 10]));
            (response.status().as_u16(), response.into_body())
        };
        let (_, mut first) = send(5);
        assert_eq!(send(4).0, 429);
        let rest = first.split_off(10);
        drop(first);
        assert_eq!(send(4).0, 429, "a part of the first body has not been sent");
        drop(rest);
        let (status, all) = send(20);
        assert_eq!((status, all.len()), (200, 20 << 10), "longer than the limit");
        let other = Share { limits: &limits, flow: Flow::of_address(IpAddr::from([10, 0, 0, 1])) };
        assert_eq!(other.limit_unread(reply(200, "text/plain", vec![0; 9 << 10])).status(), 429);
        drop(all);
        let body = other.limit_unread(reply(200, "text/plain", vec![0; 2 << 10]));
        assert_eq!(send(20).0, 429, "another caller has an unread response");
        drop(body);
        let (_, _all) = send(20);
        assert_eq!(send(1).0, 429);
        assert_eq!(send(0).0, 200);
    }
}
