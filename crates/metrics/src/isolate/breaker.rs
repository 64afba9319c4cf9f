//! Detects an API that doesn't respond.

use std::{collections::HashSet, sync::Arc, time::Duration};

use tokio::time::Instant;

/// The breaker opens after at least this many timeouts without a response between them. A single
/// slow query doesn't show that the API hangs.
const MIN_TIMEOUTS: u32 = 3;

/// The circuit breaker of one API.
pub(super) struct Breaker {
    unresponsive_after: Duration,
    /// The time of the first timeout after the last response, and the number of timeouts from then
    /// on.
    timeouts: Option<(Instant, u32)>,
    /// The namespaces with a request in flight that was sent while the breaker was open.
    pub(super) trials: HashSet<Arc<str>>,
}

impl Breaker {
    pub(super) fn new(unresponsive_after: Duration) -> Self {
        Self { unresponsive_after, timeouts: None, trials: HashSet::new() }
    }

    pub(super) fn is_open(&self) -> bool {
        self.timeouts.is_some_and(|(first, count)| {
            count >= MIN_TIMEOUTS && first.elapsed() >= self.unresponsive_after
        })
    }

    pub(super) fn record_response(&mut self) {
        self.timeouts = None;
    }

    pub(super) fn record_timeout(&mut self) {
        let (first, count) = self.timeouts.unwrap_or_else(|| (Instant::now(), 0));
        self.timeouts = Some((first, count.saturating_add(1)));
    }
}
