//! The forecasts of an autoscaler in the debug API.

use hpa_calc::{
    ForecastReason, LoadForecast, MetricForecast,
    api::{MetricSourceType, MetricSpec},
};
use hpa_forecast::{LevelKind, Season};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{
    AutoscalerForecasts, METRIC_DELAY,
    metric::{ForecastParameters, MetricState},
};

const POINT_INTERVAL: SignedDuration = SignedDuration::from_mins(10);
const POINTS_PER_DAY: i32 = 144;
/// The quantiles of [`ForecastPoint::low`] and [`ForecastPoint::high`].
const BAND_QUANTILES: (f64, f64) = (0.1, 0.9);
/// The past that [`ForecastView::recent`] covers, before the horizon.
const RECENT_PERIOD: SignedDuration = SignedDuration::from_hours(1);
/// The target number of steps in [`ForecastView::recent`]. A step is at least a minute.
const RECENT_STEPS: i64 = 120;
/// The number of sync periods, in addition to [`METRIC_DELAY`], for which the last load that was
/// read counts as the present load.
const MAX_LOAD_AGE_PERIODS: i32 = 3;

/// The forecasts of one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForecastView {
    /// The index of the metric in `spec.metrics`.
    pub index: usize,
    /// The name of the metric or resource.
    pub metric: String,
    /// The reason as in the condition `ForecastActive`; absent before the first check has ended.
    pub reason: Option<String>,
    /// The reason in words.
    pub text: Option<String>,
    /// The time of the last successful check whether forecasts help.
    pub checked_at: Option<Timestamp>,
    /// The kind of past days that forecasts are based on: `daily`, `workweek` or `weekly`.
    pub season: Option<String>,
    /// Whether forecasts start from a smoothed load. If not, they start from the newest reading.
    pub is_smoothed: bool,
    /// The time from the measurement of a load to the time that the forecast is for.
    pub horizon_seconds: i64,
    /// The quantile of the forecast load that decisions use.
    pub quantile: f64,
    /// The load of one pod at its target.
    pub load_per_replica: Option<f64>,
    /// Overload minutes of the last check: with forecasts, and without them at equal pod-hours.
    pub overload_minutes: Option<(f64, f64)>,
    /// The accuracy of the past day's forecasts.
    pub yesterday: Option<PastDayAccuracy>,
    /// The past day and the horizon, every ten minutes.
    pub points: Vec<ForecastPoint>,
    /// The past hour and the horizon, every minute or, with a long horizon, in about 120 steps.
    /// Absent in documents of older versions.
    #[serde(default)]
    pub recent: Vec<ForecastPoint>,
    /// The newest reading of the load. The loads of the points are means of five minutes.
    #[serde(default)]
    pub read: Option<LoadReading>,
    /// The unit of the load: `cores` or `bytes`. Absent for metrics other than CPU and memory.
    #[serde(default)]
    pub unit: Option<String>,
}

/// A load that was read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadReading {
    /// The time when the controller read the load.
    pub at: Timestamp,
    /// The load of all pods.
    pub load: f64,
}

/// The accuracy of forecasts of the past day with the present model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PastDayAccuracy {
    /// The number of times at which load and forecast are compared.
    pub compared: usize,
    /// The share of times at which the load did not exceed the forecast.
    pub covered: f64,
    /// The mean absolute error of the median forecast, as a share of the mean load.
    pub error: f64,
}

/// The load at a time, and the forecast for that time one horizon before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForecastPoint {
    pub at: Timestamp,
    /// The actual load. Absent in the future, and if it is unknown.
    pub load: Option<f64>,
    /// The forecast load at the configured quantile.
    pub forecast: f64,
    /// The number of past days that the forecast is based on.
    pub days: usize,
    /// The load that is exceeded in nine of ten cases.
    pub low: f64,
    /// The load that is exceeded in one of ten cases.
    pub high: f64,
}

impl ForecastView {
    /// The newest forecast, as the controller decides on it. `None` before the first check, and for
    /// a reason that this version doesn't know.
    pub fn newest(&self) -> Option<MetricForecast> {
        let name = self.reason.as_deref()?;
        let reason = ForecastReason::ALL.into_iter().find(|reason| reason.as_str() == name)?;
        let newest = self.points.last().filter(|point| point.load.is_none());
        let forecast = newest.map(|point| LoadForecast {
            at: point.at,
            load: point.forecast,
            quantile: self.quantile,
            days: point.days,
        });
        let text = self.text.as_deref().unwrap_or_default().into();
        Some(MetricForecast { reason, text, forecast })
    }
}

impl AutoscalerForecasts {
    /// The forecasts of each metric that has a history.
    pub(crate) fn view(&self, now: Timestamp) -> Vec<ForecastView> {
        let Some(parameters) = &self.parameters else { return Vec::new() };
        let metrics = self.specs.iter().zip(&self.metrics).enumerate();
        let views = metrics.filter_map(|(index, (spec, state))| {
            Some(view(index, spec, state.as_ref()?, parameters, now))
        });
        views.collect()
    }
}

