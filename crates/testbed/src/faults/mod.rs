//! Faults on demand: which requests fail, when, and how.

mod active;
mod clock;
mod effect;
mod fault;
mod interceptor;
pub(crate) mod malformed;
mod matcher;
pub(crate) mod missing_group;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

pub(crate) use self::active::Turn;
pub use self::{
    active::Active,
    clock::SkewedClock,
    effect::Effect,
    fault::{Fault, InvalidFault, Trigger},
    interceptor::{Action, Interceptor},
    matcher::Match,
};
use self::{active::Span, clock::FaultClock};
use crate::request::RequestInfo;

/// Names a fault that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultId(u64);

/// The faults of a server, to be its [`Interceptor`]. Clones are the same faults.
///
/// Of the faults that a request meets all act, in the order in which they were added, up to one that answers it
/// itself. The same requests in the same order meet the same faults for the same seed; how one fault draws does not
/// depend on the others.
///
/// ```
/// use std::sync::Arc;
///
/// use hpa_testbed::{Config, Effect, Fault, Faults, Match, Testbed};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let faults = Faults::new(1);
/// let testbed = Testbed::new(Config { interceptor: Some(Arc::new(faults.clone())), ..Config::default() });
/// let of_the_controller = testbed.client_named("controller");
/// let version = Match::verb("get").client("controller");
/// let fault = faults.add(Fault::on(version).first(1).effect(Effect::ServiceUnavailable));
/// assert!(testbed.client().apiserver_version().await.is_ok());
/// assert!(of_the_controller.apiserver_version().await.is_err());
/// assert!(of_the_controller.apiserver_version().await.is_ok());
/// assert_eq!(faults.hits(fault), 1);
/// # }
/// ```
#[derive(Clone)]
pub struct Faults {
    shared: Arc<Shared>,
}

struct Shared {
    seed: u64,
    clock: FaultClock,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    next: u64,
    active: BTreeMap<FaultId, Entry>,
    /// How often faults acted that are no longer there.
    removed: BTreeMap<FaultId, u64>,
}

struct Entry {
    fault: Fault,
    span: Span,
    /// How many requests matched while the fault was on.
    matched: u64,
    /// How many of them it acted on.
    hits: watch::Sender<u64>,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.shared.entries.lock().active.len();
        f.debug_struct("Faults")
            .field("seed", &self.shared.seed)
            .field("count", &count)
            .finish_non_exhaustive()
    }
}

impl Faults {
    /// No faults yet. Their time is tokio's and begins now.
    pub fn new(seed: u64) -> Self {
        Self::of(seed, FaultClock::tokio())
    }

    /// No faults yet. Their time is the clock's and begins now.
    pub fn with_clock(seed: u64, clock: Arc<dyn Fn() -> Timestamp + Send + Sync>) -> Self {
        Self::of(seed, FaultClock::given(clock))
    }

    fn of(seed: u64, clock: FaultClock) -> Self {
        Self { shared: Arc::new(Shared { seed, clock, entries: Mutex::default() }) }
    }

    /// The time since these faults were made, in which `from` and `until` of a fault are told.
    pub fn elapsed(&self) -> Duration {
        self.shared.clock.elapsed()
    }

    /// Adds a fault.
    pub fn add(&self, fault: Fault) -> FaultId {
        let mut entries = self.shared.entries.lock();
        let id = FaultId(entries.next);
        entries.next += 1;
        let trigger = &fault.trigger;
        let span = Span::new(self.shared.clock.clone(), trigger.from, trigger.until);
        let entry = Entry { span, matched: 0, hits: watch::Sender::new(0), fault };
        entries.active.insert(id, entry);
        id
    }

    /// Removes a fault: what it holds up goes on. Whether it was there.
    pub fn remove(&self, id: FaultId) -> bool {
        let mut entries = self.shared.entries.lock();
        let Some(entry) = entries.active.remove(&id) else { return false };
        entry.span.end();
        let hits = *entry.hits.borrow();
        entries.removed.insert(id, hits);
        true
    }

    /// Removes all faults.
    pub fn clear(&self) {
        let ids: Vec<FaultId> = self.shared.entries.lock().active.keys().copied().collect();
        for id in ids {
            self.remove(id);
        }
    }

    /// On how many requests a fault acted, also if it was removed since.
    pub fn hits(&self, id: FaultId) -> u64 {
        let entries = self.shared.entries.lock();
        let active = entries.active.get(&id).map(|entry| *entry.hits.borrow());
        active.or_else(|| entries.removed.get(&id).copied()).unwrap_or_default()
    }

    /// How often faults acted in all.
    pub fn total_hits(&self) -> u64 {
        let entries = self.shared.entries.lock();
        let active: u64 = entries.active.values().map(|entry| *entry.hits.borrow()).sum();
        active + entries.removed.values().sum::<u64>()
    }

    /// Waits until a fault has acted on this many requests, or is removed; how many there were then.
    pub async fn wait_for_hits(&self, id: FaultId, count: u64) -> u64 {
        let receiver =
            self.shared.entries.lock().active.get(&id).map(|entry| entry.hits.subscribe());
        if let Some(mut receiver) = receiver {
            // An error says that the fault was removed.
            let _ = receiver.wait_for(|hits| *hits >= count).await;
        }
        self.hits(id)
    }
}

impl Interceptor for Faults {
    fn intercept(&self, request: &RequestInfo) -> Action {
        let mut entries = self.shared.entries.lock();
        if entries.active.is_empty() {
            return Action::Pass;
        }
        let mut met = Vec::new();
        for (id, entry) in &mut entries.active {
            let Some(active) = entry.meets(request, self.shared.seed, *id) else { continue };
            let answers = active.effect.answers(request);
            met.push(active);
            if answers {
                break;
            }
        }
        if met.is_empty() { Action::Pass } else { Action::Faults(met) }
    }
}

impl Entry {
    fn meets(&mut self, request: &RequestInfo, seed: u64, id: FaultId) -> Option<Active> {
        let Fault { trigger, effect } = &self.fault;
        if !trigger.matching.matches(request) || !effect.concerns(request) {
            return None;
        }
        // A watch that begins before the fault does meets it on the way.
        let is_on = if effect.is_of_watch() { !self.span.is_over() } else { self.span.is_on() };
        if !is_on {
            return None;
        }
        self.matched += 1;
        let hits = *self.hits.borrow();
        let draw = draw(seed, id, self.matched);
        if !trigger.fires(self.matched, hits, draw) {
            return None;
        }
        self.hits.send_replace(hits + 1);
        Some(Active { effect: effect.clone(), span: self.span.clone() })
    }
}

/// A number in [0, 1) that depends on nothing else (`SplitMix64`).
fn draw(seed: u64, id: FaultId, count: u64) -> f64 {
    let stream = mixed(seed ^ mixed(id.0));
    // The 53 bits that a float holds.
    (mixed(stream.wrapping_add(count)) >> 11) as f64 / (1_u64 << 53) as f64
}

fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
