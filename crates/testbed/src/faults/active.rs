use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::{clock::FaultClock, effect::Effect};

/// How many requests a fault holds at a time; more are refused.
const HELD_LIMIT: usize = 10_000;

/// A fault that a request has met.
#[derive(Clone, Debug)]
pub struct Active {
    pub(crate) effect: Effect,
    pub(crate) span: Span,
}

impl From<Effect> for Active {
    /// The effect of a fault that is never over.
    fn from(effect: Effect) -> Self {
        Self { effect, span: Span::new(FaultClock::tokio(), Duration::ZERO, None) }
    }
}

/// The time of a fault: from when on, and until when or until it is removed. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    clock: FaultClock,
    from: Duration,
    until: Option<Duration>,
    ended: watch::Sender<bool>,
    /// Whoever has its one permit goes on. It has none before the fault is over, and hands it out in order.
    gate: Arc<Semaphore>,
    is_open: AtomicBool,
    places: Arc<Semaphore>,
}

/// Lets the next of those that wait go on when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _gate: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}

impl Span {
    pub(super) fn new(clock: FaultClock, from: Duration, until: Option<Duration>) -> Self {
        let shared = Shared {
            clock,
            from,
            until,
            ended: watch::Sender::new(false),
            gate: Arc::new(Semaphore::new(0)),
            is_open: AtomicBool::new(false),
            places: Arc::new(Semaphore::new(HELD_LIMIT)),
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.shared.clock.elapsed() >= self.shared.from && !self.is_over()
    }

    pub(crate) fn is_over(&self) -> bool {
        let until = self.shared.until;
        *self.shared.ended.borrow()
            || until.is_some_and(|until| self.shared.clock.elapsed() >= until)
    }

    /// Ends it before its time.
    pub(crate) fn end(&self) {
        self.shared.ended.send_replace(true);
        self.open();
    }

    fn open(&self) {
        if !self.shared.is_open.swap(true, Ordering::SeqCst) {
            self.shared.gate.add_permits(1);
        }
    }

    /// Waits for its beginning.
    pub(crate) async fn begun(&self) {
        self.shared.clock.sleep_until(self.shared.from).await;
    }

    /// Waits for its end.
    pub(crate) async fn over(&self) {
        let mut ended = self.shared.ended.subscribe();
        tokio::select! {
            _ = ended.wait_for(|ended| *ended) => {}
            () = self.until() => {}
        }
    }

    async fn until(&self) {
        match self.shared.until {
            Some(until) => self.shared.clock.sleep_until(until).await,
            None => std::future::pending().await,
        }
    }

    /// Waits for its end and then for those that came before; none if too many wait already.
    pub(crate) async fn turn(&self) -> Option<Turn> {
        let place = Arc::clone(&self.shared.places).try_acquire_owned().ok()?;
        let mut gate = pin!(Arc::clone(&self.shared.gate).acquire_owned());
        let gate = tokio::select! {
            biased;
            gate = &mut gate => gate,
            () = self.until() => {
                self.open();
                gate.await
            }
        };
        Some(Turn { _gate: gate.ok()?, _place: place })
    }
}
