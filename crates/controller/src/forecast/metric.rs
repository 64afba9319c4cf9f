//! The forecasts of one metric: its history, and the check whether forecasts help.

use std::{sync::Arc, time::Duration};

use hpa_calc::{ForecastReason, MetricForecast, go_text::truncate, replicas::Load};
use hpa_forecast::{Comparison, ForecastInput, GateDecision, HISTORY_DAYS, History, Model, Trace};
use hpa_metrics::FairPermit;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use tokio::time::Instant;

use super::{MAX_CHECK_AGE, METRIC_DELAY, PastError};

/// The delay of the first retry of a failed check. It doubles with each failure, up to
/// [`MAX_RETRY_DELAY`].
const FIRST_RETRY_DELAY: Duration = Duration::from_mins(5);
const MAX_RETRY_DELAY: Duration = Duration::from_hours(1);

/// The maximum length of a failed check's cause, in characters.
const MAX_CAUSE_CHARS: usize = 300;

/// The parameters of an autoscaler's forecasts.
#[derive(Clone, Debug)]
pub(crate) struct ForecastParameters {
    pub(crate) horizon: SignedDuration,
    pub(crate) quantile: f64,
    pub(crate) zone: TimeZone,
    pub(crate) sync_period: SignedDuration,
}

#[derive(Clone, Debug)]
pub(super) struct MetricState {
    pub(super) history: History,
    /// The last load that was read, and the time of the read.
    pub(super) last_load: Option<(Timestamp, Load)>,
    /// The result of the last check that succeeded.
    pub(super) last_check: Option<CheckResult>,
    /// The failure of the checks since then, if there were any.
    failure: Option<Failure>,
    pub(super) next_check: Instant,
    pub(super) is_being_checked: bool,
    /// Returned when the last clone is dropped. Limits the histories of all autoscalers.
    _permit: Arc<FairPermit>,
}

#[derive(Clone, Debug)]
pub(super) struct CheckResult {
    pub(super) at: Timestamp,
    pub(super) reason: ForecastReason,
    text: Arc<str>,
    pub(super) model: Model,
    pub(super) comparison: Option<Comparison>,
}

/// The past loads that a check was made on.
#[derive(Debug)]
pub(crate) enum Past {
    /// Read from the source.
    Read(Trace),
    /// Observed by this process. The text says why no source has the metric.
    Observed(String),
}

/// The last of consecutive failed checks.
#[derive(Clone, Debug)]
struct Failure {
    text: Arc<str>,
    /// The number of failures.
    count: u32,
}

impl MetricState {
    pub(super) fn new(permit: FairPermit, next_check: Instant) -> Self {
        Self {
            history: History::new(HISTORY_DAYS),
            last_load: None,
            last_check: None,
            failure: None,
            next_check,
            is_being_checked: false,
            _permit: Arc::new(permit),
        }
    }

    pub(super) fn has_been_checked(&self) -> bool {
        self.last_check.is_some() || self.failure.is_some()
    }

    /// Adds a load that was read at this time.
    pub(super) fn add(&mut self, load: Load, now: Timestamp) {
        if let Ok(measured) = now.checked_sub(METRIC_DELAY) {
            // Drops samples that were added while the wall clock was ahead.
            self.history.drop_after(measured);
            self.history.add(measured, load.total);
        }
        self.last_load = Some((now, load));
    }

    /// The reason why forecasts are used or not. It comes with a forecast if they are used, the
    /// metric was read, and its history suffices. `None` until the first check has ended.
    pub(super) fn forecast(
        &self,
        load: Option<Load>,
        parameters: &ForecastParameters,
        now: Timestamp,
    ) -> Option<MetricForecast> {
        let (reason, text) = self.reason_and_text(now)?;
        let forecast = load.filter(|_| reason.is_active()).and_then(|load| {
            let measured = now.checked_sub(METRIC_DELAY).ok()?;
            let input = self.forecast_input(load.total, parameters, measured);
            Some(self.history.forecast(&input)?.at_quantile(parameters.quantile))
        });
        Some(MetricForecast { reason, text, forecast })
    }

    /// The inputs of a forecast. `measured` is the time of the load.
    pub(super) fn forecast_input<'a>(
        &self,
        load: f64,
        parameters: &'a ForecastParameters,
        measured: Timestamp,
    ) -> ForecastInput<'a> {
        let model = self.last_check.as_ref().map(|check| check.model).unwrap_or_default();
        let ForecastParameters { horizon, zone, .. } = parameters;
        ForecastInput { now: measured, load, horizon: *horizon, zone, model }
    }

    /// The reason why forecasts are used or not, also in words. `None` until the first check has
    /// ended.
    pub(super) fn reason_and_text(&self, now: Timestamp) -> Option<(ForecastReason, Arc<str>)> {
        let last_check = self.last_check.as_ref();
        let is_current = |check: &&CheckResult| now.duration_since(check.at) <= MAX_CHECK_AGE;
        if let Some(CheckResult { reason, text, .. }) = last_check.filter(is_current) {
            return Some((*reason, text.clone()));
        }
        let text = match &self.failure {
            Some(failure) => failure.text.clone(),
            // The next check is overdue.
            None => last_check.map(|_| "the last check is too old".into())?,
        };
        Some((ForecastReason::SourceFailed, text))
    }

    /// Stores the result of a check, and the past that it was made on.
    pub(super) fn set_check_result(&mut self, decision: GateDecision, past: Past, now: Timestamp) {
        let mut text = decision.text();
        let GateDecision { reason, choice, comparison } = decision;
        match past {
            Past::Read(past) => self.replace_history(&past, now),
            Past::Observed(why) if reason == ForecastReason::NotEnoughHistory => {
                text = format!("{text}; {why}");
            }
            Past::Observed(_) => {}
        }
        self.last_check = Some(CheckResult {
            at: now,
            reason,
            text: text.into(),
            model: choice.map(|choice| choice.model).unwrap_or_default(),
            comparison,
        });
        self.failure = None;
    }

    /// Replaces the history by the end of a past that was read. Keeps the loads after it.
    fn replace_history(&mut self, past: &Trace, now: Timestamp) {
        let Some(last_minute) = past.len().checked_sub(1) else { return };
        let end = past.time(last_minute);
        let mut history = past.history_of_last_days(HISTORY_DAYS);
        self.history.drop_after(now);
        for (at, load) in self.history.means().filter(|(at, _)| *at > end) {
            history.add(at, load);
        }
        self.history = history;
    }

    /// Stores a failed check. Returns the delay of its retry.
    pub(super) fn set_failed(&mut self, error: &PastError) -> Duration {
        let count = self.failure.as_ref().map_or(0, |failure| failure.count);
        let (PastError::Failed { cause, .. } | PastError::Unknown(cause)) = error;
        let cause = truncate(cause.clone(), MAX_CAUSE_CHARS);
        let text = format!("the metric's past can't be read: {cause}").into();
        self.failure = Some(Failure { text, count: count.saturating_add(1) });
        (FIRST_RETRY_DELAY * (1_u32 << count.min(8))).min(MAX_RETRY_DELAY)
    }

    /// The loads in the history: those that this process observed, and earlier ones if they were
    /// read once.
    pub(super) fn observed_past(&self) -> Trace {
        Trace::new(self.history.means())
    }
}
