//! The leadership of an instance, and a client that writes only while it lasts.

use std::{
    collections::BTreeMap,
    future::{Future, pending, poll_fn},
    sync::Arc,
    task::Poll,
};

use http::{Method, Request, Response};
use jiff::Timestamp;
use kube::{Client, client::Body};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tower::{BoxError, service_fn};

use crate::clock::{Clock, Instants};

/// The leader before this one, according to the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predecessor {
    /// The time when it last renewed or released the lease, by its own wall clock.
    pub renewed: Timestamp,
    /// The lease's annotations, see [`LeaseHooks::annotations`](crate::LeaseHooks::annotations).
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ElectionState {
    Standby,
    /// Leader until this time, or longer if the lease is renewed.
    Leading {
        until: Instant,
        /// The time when the last renewal was sent.
        renewed: Instants,
        predecessor: Option<Predecessor>,
    },
    /// Not the leader, and no longer in the election.
    Ended,
}

impl ElectionState {
    /// The end of the leadership unless the lease is renewed; `None` if this instance is not the
    /// leader. Time during which the machine was suspended since the last renewal counts, although
    /// the monotonic clock doesn't include it.
    pub(crate) fn leader_until(&self, clock: &dyn Clock) -> Option<Instant> {
        let Self::Leading { until, renewed, .. } = self else { return None };
        let suspended = clock.instants().suspended_since(*renewed);
        // An instant can't be before the machine's start.
        Some(until.checked_sub(suspended).unwrap_or_else(|| Instant::now().min(*until)))
    }
}

/// The leadership of an instance. It ends when the lease is released or another client takes it, at
/// the latest at the renew deadline by the monotonic clock, and earlier if the wall clock jumps
/// forward. The end applies even if the process was suspended at that time.
#[derive(Clone)]
pub struct Leadership {
    /// `None` without an election.
    election: Option<ElectionReceiver>,
}

#[derive(Clone)]
struct ElectionReceiver {
    state: watch::Receiver<ElectionState>,
    clock: Arc<dyn Clock>,
}

/// The error of a write request that was not sent or was aborted, and of [`Leadership::acquired`]
/// if this instance will not become the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this instance is not the leader")]
pub struct NotLeader;

impl Leadership {
    /// The leadership of a single instance, which never ends.
    pub fn without_election() -> Self {
        Self { election: None }
    }

    pub(crate) fn new(state: watch::Receiver<ElectionState>, clock: Arc<dyn Clock>) -> Self {
        Self { election: Some(ElectionReceiver { state, clock }) }
    }

    /// Waits until this instance is the leader. Returns its predecessor, if one is known. Fails if
    /// this instance will not become the leader.
    pub async fn acquired(&self) -> Result<Option<Predecessor>, NotLeader> {
        let Some(election) = &self.election else { return Ok(None) };
        let mut state = election.state.clone();
        let decided = state.wait_for(|state| *state != ElectionState::Standby).await;
        match decided.map(|state| state.clone()) {
            Ok(ElectionState::Leading { predecessor, .. }) => Ok(predecessor),
            Ok(ElectionState::Standby | ElectionState::Ended) | Err(_) => Err(NotLeader),
        }
    }

    pub fn is_leader(&self) -> bool {
        let Some(ElectionReceiver { state, clock }) = &self.election else { return true };
        let state = state.borrow();
        state.leader_until(&**clock).is_some_and(|until| Instant::now() < until)
    }

    /// Waits until this instance is not the leader. Without an election, waits forever.
    pub async fn lost(&self) {
        let Some(ElectionReceiver { state, clock }) = &self.election else {
            return pending().await;
        };
        let mut state = state.clone();
        loop {
            let until = state.borrow_and_update().leader_until(&**clock);
            let Some(until) = until else { return };
            if Instant::now() >= until {
                return;
            }
            tokio::select! {
                changed = state.changed() => if changed.is_err() {
                    // The elector is gone, so nothing renews the lease.
                    sleep_until(until).await;
                    return;
                },
                () = sleep_until(until) => {}
            }
        }
    }

    /// A client that sends write requests only while this instance is the leader, and aborts
    /// requests in flight when the leadership ends.
    ///
    /// A request that was already sent may still take effect. That is safe because the renew
    /// deadline is shorter than the lease duration, and because a scale is written against the
    /// resource version that was read.
    pub fn fence(&self, client: &Client) -> Client {
        if self.election.is_none() {
            return client.clone();
        }
        let namespace = client.default_namespace().to_owned();
        let (leadership, client) = (self.clone(), client.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (leadership, client) = (leadership.clone(), client.clone());
            async move {
                if matches!(*request.method(), Method::GET | Method::HEAD) {
                    return client.send(request).await.map_err(BoxError::from);
                }
                leadership.while_leading(client.send(request)).await
            }
        });
        Client::new(service, namespace)
    }

    async fn while_leading(
        &self,
        response: impl Future<Output = kube::Result<Response<Body>>>,
    ) -> Result<Response<Body>, BoxError> {
        // The process may be suspended while the request waits for a rate limit. No timer fires
        // then, so the leadership is checked whenever the request could continue.
        let not_leader =
            poll_fn(|_| if self.is_leader() { Poll::Pending } else { Poll::Ready(()) });
        tokio::select! {
            biased;
            () = not_leader => Err(NotLeader.into()),
            () = self.lost() => Err(NotLeader.into()),
            response = response => response.map_err(BoxError::from),
        }
    }
}
