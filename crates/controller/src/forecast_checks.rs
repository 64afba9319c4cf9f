//! Checks in the background whether forecasts help: reads the past of a metric, and runs the past
//! two weeks with and without forecasts.
//!
//! A metric is checked when it first has a load, and then every day, spread over the day by a hash
//! of its autoscaler. A failed check is repeated with a backoff. Few checks run at once, and one
//! calculation at a time, in a thread of its own, so that no reconcile waits for them.

use std::{hash::BuildHasher, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use hpa_forecast::{Trace, Verdict, gate};
use hpa_lease::Clock;
use jiff::{SignedDuration, Timestamp};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until, timeout},
};
use tracing::{debug, warn};

use crate::{
    cache::{Autoscaler, Autoscalers},
    forecast::{Check, Forecasts, PastError, PastRange},
    hash::HASHER,
    key::HpaKey,
    settings::SettingSource,
};

/// How many pasts are read at once.
const MAX_CONCURRENT: usize = 2;
/// Reading a past that takes longer has failed.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// The days that are read: two weeks to run, and as many to learn from.
const READ_DAYS: i64 = 28;
const STEP_SECONDS: u32 = 60;
/// How often to look for checks that are due: a new autoscaler has no load before its first
/// reconcile, and settings may change.
const INTERVAL: Duration = Duration::from_secs(30);

/// The task of a leader.
pub(crate) struct ForecastChecks {
    pub(crate) forecasts: Arc<Forecasts>,
    pub(crate) autoscalers: Arc<Autoscalers>,
    pub(crate) settings: Arc<SettingSource>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl ForecastChecks {
    /// Never ends.
    pub(crate) async fn run(self) {
        let calculations = Semaphore::new(1);
        loop {
            let keys = self.forecasts.keys();
            if keys.is_empty() {
                self.forecasts.added().await;
                continue;
            }
            let checks = stream::iter(keys).map(|key| self.check_autoscaler(key, &calculations));
            checks.buffer_unordered(MAX_CONCURRENT).collect::<Vec<()>>().await;
            sleep_until(self.next_check().max(Instant::now() + INTERVAL)).await;
        }
    }

    /// When to look again: soon, for autoscalers without a load so far.
    fn next_check(&self) -> Instant {
        let next = self.forecasts.keys().into_iter().filter_map(|key| {
            let autoscaler = self.autoscalers.get(&key)?;
            let forecasts = autoscaler.forecasts.lock();
            forecasts.as_ref()?.next_check()
        });
        let latest = Instant::now() + 2 * INTERVAL;
        next.min().unwrap_or(latest).min(latest)
    }

    /// Runs all checks of an autoscaler that are due.
    async fn check_autoscaler(&self, key: HpaKey, calculations: &Semaphore) {
        let Some(autoscaler) = self.autoscalers.get(&key) else {
            return self.forecasts.remove(&key);
        };
        let (hpa, effective) = autoscaler.object_with_settings(&self.settings);
        let settings = &effective.settings;
        if !settings.forecasts.is_on() {
            autoscaler.forecasts.lock().take();
            return self.forecasts.remove(&key);
        }
        loop {
            let check = {
                let mut forecasts = autoscaler.forecasts.lock();
                let forecasts = forecasts.as_mut();
                forecasts.and_then(|it| it.due_check(&self.forecasts, &hpa, settings))
            };
            let Some(check) = check else { return };
            let checked = Checked { key: &key, autoscaler: &autoscaler, check };
            self.check(checked, &hpa, calculations).await;
        }
    }

    async fn check(
        &self,
        Checked { key, autoscaler, mut check }: Checked<'_>,
        hpa: &hpa_calc::HorizontalPodAutoscaler,
        calculations: &Semaphore,
    ) {
        let now = self.clock.now();
        let result = match self.read(hpa, check.metric, now).await {
            Ok(past) => {
                let is_read = past.is_some();
                let own = std::mem::replace(&mut check.own_past, Trace::new([]));
                self.calculate(past.unwrap_or(own), &check, calculations)
                    .await
                    .map(|(verdict, past)| (verdict, is_read.then_some(past)))
            }
            Err(error) => Err(error),
        };
        self.forecasts.counts.add(result.is_ok());
        let _span = key.span().entered();
        let metric = check.metric;
        match &result {
            Ok((verdict, _)) => debug!(metric, reason = ?verdict.reason, "checked forecasts"),
            Err(error) => warn!(metric, %error, "unable to check forecasts"),
        }
        let spread = HASHER.hash_one(key) as f64 / u64::MAX as f64;
        if let Some(forecasts) = autoscaler.forecasts.lock().as_mut() {
            forecasts.checked(&check, result, spread, self.clock.now());
        }
    }

    /// The past of a metric. `None` if there is no source that has it.
    async fn read(
        &self,
        hpa: &hpa_calc::HorizontalPodAutoscaler,
        metric: usize,
        now: Timestamp,
    ) -> Result<Option<Trace>, PastError> {
        let Some(source) = &self.forecasts.source.past else { return Ok(None) };
        let from = now.checked_sub(SignedDuration::from_hours(READ_DAYS * 24)).unwrap_or(now);
        let range = PastRange { from, until: now, step: STEP_SECONDS };
        match timeout(READ_TIMEOUT, source.load(hpa, metric, range)).await {
            Ok(Ok(samples)) => Ok(Some(Trace::new(samples))),
            Ok(Err(PastError::Unknown(reason))) => {
                debug!(metric, reason, "the source has no past of the metric");
                Ok(None)
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(PastError::Failed(format!("not read within {READ_TIMEOUT:?}"))),
        }
    }

    async fn calculate(
        &self,
        past: Trace,
        check: &Check,
        calculations: &Semaphore,
    ) -> Result<(Verdict, Trace), PastError> {
        let _permit = calculations.acquire().await;
        let settings = check.settings.clone();
        let calculation = tokio::task::spawn_blocking(move || (gate(&past, &settings), past));
        calculation.await.map_err(|error| PastError::Failed(error.to_string()))
    }
}

/// A check of an autoscaler.
struct Checked<'a> {
    key: &'a HpaKey,
    autoscaler: &'a Autoscaler,
    check: Check,
}
