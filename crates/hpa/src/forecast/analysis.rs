//! Compares how an autoscaler follows a load with and without forecasts.

use hpa_forecast::{
    Backtest, Comparison, GateDecision, GateSettings, MeasuredMinute, Trace, Workload, decide,
    first_measured,
};
use jiff::{SignedDuration, Timestamp};

use crate::{args::ForecastArguments, simulate::Progress};

/// The quantiles to compare without `--quantile`.
const QUANTILES: [f64; 5] = [0.5, 0.7, 0.8, 0.9, 0.95];
/// Of the quantiles that reduce the overload to this share, the cheapest is recommended.
const LOW_OVERLOAD_RATIO: f64 = 0.25;

/// A load, and the autoscaler that has to follow it.
pub(super) struct Subject {
    pub(super) name: String,
    /// `None` for a load from a file, which has no autoscaler.
    pub(super) metric: Option<String>,
    /// Whether the autoscaler is one of the custom API.
    pub(super) is_custom: bool,
    pub(super) trace: Trace,
    pub(super) workload: Workload,
    pub(super) assumptions: Vec<String>,
}

/// The results for a load.
pub(super) struct Analysis {
    pub(super) subject: Subject,
    /// The settings with the recommended quantile.
    pub(super) settings: GateSettings,
    /// The decisions by quantile, in ascending order.
    pub(super) decisions: Vec<(f64, GateDecision)>,
    /// The decision for the recommended quantile.
    pub(super) decision: GateDecision,
    /// `None` if no time was measured.
    pub(super) runs: Option<Runs>,
}

/// The minutes of the measured time, with and without forecasts. The runs are those of
/// [`Comparison`], in `crates/forecast/src/gate.rs`.
pub(super) struct Runs {
    /// Without forecasts.
    pub(super) reactive: Vec<MeasuredMinute>,
    /// Without forecasts, with a lower target for the same pod-hours.
    pub(super) with_lowered_target: Vec<MeasuredMinute>,
    pub(super) with_forecasts: Vec<MeasuredMinute>,
    /// The forecast load that a decision at each minute of the trace uses. NaN if there is none.
    pub(super) forecast_loads: Vec<f32>,
}

impl Analysis {
    /// Simulates the load with each quantile, and shows the progress. Adds the assumed capacity to
    /// the assumptions of the subject.
    pub(super) fn new(mut subject: Subject, arguments: &ForecastArguments) -> Self {
        let mut settings = GateSettings::new(subject.workload.clone(), arguments.time_zone.clone());
        settings.horizon = arguments.horizon.unwrap_or(settings.horizon);
        settings.capacity =
            arguments.past.pod_capacity.map(|capacity| capacity / subject.workload.target);
        if settings.capacity.is_none() {
            subject.assumptions.push(
                "The capacity of a pod is assumed: the load per ready pod that is exceeded for 2 % \
                 of the time without forecasts, but at least the target plus tolerance \
                 (--pod-capacity)."
                    .to_owned(),
            );
        }
        let quantiles = arguments.quantile.map_or(QUANTILES.to_vec(), |quantile| vec![quantile]);
        let progress = Progress::new(quantiles.len() as f64, "quantiles");
        let decision = |quantile| {
            let decision = decide(&subject.trace, &GateSettings { quantile, ..settings.clone() });
            progress.add(1.0);
            (quantile, decision)
        };
        let decisions: Vec<(f64, GateDecision)> = quantiles.into_iter().map(decision).collect();
        progress.finish();
        let (quantile, decision) = recommended(&decisions);
        settings.quantile = quantile;
        let comparison = decision.comparison;
        let runs = comparison.map(|comparison| Runs::new(&subject.trace, &settings, &comparison));
        Self { subject, settings, decisions, decision, runs }
    }

    /// The load that a pod can serve. `None` if no time was measured.
    pub(super) fn pod_capacity(&self) -> Option<f64> {
        Some(self.decision.comparison?.capacity * self.subject.workload.target)
    }

    /// The first and the last minute of the measured time. `None` if no time was measured.
    pub(super) fn measured_range(&self) -> Option<(Timestamp, Timestamp)> {
        let runs = self.runs.as_ref()?;
        let time = |one: &MeasuredMinute| minute_start(&self.subject.trace, one.minute);
        Some((time(runs.reactive.first()?), time(runs.reactive.last()?)))
    }
}

/// The recommended quantile with its decision. Among the quantiles with which forecasts help, it is
/// the cheapest quantile with low overload, else the quantile with the least overload. If forecasts
/// help with none, it is the default quantile, or the only quantile.
fn recommended(decisions: &[(f64, GateDecision)]) -> (f64, GateDecision) {
    let active = decisions.iter().filter(|(_, decision)| decision.reason.is_active());
    let active = active.filter_map(|entry| {
        let (_, decision) = entry;
        Some((entry, decision.comparison?))
    });
    let low_overload = active.clone().filter(|(_, one)| one.overload_ratio() <= LOW_OVERLOAD_RATIO);
    let cheapest = low_overload
        .min_by(|(_, one), (_, other)| one.forecast.pod_hours.total_cmp(&other.forecast.pod_hours));
    let least_overload = active
        .min_by(|(_, one), (_, other)| one.overload_ratio().total_cmp(&other.overload_ratio()));
    let is_default =
        |quantile: &f64| (quantile - GateSettings::DEFAULT_QUANTILE).abs() < f64::EPSILON;
    let default = || decisions.iter().find(|(quantile, _)| is_default(quantile));
    let recommended =
        cheapest.or(least_overload).map(|(entry, _)| entry).or_else(default).or(decisions.first());
    recommended
        .cloned()
        .unwrap_or((GateSettings::DEFAULT_QUANTILE, GateDecision::NOT_ENOUGH_HISTORY))
}

impl Runs {
    fn new(trace: &Trace, settings: &GateSettings, comparison: &Comparison) -> Self {
        let settings = GateSettings { capacity: Some(comparison.capacity), ..settings.clone() };
        let backtest = Backtest::new(trace, &settings, first_measured(trace));
        let forecast_loads = backtest.forecasts();
        Self {
            reactive: backtest.measured_minutes(1.0, None),
            with_lowered_target: backtest.measured_minutes(comparison.lowered_target, None),
            with_forecasts: backtest.measured_minutes(1.0, Some(&forecast_loads)),
            forecast_loads,
        }
    }
}

/// The first and the last minute of a load.
pub(super) fn load_range(trace: &Trace) -> (Timestamp, Timestamp) {
    (minute_start(trace, 0), minute_start(trace, trace.len().saturating_sub(1)))
}

/// The start of a minute. [`Trace::time`] returns its end, which may be in the future.
fn minute_start(trace: &Trace, minute: usize) -> Timestamp {
    let end = trace.time(minute);
    end.saturating_sub(SignedDuration::from_mins(1)).unwrap_or(end)
}
