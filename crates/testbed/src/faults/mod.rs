//! Describes faults of requests. [`crate::fault_injection`] applies them.

mod active;
mod effect;
mod fault;
mod interceptor;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hpa_simulate::workload::random;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

use self::active::FaultWindow;
pub use self::{
    active::ActiveFault,
    effect::Effect,
    fault::{Fault, InvalidFault, Match},
    interceptor::{Action, Gate, Interceptor, Release},
};
pub(crate) use self::{active::StallTicket, effect::remove_group};
use crate::{clock::SimulatedClock, request::RequestInfo};

/// Identifies a fault of one [`Faults`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultId(u64);

/// The faults of a server, an [`Interceptor`]. Clones share the same faults.
///
/// All matching faults affect a request, in the order in which they were added, up to the first
/// that determines the response. With the same seed, the same sequence of requests is affected in
/// the same way. The random numbers of a fault don't depend on other faults.
///
/// ```
/// use std::sync::Arc;
///
/// use hpa_testbed::{Config, Effect, Fault, Faults, Match, Testbed};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let faults = Faults::new(1);
/// let interceptor = Some(Arc::new(faults.clone()) as Arc<_>);
/// let testbed = Testbed::new(Config { interceptor, ..Config::default() });
/// let controller = testbed.client_named("controller");
/// let version = Match::verb("get").client("controller");
/// let fault = faults.add(Fault::on(version).first(1).effect(Effect::ServiceUnavailable));
/// assert!(testbed.client().apiserver_version().await.is_ok());
/// assert!(controller.apiserver_version().await.is_err());
/// assert!(controller.apiserver_version().await.is_ok());
/// assert_eq!(faults.hits(fault), 1);
/// # }
/// ```
#[derive(Clone)]
pub struct Faults {
    shared: Arc<Shared>,
}

struct Shared {
    seed: u64,
    clock: SimulatedClock,
    /// The time to which the times of faults are relative.
    start: Timestamp,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    next_id: u64,
    /// The faults that were not removed, also those before and after their time.
    present: BTreeMap<FaultId, Entry>,
    removed_hits: BTreeMap<FaultId, u64>,
}

struct Entry {
    fault: Fault,
    window: FaultWindow,
    /// Number of matching requests that the fault could affect: those while it was active, and
    /// earlier watches if it can end or silence them.
    matched: u64,
    /// Number of affected requests.
    hits: watch::Sender<u64>,
}

impl Faults {
    /// An empty set of faults. Their `from` and `until` are relative to now, on tokio's clock.
    pub fn new(seed: u64) -> Self {
        Self::with_clock(seed, SimulatedClock::new(Timestamp::UNIX_EPOCH, 1.0))
    }

    /// An empty set of faults. Their `from` and `until` are relative to now, on `clock`.
    pub fn with_clock(seed: u64, clock: SimulatedClock) -> Self {
        let start = clock.now();
        Self { shared: Arc::new(Shared { seed, clock, start, entries: Mutex::default() }) }
    }

    /// The time since creation, which `from` and `until` refer to.
    pub fn elapsed(&self) -> Duration {
        let elapsed = self.shared.clock.now().duration_since(self.shared.start);
        elapsed.try_into().unwrap_or_default()
    }

    /// Adds a fault. It affects only requests that arrive after this call. In particular, it
    /// neither ends nor silences watches that are already running.
    pub fn add(&self, fault: Fault) -> FaultId {
        let Shared { clock, start, entries, .. } = &*self.shared;
        let mut entries = entries.lock();
        let id = FaultId(entries.next_id);
        entries.next_id += 1;
        let at = |elapsed: Duration| start.checked_add(elapsed).unwrap_or(Timestamp::MAX);
        let window = FaultWindow::new(clock.clone(), at(fault.from), fault.until.map(at));
        let entry = Entry { window, matched: 0, hits: watch::Sender::new(0), fault };
        entries.present.insert(id, entry);
        id
    }

    /// Removes a fault, releases the requests that it stalls, and ends the watches that it
    /// silences. Returns whether it existed.
    pub fn remove(&self, id: FaultId) -> bool {
        let mut entries = self.shared.entries.lock();
        let Some(entry) = entries.present.remove(&id) else { return false };
        entry.window.end();
        let hits = *entry.hits.borrow();
        entries.removed_hits.insert(id, hits);
        true
    }

    /// Removes all faults, like [`remove`](Self::remove).
    pub fn clear(&self) {
        let ids: Vec<FaultId> = self.shared.entries.lock().present.keys().copied().collect();
        for id in ids {
            self.remove(id);
        }
    }

    /// The number of requests that a fault affected, even if it was removed since. A request counts
    /// when it arrives, even if the effect comes later.
    pub fn hits(&self, id: FaultId) -> u64 {
        let entries = self.shared.entries.lock();
        let present = entries.present.get(&id).map(|entry| *entry.hits.borrow());
        present.or_else(|| entries.removed_hits.get(&id).copied()).unwrap_or_default()
    }

    /// The sum of the hits of all faults.
    pub fn total_hits(&self) -> u64 {
        let entries = self.shared.entries.lock();
        let present: u64 = entries.present.values().map(|entry| *entry.hits.borrow()).sum();
        present + entries.removed_hits.values().sum::<u64>()
    }

    /// Waits until a fault has affected `count` requests, or is removed. Returns its hits.
    pub async fn wait_for_hits(&self, id: FaultId, count: u64) -> u64 {
        let receiver =
            self.shared.entries.lock().present.get(&id).map(|entry| entry.hits.subscribe());
        if let Some(mut receiver) = receiver {
            // An error means that the fault was removed.
            let _ = receiver.wait_for(|hits| *hits >= count).await;
        }
        self.hits(id)
    }
}

impl Interceptor for Faults {
    fn intercept(&self, request: &RequestInfo) -> Action {
        let mut entries = self.shared.entries.lock();
        if entries.present.is_empty() {
            return Action::Pass;
        }
        let mut faults = Vec::new();
        for (id, entry) in &mut entries.present {
            let Some(fault) = entry.evaluate(request, self.shared.seed, *id) else { continue };
            let is_final = fault.effect.is_final(request);
            faults.push(fault);
            if is_final {
                break;
            }
        }
        if faults.is_empty() { Action::Pass } else { Action::Faults(faults) }
    }
}

impl Entry {
    fn evaluate(&mut self, request: &RequestInfo, seed: u64, id: FaultId) -> Option<ActiveFault> {
        let Fault { matching, effect, .. } = &self.fault;
        if !matching.matches(request) || !effect.applies_to(request) {
            return None;
        }
        // If a watch starts before the fault's time, the effect comes at that time.
        let is_active = if effect.affects_watch_events() {
            !self.window.is_over()
        } else {
            self.window.is_active()
        };
        if !is_active {
            return None;
        }
        self.matched += 1;
        let hits = *self.hits.borrow();
        // Depends only on the arguments, not on the requests of other faults.
        let draw = random::rng(seed, id.0, self.matched).f64();
        if !self.fault.fires(self.matched, hits, draw) {
            return None;
        }
        self.hits.send_replace(hits + 1);
        Some(ActiveFault { effect: effect.clone(), window: self.window.clone() })
    }
}
