//! Forecasts of the loads of autoscalers that have the setting `forecast`.
//!
//! ```text
//!  reconcile: load of each metric ──► history ──► forecast ──► readings of the decision
//!                                        ▲            ▲
//!  daily, in the background: past ──► check on two weeks: use forecasts, and with which model?
//!                         (PastLoads)
//! ```
//!
//! A reconcile adds a sample and computes a forecast, in microseconds and without I/O. On the
//! leader, `forecast_checks` reads the past and checks whether forecasts help.
//!
//! - `startup`: the time until the pods of a scale-up are ready
//! - `metric`: the forecasts of one metric: its history, and the check whether forecasts help
//! - `autoscaler`: the forecasts of one autoscaler
//! - `view`: the forecasts in the debug API
//!
//! Memory: 8 KiB for each metric that has had a load, at most [`MAX_HISTORIES`] metrics, half of
//! them in one namespace, and [`MAX_FORECAST_METRICS`] of an autoscaler.

mod autoscaler;
mod metric;
mod startup;
#[cfg(test)]
pub(crate) mod tests;
mod view;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use hpa_calc::{HorizontalPodAutoscaler, settings::Settings};
use hpa_forecast::Trace;
use hpa_metrics::FairSemaphore;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use tokio::sync::Notify;

pub use self::view::{ForecastPoint, ForecastView, LoadReading, PastDayAccuracy};
pub(crate) use self::{
    autoscaler::{AutoscalerForecasts, Check, LoadObservation},
    metric::Past,
};

/// The maximum number of metrics with a history, of all autoscalers: about 33 MB.
pub const MAX_HISTORIES: usize = 4000;
/// The maximum number of metrics of one autoscaler that are forecast: the first ones of its spec.
pub const MAX_FORECAST_METRICS: usize = 8;
/// The assumed age of a metric value when it is read.
const METRIC_DELAY: SignedDuration = SignedDuration::from_mins(1);
/// The minimum time between the first checks of an autoscaler's metrics, because a spec that keeps
/// changing must not cause a check at each change. It doesn't apply to metrics that have their
/// first loads at the same time.
pub(crate) const FIRST_CHECK_PERIOD: Duration = Duration::from_mins(10);
/// The time between two checks of a metric, except after the first check and after a failure.
pub(crate) const CHECK_PERIOD: Duration = Duration::from_hours(24);
/// If checks fail, the result of the last successful one is used for this long.
pub(crate) const MAX_CHECK_AGE: SignedDuration = SignedDuration::from_hours(48);

/// The time range of past loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastRange {
    pub from: Timestamp,
    pub until: Timestamp,
    /// The seconds between two samples.
    pub step_seconds: u32,
}

/// An error when reading the past of a metric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PastError {
    /// No source has this metric, so the check is made on the loads that this process observed. The
    /// text says why.
    #[error("{0}")]
    Unknown(String),
    /// The source failed.
    #[error("{error}")]
    Failed {
        /// The error for the log, which may have the query and the path of a URL.
        error: String,
        /// The cause for the condition, which users of the cluster read: without queries, paths and
        /// texts of a server.
        cause: String,
    },
}

impl PastError {
    /// A failure whose error users of the cluster may read.
    pub fn failed(cause: impl Into<String>) -> Self {
        let cause = cause.into();
        Self::Failed { error: cause.clone(), cause }
    }
}

/// The past loads of metrics, in the unit of [`hpa_calc::Plan::loads`].
pub trait PastLoads: Send + Sync {
    /// The load of the metric at an index of `spec.metrics`. The number of samples and the bytes
    /// that are read for them must be limited.
    fn load<'a>(
        &'a self,
        hpa: &'a HorizontalPodAutoscaler,
        metric: usize,
        range: PastRange,
    ) -> BoxFuture<'a, Result<Trace, PastError>>;
}

/// The source of past loads, and the time zone of days.
#[derive(Clone)]
pub struct ForecastSource {
    /// If `None`, checks are made on the loads that this process observed.
    pub past: Option<Arc<dyn PastLoads>>,
    /// The zone of days and weeks, unless the autoscaler has a schedule of bounds with another one.
    pub zone: TimeZone,
}

impl Default for ForecastSource {
    fn default() -> Self {
        Self { past: None, zone: TimeZone::UTC }
    }
}

/// The state that the forecasts of all autoscalers share.
pub struct Forecasts {
    pub(crate) source: ForecastSource,
    sync_period: Duration,
    /// Notified when a metric has its first load, so that it is checked soon.
    pub(crate) check_request: Notify,
    /// The permits for histories. One namespace gets at most half of them, so that a tenant can't
    /// exhaust them.
    histories: FairSemaphore,
    pub(crate) counts: CheckCounts,
}

/// The checks so far, by result.
#[derive(Debug, Default)]
pub struct CheckCounts {
    pub(crate) succeeded: AtomicU64,
    pub(crate) failed: AtomicU64,
}

impl CheckCounts {
    pub(crate) fn add(&self, has_succeeded: bool) {
        let count = if has_succeeded { &self.succeeded } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Default for Forecasts {
    /// Without a source of past loads.
    fn default() -> Self {
        Self::new(ForecastSource::default(), Duration::from_secs(15))
    }
}

impl Forecasts {
    pub fn new(source: ForecastSource, sync_period: Duration) -> Self {
        Self {
            source,
            sync_period,
            check_request: Notify::new(),
            histories: FairSemaphore::new(MAX_HISTORIES),
            counts: CheckCounts::default(),
        }
    }

    fn zone(&self, settings: &Settings) -> TimeZone {
        let bounds = settings.bounds.as_ref().and_then(|bounds| bounds.first());
        bounds.map_or_else(|| self.source.zone.clone(), |entry| entry.time_zone.clone())
    }
}
