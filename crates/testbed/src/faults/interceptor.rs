use std::time::Duration;

use super::{active::ActiveFault, effect::Effect};
use crate::{gate::Gate, request::RequestInfo};

/// Decides what happens to a request before it is handled. [`Faults`](super::Faults) is the usual
/// implementation.
pub trait Interceptor: Send + Sync {
    fn intercept(&self, request: &RequestInfo) -> Action;
}

/// How the server treats a request.
#[derive(Clone, Debug, Default)]
pub enum Action {
    /// Handle the request normally.
    #[default]
    Pass,
    /// Respond with this error.
    Status {
        code: u16,
        /// Such as `TooManyRequests`.
        reason: String,
        message: String,
        /// `Retry-After` header, in seconds.
        retry_after: Option<u32>,
    },
    /// Handle the request after a delay.
    Delay(Duration),
    /// Handle the request when the gate opens, with the state at that time.
    Hold(Gate),
    /// Handle the request normally, but end a watch after this many events.
    DropWatchAfter(usize),
    /// Apply these faults, in this order.
    Faults(Vec<ActiveFault>),
}

impl Action {
    /// The faults that have the same effect.
    pub(crate) fn into_faults(self) -> Vec<ActiveFault> {
        let effect = match self {
            // The service has already waited for the gate.
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
