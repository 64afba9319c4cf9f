//! Whether one query for a namespace costs less than the queries that it replaces.

use std::collections::HashMap;

use tokio::time::Instant;

use super::{SharingSettings, Wanted};

/// The cost of a query relative to that of a sample in its answer.
const QUERY_COST: usize = 100;
/// For how many windows a failed query bars sharing.
const BAR_WINDOWS: u32 = 5;
/// For how many windows the size of an answer is used.
const SIZE_WINDOWS: u32 = 8;
/// More are not counted: the demand is large enough.
const MAX_REQUESTERS: usize = 10_000;

/// Who asks for a metric in a namespace.
#[derive(Default)]
pub(super) struct Demand {
    requesters: HashMap<u64, Request>,
    /// The number of objects in the last shared answer.
    size: Option<(usize, Instant)>,
    barred_until: Option<Instant>,
    decision: Option<Decision>,
}

#[derive(Clone, Copy)]
struct Request {
    last: Instant,
    names: usize,
    queries: usize,
}

#[derive(Clone, Copy)]
struct Decision {
    is_shared: bool,
    until: Instant,
    requesters: usize,
}

impl Demand {
    /// Records a request and decides whether it is answered by a shared query.
    pub(super) fn should_share(
        &mut self,
        wanted: &Wanted<'_>,
        now: Instant,
        settings: &SharingSettings,
    ) -> bool {
        let Wanted { names, queries, requester, .. } = *wanted;
        let request = Request { last: now, names: names.len(), queries };
        if self.requesters.len() < MAX_REQUESTERS || self.requesters.contains_key(&requester) {
            self.requesters.insert(requester, request);
        }
        if self.is_barred(now) {
            return false;
        }
        let current = self.decision.filter(|decision| {
            // More requesters can only speak for sharing.
            now < decision.until
                && (decision.is_shared || decision.requesters == self.requesters.len())
        });
        if let Some(decision) = current {
            return decision.is_shared;
        }
        self.requesters.retain(|_, request| now.duration_since(request.last) < settings.window);
        let is_shared = self.is_cheaper(now, settings);
        let (until, requesters) = (now + settings.max_age, self.requesters.len());
        self.decision = Some(Decision { is_shared, until, requesters });
        is_shared
    }

    fn is_cheaper(&self, now: Instant, settings: &SharingSettings) -> bool {
        let requests = self.requesters.values();
        let (queries, names) = requests.fold((0, 0), |(queries, names), request| {
            (queries + request.queries, names + request.names)
        });
        let valid = settings.window * SIZE_WINDOWS;
        let size = self.size.filter(|(_, at)| now.duration_since(*at) < valid);
        let size = size.map_or(0, |(size, _)| size);
        queries > 1 && QUERY_COST + size <= queries * QUERY_COST + names
    }

    /// A shared query was answered.
    pub(super) fn answered(&mut self, size: usize, now: Instant) {
        self.size = Some((size, now));
    }

    /// Bars sharing for a while.
    pub(super) fn bar(&mut self, now: Instant, settings: &SharingSettings) {
        self.barred_until = Some(now + settings.window * BAR_WINDOWS);
        self.decision = None;
    }

    pub(super) fn is_barred(&self, now: Instant) -> bool {
        self.barred_until.is_some_and(|until| now < until)
    }

    /// Whether there were requests within the window.
    pub(super) fn is_current(&self, now: Instant, settings: &SharingSettings) -> bool {
        let mut requests = self.requesters.values();
        requests.any(|request| now.duration_since(request.last) < settings.window)
    }
}
