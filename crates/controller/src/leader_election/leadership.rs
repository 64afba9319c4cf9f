//! Whether this instance is the leader, and a client that writes only while it is.

use std::future::{Future, pending};

use http::{Method, Request, Response};
use jiff::Timestamp;
use kube::{Client, client::Body};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tower::{BoxError, service_fn};

/// The leader before this one, according to the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predecessor {
    /// When it last renewed or released the lease, by its own wall clock.
    pub renewed: Timestamp,
    /// Whether it stored histories for its successor.
    pub kept_history: bool,
    /// Until when the stored histories are complete, if not until the end.
    pub history_complete_until: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Standby,
    /// Leader until this time, or longer if the lease is renewed.
    Leading {
        until: Instant,
        predecessor: Option<Predecessor>,
    },
    /// Not the leader, and no longer in the election.
    Ended,
}

/// The leadership of an instance. It ends at a time on the monotonic clock, even if the process was
/// suspended and had no chance to react.
#[derive(Clone, Debug)]
pub struct Leadership {
    /// `None` without an election.
    state: Option<watch::Receiver<State>>,
}

/// The error of a write request that was not sent, or aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this instance is not the leader")]
pub struct NotLeader;

impl Leadership {
    /// The leadership of a single instance, which never ends.
    pub fn without_election() -> Self {
        Self { state: None }
    }

    pub(super) fn new(state: watch::Receiver<State>) -> Self {
        Self { state: Some(state) }
    }

    /// Waits until this instance is the leader and returns its predecessor, if there was one.
    /// `None` if this instance will not become the leader.
    pub async fn acquired(&self) -> Option<Option<Predecessor>> {
        let Some(state) = &self.state else { return Some(None) };
        let mut state = state.clone();
        let decided = state.wait_for(|state| *state != State::Standby).await;
        match decided.map(|state| *state) {
            Ok(State::Leading { predecessor, .. }) => Some(predecessor),
            Ok(State::Standby | State::Ended) | Err(_) => None,
        }
    }

    pub fn is_leader(&self) -> bool {
        let state = self.state.as_ref().map(|state| *state.borrow());
        match state {
            None => true,
            Some(State::Leading { until, .. }) => Instant::now() < until,
            Some(State::Standby | State::Ended) => false,
        }
    }

    /// Waits until this instance is not the leader.
    pub async fn lost(&self) {
        let Some(state) = &self.state else { return pending().await };
        let mut state = state.clone();
        loop {
            let State::Leading { until, .. } = *state.borrow_and_update() else { return };
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

    /// A client that sends write requests only while this instance is the leader, and aborts them
    /// when it is no longer.
    ///
    /// A request that was already sent may still take effect. That is safe because the renew
    /// deadline is shorter than the lease duration, and because a scale is written against the
    /// resource version that was read.
    pub fn fence(&self, client: &Client) -> Client {
        if self.state.is_none() {
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
        tokio::select! {
            // Checks the leadership before the request is sent.
            biased;
            () = self.lost() => Err(NotLeader.into()),
            response = response => response.map_err(BoxError::from),
        }
    }
}
