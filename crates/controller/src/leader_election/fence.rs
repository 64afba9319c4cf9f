//! Leadership as those see it who write: whether it lasts, and a client that writes nothing without it.

use std::future::{Future, pending};

use http::{Method, Request, Response};
use jiff::Timestamp;
use kube::{Client, client::Body};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tower::{BoxError, service_fn};

/// The leader before us, as far as the lease tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predecessor {
    /// When it renewed or released the lease last, by its own wall clock.
    pub renewed: Timestamp,
    /// Whether it kept histories.
    pub kept_history: bool,
}

/// Whether an instance leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not yet.
    Standby,
    /// Until then, unless it is renewed.
    Leading { until: Instant, predecessor: Option<Predecessor> },
    /// No more.
    Ended,
}

/// The leadership of an instance. Its end is a point in monotonic time: it is over then, whether or not anybody had
/// the time to notice, be it because the process was stopped.
#[derive(Clone, Debug)]
pub struct Leadership {
    /// `None` where there is no election.
    state: Option<watch::Receiver<State>>,
}

/// Why a write was not sent, or given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this instance does not lead")]
pub struct NotLeading;

impl Leadership {
    /// That of the only instance.
    pub fn without_election() -> Self {
        Self { state: None }
    }

    pub(super) fn of(state: watch::Receiver<State>) -> Self {
        Self { state: Some(state) }
    }

    /// Waits until this instance leads, and says who led before. `None` if that will not be.
    pub async fn gained(&self) -> Option<Option<Predecessor>> {
        let Some(state) = &self.state else { return Some(None) };
        let mut state = state.clone();
        let decided = state.wait_for(|state| *state != State::Standby).await;
        match decided.map(|state| *state) {
            Ok(State::Leading { predecessor, .. }) => Some(predecessor),
            Ok(State::Standby | State::Ended) | Err(_) => None,
        }
    }

    /// Whether this instance leads at this moment.
    pub fn holds(&self) -> bool {
        let state = self.state.as_ref().map(|state| *state.borrow());
        match state {
            None => true,
            Some(State::Leading { until, .. }) => Instant::now() < until,
            Some(State::Standby | State::Ended) => false,
        }
    }

    /// Waits until this instance does not lead.
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
                    // Nobody is there to renew it: it runs out.
                    sleep_until(until).await;
                    return;
                },
                () = sleep_until(until) => {}
            }
        }
    }

    /// A client that sends requests other than reads only while this instance leads, and gives them up when that ends.
    ///
    /// What was sent before may still take effect: the renew deadline is shorter than the lease duration for that, and
    /// a scale is written against the version that was read.
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
                leadership.guard(client.send(request)).await
            }
        });
        Client::new(service, namespace)
    }

    async fn guard(
        &self,
        answer: impl Future<Output = kube::Result<Response<Body>>>,
    ) -> Result<Response<Body>, BoxError> {
        tokio::select! {
            // In this order: nothing is begun that may not be.
            biased;
            () = self.lost() => Err(NotLeading.into()),
            answer = answer => answer.map_err(BoxError::from),
        }
    }
}
