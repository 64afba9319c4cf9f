//! The decision about each request, and gates that hold requests back.

use tokio::sync::watch;

use super::{active::ActiveFault, effect::Effect};
use crate::request::RequestInfo;

/// Decides how the server handles a request. Usually implemented by [`Faults`](super::Faults).
pub trait Interceptor: Send + Sync {
    fn intercept(&self, request: &RequestInfo) -> Action;
}

/// The treatment of a request by the server.
#[derive(Clone, Default)]
pub enum Action {
    /// Handle the request normally.
    #[default]
    Pass,
    /// Handle the request when the gate opens, with the state at that time.
    Hold(Gate),
    /// Apply these faults, in this order.
    Faults(Vec<ActiveFault>),
}

impl From<Effect> for Action {
    fn from(effect: Effect) -> Self {
        Self::Faults(vec![effect.into()])
    }
}

impl<F: Fn(&RequestInfo) -> Action + Send + Sync> Interceptor for F {
    fn intercept(&self, request: &RequestInfo) -> Action {
        self(request)
    }
}

/// Holds requests back until its [`Release`] is dropped. Clones share the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    closed: watch::Receiver<()>,
}

/// Opens the [`Gate`] when dropped.
#[derive(Debug)]
#[must_use = "the gate opens when this is dropped"]
pub struct Release {
    _open: watch::Sender<()>,
}

impl Gate {
    /// A closed gate, and the guard that opens it.
    pub fn new() -> (Self, Release) {
        let (open, closed) = watch::channel(());
        (Self { closed }, Release { _open: open })
    }

    /// Waits until the gate opens.
    pub async fn pass(mut self) {
        // Nothing is ever sent: `changed` fails once the sender is dropped.
        while self.closed.changed().await.is_ok() {}
    }
}