fn view(
    index: usize,
    spec: &MetricSpec,
    state: &MetricState,
    parameters: &ForecastParameters,
    now: Timestamp,
) -> ForecastView {
    let last_check = state.last_check.as_ref();
    let reason = state.reason_and_text(now);
    let (points, yesterday) = points(state, parameters, now);
    ForecastView {
        index,
        metric: spec.metric_name().to_owned(),
        reason: reason.as_ref().map(|(reason, _)| reason.as_str().to_owned()),
        text: reason.map(|(_, text)| text.to_string()),
        checked_at: last_check.map(|check| check.at),
        season: last_check.map(|check| {
            let name = match check.model.season {
                Season::Daily => "daily",
                Season::Workweek => "workweek",
                Season::Weekly => "weekly",
            };
            name.to_owned()
        }),
        is_smoothed: last_check.is_some_and(|check| check.model.level_kind == LevelKind::Smoothed),
        horizon_seconds: parameters.horizon.as_secs(),
        quantile: parameters.quantile,
        load_per_replica: state.last_load.map(|(_, load)| load.per_replica),
        overload_minutes: last_check.and_then(|check| check.comparison).map(|comparison| {
            (comparison.forecast.overload_minutes, comparison.with_lowered_target.overload_minutes)
        }),
        yesterday,
        points,
        recent: recent_points(state, parameters, now),
        read: state.last_load.map(|(at, load)| LoadReading { at, load: load.total }),
        unit: unit(spec).map(ToOwned::to_owned),
    }
}

/// The unit of the load of a resource metric.
pub(super) fn unit(spec: &MetricSpec) -> Option<&'static str> {
    let is_resource = matches!(
        spec.source_type,
        MetricSourceType::Resource | MetricSourceType::ContainerResource
    );
    match spec.metric_name() {
        "cpu" if is_resource => Some("cores"),
        "memory" if is_resource => Some("bytes"),
        _ => None,
    }
}

/// The points of the past day and until the horizon, with the accuracy of the past day.
fn points(
    state: &MetricState,
    parameters: &ForecastParameters,
    now: Timestamp,
) -> (Vec<ForecastPoint>, Option<PastDayAccuracy>) {
    let Ok(newest) = now.checked_sub(METRIC_DELAY) else { return (Vec::new(), None) };
    let times = (0..=POINTS_PER_DAY)
        .rev()
        .map(|step| newest.checked_sub(POINT_INTERVAL.saturating_mul(step)));
    let mut points = Vec::new();
    let (mut covered, mut compared, mut errors, mut loads) = (0_usize, 0_usize, 0.0, 0.0);
    let point_at = |at| point(state, parameters, at, newest);
    for (point, median) in times.flatten().filter_map(point_at) {
        if let Some(load) = point.load {
            compared += 1;
            covered += usize::from(load <= point.forecast);
            errors += (load - median).abs();
            loads += load;
        }
        points.push(point);
    }
    let yesterday = (compared > 0 && loads > 0.0).then(|| PastDayAccuracy {
        compared,
        covered: covered as f64 / compared as f64,
        error: errors / loads,
    });
    (points, yesterday)
}

/// The points of the past hour and until the horizon.
fn recent_points(
    state: &MetricState,
    parameters: &ForecastParameters,
    now: Timestamp,
) -> Vec<ForecastPoint> {
    let span = RECENT_PERIOD.saturating_add(parameters.horizon);
    let step = SignedDuration::from_secs((span.as_secs() / RECENT_STEPS).max(60));
    let Ok(newest) = now.checked_sub(METRIC_DELAY) else { return Vec::new() };
    let Ok(first) = newest.checked_sub(span) else { return Vec::new() };
    let ages = std::iter::successors(Some(SignedDuration::ZERO), |age| age.checked_add(step));
    let times = ages.map_while(|age| newest.checked_sub(age).ok().filter(|at| *at >= first));
    let mut points: Vec<_> =
        times.filter_map(|at| Some(point(state, parameters, at, newest)?.0)).collect();
    points.reverse();
    points
}

/// A forecast, and its median. `made_at` is when the forecast is made, [`ForecastPoint::at`] the
/// time it is for. `newest` is the time at which a load that is read now was measured. `None` if
/// the history is too short or has no load at `made_at`. Also `None` if no load was read recently
/// and the load at `at` is unknown.
fn point(
    state: &MetricState,
    parameters: &ForecastParameters,
    made_at: Timestamp,
    newest: Timestamp,
) -> Option<(ForecastPoint, f64)> {
    let max_age = parameters.sync_period.saturating_mul(MAX_LOAD_AGE_PERIODS);
    let recent_load = state.last_load.filter(|(at, _)| newest.duration_since(*at) <= max_age);
    // The history's newest bucket is incomplete, so the last load that was read counts for now.
    let present = recent_load.filter(|_| made_at == newest).map(|(_, load)| load.total);
    let load_when_made = present.or_else(|| state.history.load(made_at))?;
    let input = state.forecast_input(load_when_made, parameters, made_at);
    let forecast = state.history.forecast(&input)?;
    let load = state.history.load(forecast.at);
    if recent_load.is_none() && load.is_none() {
        return None;
    }
    let point = ForecastPoint {
        at: forecast.at,
        load,
        forecast: forecast.load(parameters.quantile),
        days: forecast.days,
        low: forecast.load(BAND_QUANTILES.0),
        high: forecast.load(BAND_QUANTILES.1),
    };
    Some((point, forecast.load(0.5)))
}
