//! The check of one metric: reads its past, and calculates whether forecasts would have helped.

use std::{hash::BuildHasher, sync::Arc, time::Duration};

use hpa_calc::{HorizontalPodAutoscaler, Settings};
use hpa_forecast::{GateDecision, Trace, decide};
use jiff::{SignedDuration, Timestamp};
use tokio::{sync::Semaphore, time::timeout};
use tracing::{debug, warn};

use super::ForecastChecks;
use crate::{
    cache::Autoscaler,
    forecast::{Check, MAX_FORECAST_METRICS, Past, PastError, PastRange},
    hash::HASHER,
    key::HpaKey,
};

/// The timeout for reading a past.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// The days of the past that are read: two weeks to compare on, after two weeks to learn from.
const READ_DAYS: i64 = 28;
const STEP_SECONDS: u32 = 60;

/// A due check, with its autoscaler as of the start of the check.
struct DueCheck<'a> {
    key: &'a HpaKey,
    autoscaler: &'a Autoscaler,
    hpa: Arc<HorizontalPodAutoscaler>,
    settings: Arc<Settings>,
    check: Check,
}

impl ForecastChecks {
    /// Runs all checks of an autoscaler that are due.
    pub(super) async fn check_autoscaler(&self, key: &HpaKey, calculations: &Semaphore) {
        let Some(autoscaler) = self.autoscalers.get(key) else { return };
        // Bounded, because a spec that keeps changing makes new checks due while others wait.
        for _ in 0..MAX_FORECAST_METRICS {
            // The object may have changed since the last check.
            let (hpa, settings) = autoscaler.object_with_settings(&self.settings);
            if !settings.forecasts.is_on() {
                autoscaler.forecasts.lock().take();
                return;
            }
            let check = {
                let mut forecasts = autoscaler.forecasts.lock();
                let forecasts = forecasts.as_mut();
                forecasts.and_then(|state| state.start_due_check(&self.forecasts, &hpa, &settings))
            };
            let Some(check) = check else { return };
            let due = DueCheck { key, autoscaler: &autoscaler, hpa, settings, check };
            self.run_check(due, calculations).await;
        }
    }

    async fn run_check(&self, mut due: DueCheck<'_>, calculations: &Semaphore) {
        let now = self.clock.now();
        let result = match self.read_past(&due.hpa, due.check.metric_index, now).await {
            Ok(past) => {
                let calculated = calculate(past, &due, calculations).await;
                calculated.map(|(decision, past)| (decision, Past::Read(past)))
            }
            Err(PastError::Unknown(reason)) => {
                let observed_past = std::mem::take(&mut due.check.observed_past);
                let calculated = calculate(observed_past, &due, calculations).await;
                calculated.map(|(decision, _)| (decision, Past::Observed(reason)))
            }
            Err(error) => Err(error),
        };
        let DueCheck { key, autoscaler, check, .. } = due;
        self.forecasts.counts.add(result.is_ok());
        let _span = key.span().entered();
        let metric_index = check.metric_index;
        match &result {
            Ok((decision, _)) => {
                debug!(metric_index, reason = ?decision.reason, "checked forecasts");
            }
            Err(error) => warn!(metric_index, %error, "unable to check forecasts"),
        }
        let spread = HASHER.hash_one(key) as f64 / u64::MAX as f64;
        if let Some(forecasts) = autoscaler.forecasts.lock().as_mut() {
            forecasts.finish_check(&check, result, spread, self.clock.now());
        }
    }

    /// Reads the past of a metric.
    async fn read_past(
        &self,
        hpa: &HorizontalPodAutoscaler,
        metric_index: usize,
        now: Timestamp,
    ) -> Result<Trace, PastError> {
        let Some(source) = &self.forecasts.source.past else {
            return Err(PastError::Unknown(
                "no Prometheus is configured for past loads (--forecast-prometheus)".to_owned(),
            ));
        };
        let from = now.checked_sub(SignedDuration::from_hours(READ_DAYS * 24)).unwrap_or(now);
        let range = PastRange { from, until: now, step_seconds: STEP_SECONDS };
        let past = timeout(READ_TIMEOUT, source.load(hpa, metric_index, range)).await;
        past.unwrap_or_else(|_| Err(PastError::failed(format!("not read within {READ_TIMEOUT:?}"))))
    }
}

/// Decides on a past whether forecasts help. Returns the past as well, because the calculation on
/// another thread takes it by value.
async fn calculate(
    past: Trace,
    due: &DueCheck<'_>,
    calculations: &Semaphore,
) -> Result<(GateDecision, Trace), PastError> {
    let _permit = calculations.acquire().await;
    let (hpa, settings) = (due.hpa.clone(), due.settings.clone());
    let mut gate_settings = due.check.settings.clone();
    let calculation = tokio::task::spawn_blocking(move || {
        let workload = gate_settings.workload;
        gate_settings.workload = workload.with_scheduled_bounds(&hpa, &settings, &past);
        (decide(&past, &gate_settings), past)
    });
    calculation.await.map_err(|error| PastError::Failed {
        error: error.to_string(),
        cause: "the calculation failed".to_owned(),
    })
}
