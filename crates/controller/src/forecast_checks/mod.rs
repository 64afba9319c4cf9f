//! Checks in the background whether forecasts help: reads the past of a metric, and runs the past
//! two weeks with and without forecasts.
//!
//! A metric is checked when it first has a load, again after a part of a day that a hash of its
//! autoscaler determines, and then every day. A failed check is repeated with a backoff.
//!
//! At most two autoscalers are checked at once, and one calculation runs at a time, on a blocking
//! thread, so that no reconcile waits for it. The autoscalers of a namespace take turns, and so do
//! the namespaces: a tenant whose metrics change all the time, or whose past takes long to read,
//! doesn't delay others for long.
//!
//! - this file: the queue of the checks, and their limits
//! - `check`: the check of one metric

mod check;
#[cfg(test)]
mod tests;

use std::{collections::HashSet, pin::pin, sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use hpa_lease::Clock;
use hpa_metrics::FairSemaphore;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};

use crate::{
    cache::{Autoscaler, Autoscalers},
    forecast::Forecasts,
    key::HpaKey,
    settings::SettingSource,
};

/// The maximum number of autoscalers that are checked at once, at most one of a namespace.
const MAX_CONCURRENT_AUTOSCALERS: usize = 2;
/// The minimum time between two searches for due checks, unless one is requested. The maximum is
/// twice as long, because settings may change.
const SEARCH_INTERVAL: Duration = Duration::from_secs(30);

/// The leader's task that runs the checks.
#[derive(Clone)]
pub(crate) struct ForecastChecks {
    pub(crate) forecasts: Arc<Forecasts>,
    pub(crate) autoscalers: Arc<Autoscalers>,
    pub(crate) settings: Arc<SettingSource>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl ForecastChecks {
    /// Runs the checks. Never ends.
    pub(crate) async fn run(self) {
        let (limits, mut checks) = (CheckLimits::new(), FuturesUnordered::new());
        // The autoscalers that are being checked, or wait for a check.
        let mut queued: HashSet<HpaKey> = HashSet::new();
        loop {
            let autoscalers = self.autoscalers_with_forecasts();
            let next = next_check(&autoscalers).max(Instant::now() + SEARCH_INTERVAL);
            for (key, _) in autoscalers {
                if queued.insert(key.clone()) {
                    checks.push(self.check_in_turn(key, &limits));
                }
            }
            // Ends at `next` or at a request, whichever comes first.
            let mut next_search = pin!(timeout_at(next, self.forecasts.check_request.notified()));
            loop {
                tokio::select! {
                    _ = &mut next_search => break,
                    Some(key) = checks.next() => queued.remove(&key),
                };
            }
        }
    }

    /// Waits for the autoscaler's turn, runs its due checks, and returns its key.
    async fn check_in_turn(&self, key: HpaKey, limits: &CheckLimits) -> HpaKey {
        // Waiters get permits in order, so namespaces take turns.
        let _permit = limits.autoscalers.acquire(&key.namespace).await;
        self.check_autoscaler(&key, &limits.calculations).await;
        key
    }

    fn autoscalers_with_forecasts(&self) -> Vec<(HpaKey, Arc<Autoscaler>)> {
        let mut autoscalers = self.autoscalers.all();
        autoscalers.retain(|(_, autoscaler)| autoscaler.forecasts.lock().is_some());
        autoscalers
    }
}

/// The time of the next due check, at most two search intervals from now.
fn next_check(autoscalers: &[(HpaKey, Arc<Autoscaler>)]) -> Instant {
    let next = autoscalers.iter().filter_map(|(_, autoscaler)| {
        let forecasts = autoscaler.forecasts.lock();
        forecasts.as_ref()?.next_check()
    });
    let latest = Instant::now() + 2 * SEARCH_INTERVAL;
    next.min().unwrap_or(latest).min(latest)
}

/// The limits of concurrent checks.
struct CheckLimits {
    autoscalers: FairSemaphore,
    calculations: Semaphore,
}

impl CheckLimits {
    fn new() -> Self {
        Self {
            autoscalers: FairSemaphore::new(MAX_CONCURRENT_AUTOSCALERS),
            calculations: Semaphore::new(1),
        }
    }
}
