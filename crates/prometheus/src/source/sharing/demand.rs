//! Decides whether one query for a namespace costs less than the queries that it replaces.

use std::collections::HashMap;

use tokio::time::Instant;

use super::{ShareableRequest, SharingSettings};

/// The cost of a query, in units of the cost of a sample in its result.
const QUERY_COST: usize = 100;
/// The number of windows without sharing after a failed shared query.
const DISABLED_WINDOWS: u32 = 5;
/// The number of windows for which the size of a shared result is used.
const SIZE_WINDOWS: u32 = 8;
/// The maximum number of counted requesters. More of them would hardly change a decision.
const MAX_REQUESTERS: usize = 10_000;

/// The recent requests for a metric of a namespace, and the decision whether to share a query.
#[derive(Default)]
pub(super) struct Demand {
    requesters: HashMap<u64, Request>,
    /// The number of objects in the last shared result, and the time when it arrived.
    size: Option<(usize, Instant)>,
    disabled_until: Option<Instant>,
    decision: Option<Decision>,
}

#[derive(Clone, Copy)]
struct Request {
    time: Instant,
    /// The number of requested objects.
    name_count: usize,
    /// The number of single queries that the request needs.
    query_count: usize,
}

#[derive(Clone, Copy)]
struct Decision {
    is_shared: bool,
    valid_until: Instant,
    /// The number of requesters at the time of the decision.
    requester_count: usize,
}

impl Demand {
    /// Records a request. Returns whether a shared query should answer it.
    pub(super) fn record_request(
        &mut self,
        shareable: &ShareableRequest<'_>,
        now: Instant,
        settings: &SharingSettings,
    ) -> bool {
        let ShareableRequest { names, query_count, requester, .. } = *shareable;
        let request = Request { time: now, name_count: names.len(), query_count };
        if self.requesters.len() < MAX_REQUESTERS || self.requesters.contains_key(&requester) {
            self.requesters.insert(requester, request);
        }
        if self.is_disabled(now) {
            return false;
        }
        let current = self.decision.filter(|decision| {
            // A new requester can only make sharing cheaper, so it invalidates only a decision
            // against sharing.
            now < decision.valid_until
                && (decision.is_shared || decision.requester_count == self.requesters.len())
        });
        if let Some(decision) = current {
            return decision.is_shared;
        }
        self.requesters.retain(|_, request| now.duration_since(request.time) < settings.window);
        let is_shared = self.is_cheaper(now, settings);
        let (valid_until, requester_count) = (now + settings.max_age, self.requesters.len());
        self.decision = Some(Decision { is_shared, valid_until, requester_count });
        is_shared
    }

    /// Whether a shared query replaces several queries and costs at most as much as they do.
    fn is_cheaper(&self, now: Instant, settings: &SharingSettings) -> bool {
        let requests = self.requesters.values();
        let (queries, names) = requests.fold((0, 0), |(queries, names), request| {
            (queries + request.query_count, names + request.name_count)
        });
        let lifetime = settings.window * SIZE_WINDOWS;
        let size = self.size.filter(|(_, at)| now.duration_since(*at) < lifetime);
        let size = size.map_or(0, |(size, _)| size);
        queries > 1 && QUERY_COST + size <= queries * QUERY_COST + names
    }

    /// Records the size of a shared result.
    pub(super) fn record_size(&mut self, size: usize, now: Instant) {
        self.size = Some((size, now));
    }

    /// Disables sharing for [`DISABLED_WINDOWS`] windows.
    pub(super) fn disable(&mut self, now: Instant, settings: &SharingSettings) {
        self.disabled_until = Some(now + settings.window * DISABLED_WINDOWS);
        self.decision = None;
    }

    pub(super) fn is_disabled(&self, now: Instant) -> bool {
        self.disabled_until.is_some_and(|until| now < until)
    }

    /// Whether there was a request within the window.
    pub(super) fn has_recent_request(&self, now: Instant, settings: &SharingSettings) -> bool {
        let mut requests = self.requesters.values();
        requests.any(|request| now.duration_since(request.time) < settings.window)
    }
}
