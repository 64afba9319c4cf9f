//! Whether a namespace's autoscalers are better served by one list of all its pods.

use std::time::Duration;

use hashbrown::HashMap;
use hpa_calc::selector::Selector;
use tokio::time::Instant;

use super::{CoalescingSettings, shards::Shards};

/// What a request costs the API server, the metrics server and us beside its items, in items: authentication,
/// authorization, the proxy hop, a connection. A request takes 1 to 2 ms of processor time over all of them, an item
/// some 10 µs.
const REQUEST_COST: u64 = 100;
/// What cutting a selector's items from a list costs beside its items, in items.
const CUT_COST: u64 = 1;
/// For how many windows the size of a namespace's list, or that it cannot be shared, is remembered.
const MEMORY_WINDOWS: u32 = 8;

/// Who asks for what in every namespace, and how large the answers are.
pub(super) struct Sharing {
    namespaces: Shards<Box<str>, Namespace>,
    settings: CoalescingSettings,
}

#[derive(Default)]
struct Namespace {
    selectors: HashMap<Selector, Use>,
    /// The length of the list of all pods, and when it was fetched.
    whole: Option<(usize, Instant)>,
    /// Until when no list is shared, since the last one could not be.
    barred_until: Option<Instant>,
    verdict: Option<Verdict>,
}

/// Whether the whole list is shared, as last compared.
#[derive(Clone, Copy)]
struct Verdict {
    shares: bool,
    until: Instant,
    /// How many selectors were in use.
    selectors: usize,
}

#[derive(Clone, Copy)]
struct Use {
    asked: Instant,
    /// How many items the selector matched.
    items: usize,
}

impl Sharing {
    pub(super) fn new(settings: CoalescingSettings) -> Self {
        let window = settings.window;
        let keep = move |namespace: &mut Namespace, now: Instant| {
            namespace.forget(now, window);
            !namespace.selectors.is_empty()
        };
        Self { namespaces: Shards::new(window, keep), settings }
    }

    /// Notes that the pods of a selector are asked for. Whether the namespace's whole list should answer.
    pub(super) fn ask(&self, namespace: &str, selector: &Selector) -> bool {
        let now = Instant::now();
        self.with(namespace, |state| {
            let shares = match state.verdict {
                Some(verdict) if verdict.holds(now, state.selectors.len()) => verdict.shares,
                _ => {
                    let shares = state.decide(now, &self.settings);
                    let until = now + self.settings.freshness;
                    state.verdict =
                        Some(Verdict { shares, until, selectors: state.selectors.len() });
                    shares
                }
            };
            match state.selectors.get_mut(selector) {
                Some(known) => known.asked = now,
                None => {
                    state.selectors.insert(selector.clone(), Use { asked: now, items: 0 });
                }
            }
            shares && state.barred_until.is_none_or(|until| until <= now)
        })
    }

    /// Notes how many items a selector matched.
    pub(super) fn matched(&self, namespace: &str, selector: &Selector, items: usize) {
        self.with(namespace, |state| {
            if let Some(known) = state.selectors.get_mut(selector) {
                known.items = items;
            }
        });
    }

    /// Notes the length of the namespace's whole list.
    pub(super) fn whole(&self, namespace: &str, items: usize) {
        let now = Instant::now();
        self.with(namespace, |state| state.whole = Some((items, now)));
    }

    /// Shares no list of the namespace for a while.
    pub(super) fn bar(&self, namespace: &str) {
        let until = Instant::now() + self.settings.window * MEMORY_WINDOWS;
        self.with(namespace, |state| state.barred_until = Some(until));
    }

    fn with<R>(&self, namespace: &str, act: impl FnOnce(&mut Namespace) -> R) -> R {
        self.namespaces.with(namespace, |all| {
            // No key is made for a namespace that is known.
            match all.get_mut(namespace) {
                Some(state) => act(state),
                None => act(all.entry(namespace.into()).or_default()),
            }
        })
    }

    /// The number of namespaces and of selectors kept.
    #[cfg(test)]
    pub(super) fn len(&self, namespace: &str) -> (usize, usize) {
        (self.namespaces.len(), self.with(namespace, |state| state.selectors.len()))
    }
}

impl Verdict {
    /// Comparing takes time in proportion to the selectors, so it is not done for each question. Against sharing it holds
    /// until there are twice as many: at a start a namespace's autoscalers come within a second.
    fn holds(&self, now: Instant, selectors: usize) -> bool {
        now < self.until && (self.shares || selectors < self.selectors.saturating_mul(2).max(1))
    }
}

impl Namespace {
    fn forget(&mut self, now: Instant, window: Duration) {
        self.selectors.retain(|_, known| now.duration_since(known.asked) < window);
        self.whole = self.whole.filter(|(_, at)| now.duration_since(*at) < window * MEMORY_WINDOWS);
    }

    /// Compares what the asking of the last window costs either way; see [`super::Coalescing`].
    fn decide(&mut self, now: Instant, settings: &CoalescingSettings) -> bool {
        self.forget(now, settings.window);
        if self.selectors.len() < settings.threshold.max(1) {
            return false;
        }
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let selectors = number(self.selectors.len());
        let matched =
            self.selectors.values().map(|known| number(known.items)).fold(0, u64::saturating_add);
        // As long as it is unknown: no more than what was matched. One look will tell.
        let whole = self.whole.map_or(matched, |(items, _)| number(items));
        let apart = selectors.saturating_mul(REQUEST_COST).saturating_add(matched);
        let freshness = settings.freshness_of(usize::try_from(whole).unwrap_or(usize::MAX));
        let together = self
            .bursts(freshness)
            .saturating_mul(REQUEST_COST.saturating_add(whole))
            .saturating_add(selectors.saturating_mul(CUT_COST));
        together < apart
    }

    /// How many whole lists would have answered the last question of every selector, each for the length of the
    /// freshness.
    fn bursts(&self, freshness: Duration) -> u64 {
        let mut asked: Vec<Instant> = self.selectors.values().map(|known| known.asked).collect();
        asked.sort_unstable();
        let mut bursts = 0;
        let mut start: Option<Instant> = None;
        for at in asked {
            // Without freshness those of one instant still share a request.
            if start.is_none_or(|start| {
                at.duration_since(start) >= freshness.max(Duration::from_nanos(1))
            }) {
                start = Some(at);
                bursts += 1;
            }
        }
        bursts
    }
}
