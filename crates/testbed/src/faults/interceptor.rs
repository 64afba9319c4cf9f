use std::time::Duration;

use super::{active::Active, effect::Effect};
use crate::{gate::Gate, request::RequestInfo};

/// Decides what becomes of a request before the server looks at it: the place for faults.
pub trait Interceptor: Send + Sync {
    /// What to do with this request.
    fn intercept(&self, request: &RequestInfo) -> Action;
}

/// What becomes of a request.
#[derive(Clone, Debug, Default)]
pub enum Action {
    /// It is answered as usual.
    #[default]
    Pass,
    /// It gets this answer.
    Status {
        /// The HTTP status code.
        code: u16,
        /// The reason, such as `TooManyRequests`.
        reason: String,
        /// The text for a person.
        message: String,
        /// For how many seconds the client should wait.
        retry_after: Option<u32>,
    },
    /// It is answered as usual, but this much later.
    Delay(Duration),
    /// It is answered as usual, but only once the gate is open: what it finds then may have changed since it came.
    Hold(Gate),
    /// It is answered as usual; if it is a watch, it ends after this many events.
    DropWatchAfter(usize),
    /// It meets these faults, in this order.
    Faults(Vec<Active>),
}

impl Action {
    /// The faults that it comes to.
    pub(crate) fn into_faults(self) -> Vec<Active> {
        let effect = match self {
            // Whoever answers has waited for the gate.
            Self::Pass | Self::Hold(_) => return Vec::new(),
            Self::Faults(faults) => return faults,
            Self::Status { code, reason, message, retry_after: retry_after_seconds } => {
                Effect::Status { code, reason, message, retry_after_seconds }
            }
            Self::Delay(by) => Effect::Slow { by },
            Self::DropWatchAfter(after) => Effect::DropWatch { after },
        };
        vec![effect.into()]
    }
}

impl<F: Fn(&RequestInfo) -> Action + Send + Sync> Interceptor for F {
    fn intercept(&self, request: &RequestInfo) -> Action {
        self(request)
    }
}
