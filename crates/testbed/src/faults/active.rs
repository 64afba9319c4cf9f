//! The time in which a fault is active, and the requests that it stalls.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, watch};

use super::effect::Effect;
use crate::clock::SimulatedClock;

/// The maximum number of requests that a fault stalls at the same time. Others get 429.
const MAX_STALLED: usize = 10_000;

/// A fault that affects a request.
#[derive(Clone)]
pub struct ActiveFault {
    pub(crate) effect: Effect,
    pub(crate) window: FaultWindow,
}

impl From<Effect> for ActiveFault {
    /// A fault that has already started and never ends.
    fn from(effect: Effect) -> Self {
        let start = Timestamp::UNIX_EPOCH;
        Self { effect, window: FaultWindow::new(SimulatedClock::new(start, 1.0), start, None) }
    }
}

/// The time in which a fault is active. Clones share the same state.
#[derive(Clone)]
pub(crate) struct FaultWindow {
    clock: SimulatedClock,
    from: Timestamp,
    until: Option<Timestamp>,
    /// Whether [`FaultWindow::end`] was called. `until` may have passed without that.
    ended_early: watch::Sender<bool>,
    /// Lets stalled requests continue one by one, in the order in which they arrived.
    line: Arc<Mutex<()>>,
    /// Limits the number of stalled requests.
    slots: Arc<Semaphore>,
}

/// Lets one stalled request continue. Dropping it lets the next one continue.
#[derive(Debug)]
pub(crate) struct StallTicket {
    _line: OwnedMutexGuard<()>,
    _slot: OwnedSemaphorePermit,
}

impl FaultWindow {
    pub(super) fn new(clock: SimulatedClock, from: Timestamp, until: Option<Timestamp>) -> Self {
        Self {
            clock,
            from,
            until,
            ended_early: watch::Sender::new(false),
            line: Arc::default(),
            slots: Arc::new(Semaphore::new(MAX_STALLED)),
        }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.clock.now() >= self.from && !self.is_over()
    }

    pub(crate) fn is_over(&self) -> bool {
        *self.ended_early.borrow() || self.until.is_some_and(|until| self.clock.now() >= until)
    }

    /// Ends the window early.
    pub(crate) fn end(&self) {
        self.ended_early.send_replace(true);
    }

    pub(crate) async fn wait_for_start(&self) {
        self.clock.sleep_until(self.from).await;
    }

    pub(crate) async fn wait_for_end(&self) {
        let mut ended_early = self.ended_early.subscribe();
        tokio::select! {
            _ = ended_early.wait_for(|ended_early| *ended_early) => {}
            () = self.wait_for_deadline() => {}
        }
    }

    async fn wait_for_deadline(&self) {
        match self.until {
            Some(until) => self.clock.sleep_until(until).await,
            None => std::future::pending().await,
        }
    }

    /// Waits until the window has ended and all earlier stalled requests were handled. Returns
    /// `None` if too many requests are stalled.
    pub(crate) async fn wait_in_line(&self) -> Option<StallTicket> {
        let slot = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        // The first request holds the line until the window has ended, the others wait for it.
        let line = Arc::clone(&self.line).lock_owned().await;
        self.wait_for_end().await;
        Some(StallTicket { _line: line, _slot: slot })
    }
}
