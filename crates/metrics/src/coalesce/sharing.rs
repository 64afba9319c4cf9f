//! Decides whether one list of a namespace is cheaper than a request for each selector.

use std::time::Duration;

use hashbrown::HashMap;
use hpa_calc::selector::Selector;
use tokio::time::Instant;

use super::{CoalescingSettings, sharding::ShardedMap};

/// Cost of a request without its items, in items. It covers authentication, authorization, the
/// proxy hop and the connection. A request takes 1 to 2 ms of CPU time in the API server, the
/// metrics server and this client together, and an item about 10 µs.
const REQUEST_COST: usize = 100;
/// Cost of applying a selector to a list, in items.
const SELECT_COST: usize = 1;
/// The number of windows for which the size of a namespace list is valid, and for which sharing is
/// suspended.
const VALID_WINDOWS: u32 = 8;

/// Statistics about the requests in each namespace.
pub(super) struct Sharing {
    namespaces: ShardedMap<String, Namespace>,
    settings: CoalescingSettings,
}

#[derive(Default)]
struct Namespace {
    selectors: HashMap<Selector, SelectorUse>,
    /// Number of items in the last namespace list, and the time of its last use.
    list: Option<(usize, Instant)>,
    /// The time until which lists are not shared, after a list that could not be used.
    suspended_until: Option<Instant>,
    decision: Option<SharingDecision>,
}

#[derive(Clone, Copy)]
struct SharingDecision {
    is_shared: bool,
    valid_until: Instant,
    /// Number of selectors in use at the time of the decision.
    selector_count: usize,
}

#[derive(Clone, Copy)]
struct SelectorUse {
    last_request: Instant,
    /// Number of items that the selector matched in the last response.
    items: usize,
}

impl Sharing {
    pub(super) fn new(settings: CoalescingSettings) -> Self {
        let window = settings.window;
        let retain = move |namespace: &mut Namespace, now: Instant| {
            namespace.drop_expired(now, window);
            !namespace.selectors.is_empty()
        };
        Self { namespaces: ShardedMap::new(window, retain), settings }
    }

    /// Records a request for the pods of a selector. Returns whether the namespace list should
    /// answer it.
    pub(super) fn record_request(&self, namespace: &str, selector: &Selector) -> bool {
        let now = Instant::now();
        self.with(namespace, |state| {
            let is_shared = match state.decision {
                Some(decision) if decision.is_valid(now, state.selectors.len()) => {
                    decision.is_shared
                }
                _ => {
                    let is_shared = state.is_list_cheaper(now, &self.settings);
                    let valid_until = now + self.settings.freshness;
                    let selector_count = state.selectors.len();
                    state.decision =
                        Some(SharingDecision { is_shared, valid_until, selector_count });
                    is_shared
                }
            };
            let first_use = SelectorUse { last_request: now, items: 0 };
            state.selectors.entry_ref(selector).or_insert(first_use).last_request = now;
            is_shared && state.suspended_until.is_none_or(|until| until <= now)
        })
    }

    /// Records the number of items that a selector matched.
    pub(super) fn record_matches(&self, namespace: &str, selector: &Selector, items: usize) {
        self.with(namespace, |state| {
            if let Some(usage) = state.selectors.get_mut(selector) {
                usage.items = items;
            }
        });
    }

    /// Records the length of the namespace list.
    pub(super) fn record_namespace_list(&self, namespace: &str, items: usize) {
        let now = Instant::now();
        self.with(namespace, |state| state.list = Some((items, now)));
    }

    /// Suspends sharing in a namespace for [`VALID_WINDOWS`] windows.
    pub(super) fn suspend(&self, namespace: &str) {
        let until = Instant::now() + self.settings.window * VALID_WINDOWS;
        self.with(namespace, |state| state.suspended_until = Some(until));
    }

    fn with<R>(&self, namespace: &str, act: impl FnOnce(&mut Namespace) -> R) -> R {
        self.namespaces.with(namespace, |all| act(all.entry_ref(namespace).or_default()))
    }

    /// Returns the number of namespaces, and of selectors in one of them.
    #[cfg(test)]
    pub(super) fn len(&self, namespace: &str) -> (usize, usize) {
        (self.namespaces.len(), self.with(namespace, |state| state.selectors.len()))
    }
}

impl SharingDecision {
    /// Whether the decision still applies. A decision takes time in proportion to the number of
    /// selectors, so it is reused for later requests. A decision against sharing becomes invalid
    /// when the number of selectors has doubled, because after a start, the autoscalers of a
    /// namespace appear one shortly after the other.
    fn is_valid(&self, now: Instant, selector_count: usize) -> bool {
        now < self.valid_until
            && (self.is_shared || selector_count < self.selector_count.saturating_mul(2).max(1))
    }
}

impl Namespace {
    /// Drops the selectors that are no longer in use, and the size of an old list.
    fn drop_expired(&mut self, now: Instant, window: Duration) {
        self.selectors.retain(|_, usage| now.duration_since(usage.last_request) < window);
        self.list = self.list.filter(|(_, at)| now.duration_since(*at) < window * VALID_WINDOWS);
    }

    /// Compares the cost of the requests in the last window with that of namespace lists. See
    /// [`super::Coalescing`].
    fn is_list_cheaper(&mut self, now: Instant, settings: &CoalescingSettings) -> bool {
        self.drop_expired(now, settings.window);
        let selectors = self.selectors.len();
        if selectors < settings.min_selectors.max(1) {
            return false;
        }
        let matched =
            self.selectors.values().map(|usage| usage.items).fold(0, usize::saturating_add);
        // If the size of the namespace is unknown, the estimate is low on purpose, because the
        // first list determines the size.
        let list_items = self.list.map_or(matched, |(items, _)| items);
        let separate = selectors.saturating_mul(REQUEST_COST).saturating_add(matched);
        let shared = self
            .bursts(settings.freshness_of_pods(list_items))
            .saturating_mul(REQUEST_COST.saturating_add(list_items))
            .saturating_add(selectors.saturating_mul(SELECT_COST));
        shared < separate
    }

    /// Returns the number of namespace lists, each usable for `freshness`, that would have answered
    /// the last request of every selector.
    fn bursts(&self, freshness: Duration) -> usize {
        // Without freshness, simultaneous requests still share a list.
        let freshness = freshness.max(Duration::from_nanos(1));
        let mut requests: Vec<Instant> =
            self.selectors.values().map(|usage| usage.last_request).collect();
        requests.sort_unstable();
        let mut bursts = 0;
        let mut start: Option<Instant> = None;
        for at in requests {
            if start.is_none_or(|start| at.duration_since(start) >= freshness) {
                start = Some(at);
                bursts += 1;
            }
        }
        bursts
    }
}
