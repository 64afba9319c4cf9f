//! The gate decides whether to use forecasts: only if they would have helped in the past two weeks,
//! or in the recorded part of them.

#[cfg(test)]
mod tests;

use hpa_calc::ForecastReason;
use jiff::{SignedDuration, tz::TimeZone};
use serde::Serialize;

use crate::{
    autoscaler::{EPSILON, MeasuredMinute, Outcome, Runner, Workload, minutes},
    history::History,
    model::{Forecaster, ModelChoice, ModelLosses},
    trace::{MINUTES_PER_DAY, Trace},
};

/// The maximum number of days that are measured.
const MEASURED_DAYS: usize = 14;
/// The minimum number of days that are measured. With fewer, the gate doesn't decide.
const MIN_MEASURED_DAYS: usize = 3;
/// The minimum number of days before the measured ones, from which forecasts learn.
const MIN_LEARNED_DAYS: usize = 7;
/// The share of minutes whose load must be known: from samples, or interpolated.
const MIN_COVERAGE: f64 = 0.8;
/// A load counts as seasonal if the errors of forecasts with a season are lower by this share.
const MIN_SKILL: f64 = 0.01;
/// Forecasts must avoid at least a fifth of the overload. A smaller benefit isn't worth their
/// occasional errors.
const MAX_OVERLOAD_RATIO: f64 = 0.8;
/// Forecasts that avoid less overload must avoid at least half of the unserved load, without adding
/// overload. After a short rise, the number of minutes with overload is small, and depends on the
/// second at which the load rises.
const MAX_UNSERVED_RATIO: f64 = 0.5;
/// The gate stays closed if there is overload for less than this share of the time.
const MIN_OVERLOAD: f64 = 0.0005;
/// An unknown capacity of a pod is assumed to be the load that reactive autoscaling exceeds for
/// this share of the time.
const ASSUMED_OVERLOAD: f64 = 0.02;
/// The number of steps of the binary search for the target with a given cost.
const TARGET_STEPS: usize = 14;
/// The lowest target that is tried, as a share of the configured one.
const LOWEST_TARGET: f64 = 0.1;

/// Settings of forecasts for an autoscaler.
#[derive(Clone, Debug)]
pub struct GateSettings {
    /// The workload and its autoscaler.
    pub workload: Workload,
    /// The time from the reading of a metric to the forecast time.
    pub horizon: SignedDuration,
    /// The autoscaler scales for this quantile of the forecast, from 0 to 1.
    pub quantile: f64,
    /// The time zone for days, weeks and daylight saving time.
    pub zone: TimeZone,
    /// The load that a ready pod can serve, as a multiple of the target. If it is not known, it is
    /// the load that reactive autoscaling exceeds for 2 % of the time, and at least the target plus
    /// tolerance.
    pub capacity: Option<f64>,
}

impl GateSettings {
    /// The quantile that is used if none is set.
    pub const DEFAULT_QUANTILE: f64 = 0.8;

    /// Settings with the horizon that the workload needs.
    pub fn new(workload: Workload, zone: TimeZone) -> Self {
        let horizon = workload.horizon();
        Self { workload, horizon, quantile: Self::DEFAULT_QUANTILE, zone, capacity: None }
    }
}

/// The decision of the gate, with its measurements.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateDecision {
    /// The decision and its reason.
    pub reason: ForecastReason,
    /// The model for the next day. `None` with [`ForecastReason::NotEnoughHistory`].
    pub choice: Option<ModelChoice>,
    /// Up to two weeks of the past, with and without forecasts. `None` with
    /// [`ForecastReason::NotEnoughHistory`].
    pub comparison: Option<Comparison>,
}

impl GateDecision {
    /// The decision on a load whose history is too short or has too many gaps.
    pub const NOT_ENOUGH_HISTORY: Self =
        Self { reason: ForecastReason::NotEnoughHistory, choice: None, comparison: None };

    /// The reason in words, for the condition `ForecastActive`.
    pub fn text(&self) -> String {
        match (self.reason, &self.comparison) {
            (ForecastReason::Forecasting, Some(comparison)) => {
                let (measure, share) = if comparison.helps_only_unserved_load() {
                    ("unserved load", comparison.unserved_ratio())
                } else {
                    ("overload", comparison.overload_ratio())
                };
                format!(
                    "with forecasts, the past {} would have had {:.0} % of the {measure} of a \
                     run without forecasts at the same pod-hours",
                    comparison.measured_time(),
                    share * 100.0
                )
            }
            (ForecastReason::NoBenefit, Some(comparison)) if comparison.has_little_overload() => {
                format!(
                    "at equal pod-hours, there would have been too little overload to judge \
                     forecasts in the past {}",
                    comparison.measured_time()
                )
            }
            (ForecastReason::NoBenefit, Some(comparison)) => format!(
                "at equal pod-hours, overload would have been about the same in the past {}",
                comparison.measured_time()
            ),
            (ForecastReason::NoSeason, _) => {
                "neither the time of day nor the day of the week improved past forecasts".into()
            }
            (ForecastReason::SourceFailed, _) => "the past can't be read".into(),
            (ForecastReason::NotEnoughHistory, _) | (_, None) => {
                "fewer than ten days of the load are known, or more than a fifth is missing".into()
            }
        }
    }
}

/// The outcomes of the same time with and without forecasts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The load that a ready pod can serve, as a multiple of the target.
    pub capacity: f64,
    /// The outcome without forecasts.
    pub reactive: Outcome,
    /// The outcome without forecasts, with the target lowered until the run costs as much as with
    /// forecasts, but not below a tenth of the configured one.
    #[serde(rename = "lowered")]
    pub with_lowered_target: Outcome,
    /// The lowered target, as a share of the configured one.
    pub lowered_target: f64,
    /// The outcome with forecasts.
    pub forecast: Outcome,
    /// The outcome with the actual load as the forecast, see [`Backtest::perfect`].
    pub perfect: Outcome,
    /// Whether forecasts added no overload in either half of the time, at equal pod-hours.
    pub is_steady: bool,
}

impl Comparison {
    /// The overload with forecasts as a share of the overload without them, at equal pod-hours. 1
    /// if neither has any, and infinite if only forecasts have.
    pub fn overload_ratio(&self) -> f64 {
        overload_ratio(self.forecast, self.with_lowered_target)
    }

    /// Whether the benefit of forecasts, if there is one, is less unserved load: the time with
    /// overload is about the same.
    pub fn helps_only_unserved_load(&self) -> bool {
        self.overload_ratio() > MAX_OVERLOAD_RATIO
    }

    /// Whether a run without forecasts has too little overload to judge forecasts.
    pub fn has_little_overload(&self) -> bool {
        self.with_lowered_target.overload() < MIN_OVERLOAD
    }

    /// The minutes of overload without forecasts that are needed to judge them.
    pub fn min_overload_minutes(&self) -> f64 {
        (MIN_OVERLOAD * self.with_lowered_target.minutes).ceil()
    }

    /// The number of days that were measured, in words. Gaps don't count.
    fn measured_time(&self) -> String {
        match (self.forecast.minutes / MINUTES_PER_DAY as f64).round() {
            14.0 => "two weeks".to_owned(),
            1.0 => "day".to_owned(),
            days => format!("{days} days"),
        }
    }

    fn has_benefit(&self) -> bool {
        self.is_steady
            && !self.has_little_overload()
            && self.forecast.unserved <= self.with_lowered_target.unserved
            && (!self.helps_only_unserved_load()
                || self.overload_ratio() <= 1.0 && self.unserved_ratio() <= MAX_UNSERVED_RATIO)
    }

    /// The unserved load with forecasts as a share of that without them, at equal pod-hours. 1 if
    /// there is none without them.
    fn unserved_ratio(&self) -> f64 {
        if self.with_lowered_target.unserved > 0.0 {
            self.forecast.unserved / self.with_lowered_target.unserved
        } else {
            1.0
        }
    }
}

/// The overload of a run as a share of the overload of another one. 1 if neither has any, and
/// infinite if only the first one has.
pub fn overload_ratio(one: Outcome, other: Outcome) -> f64 {
    if other.overload_minutes > 0.0 {
        one.overload_minutes / other.overload_minutes
    } else if one.overload_minutes > 0.0 {
        f64::INFINITY
    } else {
        1.0
    }
}

/// Decides by the last weeks of the trace whether to use forecasts. The same inputs give the same
/// decision. For four weeks, it needs about 400 ms of CPU time.
pub fn decide(trace: &Trace, settings: &GateSettings) -> GateDecision {
    if !has_enough_history(trace) {
        return GateDecision::NOT_ENOUGH_HISTORY;
    }
    let backtest = Backtest::new(trace, settings, first_measured(trace));
    let Some(choice) = backtest.model_losses.choose(trace.len()) else {
        return GateDecision::NOT_ENOUGH_HISTORY;
    };
    let comparison = backtest.compare();
    let reason = if choice.skill < MIN_SKILL {
        ForecastReason::NoSeason
    } else if comparison.has_benefit() {
        ForecastReason::Forecasting
    } else {
        ForecastReason::NoBenefit
    };
    GateDecision { reason, choice: Some(choice), comparison: Some(comparison) }
}

fn has_enough_history(trace: &Trace) -> bool {
    let known = trace.loads().iter().filter(|load| !load.is_nan()).count();
    let coverage = known as f64 / trace.len().max(1) as f64;
    trace.len() >= (MIN_LEARNED_DAYS + MIN_MEASURED_DAYS) * MINUTES_PER_DAY
        && coverage >= MIN_COVERAGE
}

/// The first minute that is measured: two weeks before the end, and at least one week after the
/// start, because forecasts learn from that week.
pub fn first_measured(trace: &Trace) -> usize {
    let last_days = trace.len().saturating_sub(MEASURED_DAYS * MINUTES_PER_DAY);
    last_days.max(MIN_LEARNED_DAYS * MINUTES_PER_DAY)
}

/// Runs of an autoscaler on the same trace, with and without forecasts.
pub struct Backtest<'a> {
    runner: Runner<'a>,
    trace: &'a Trace,
    settings: &'a GateSettings,
    history: History,
    model_losses: ModelLosses,
    first: usize,
    reactive: Outcome,
}

impl<'a> Backtest<'a> {
    /// A backtest that measures from minute `first` on.
    pub fn new(trace: &'a Trace, settings: &'a GateSettings, first: usize) -> Self {
        let mut runner = Runner::new(trace, &settings.workload, first);
        runner.capacity = match settings.capacity {
            Some(capacity) => capacity,
            None => assumed_capacity(&runner, settings.workload.tolerances.up),
        };
        let reactive = runner.run(1.0, None, |_| {});
        let history = trace.history();
        let model_losses = ModelLosses::new(&forecaster(trace, &history, settings), first);
        Self { runner, trace, settings, history, model_losses, first, reactive }
    }

    /// The load that a ready pod can serve, as a multiple of the target.
    pub fn capacity(&self) -> f64 {
        self.runner.capacity
    }

    /// Measures the outcomes with and without forecasts.
    pub fn compare(&self) -> Comparison {
        let forecasts = self.forecasts();
        // Returns the outcome of a run, and the minutes with overload in each half of the time.
        let run_in_halves = |factor, forecasts| {
            let mid = usize::midpoint(self.first, self.trace.len());
            let mut halves = [0_u32; 2];
            let capacity = self.runner.capacity;
            let outcome = self.runner.run(factor, forecasts, |measured| {
                let is_overload = measured.load > f64::from(measured.ready) * capacity + EPSILON;
                let half = usize::from(measured.minute >= mid);
                if let (true, Some(count)) = (is_overload, halves.get_mut(half)) {
                    *count += 1;
                }
            });
            (outcome, halves)
        };
        let (forecast, overload) = run_in_halves(1.0, Some(&forecasts));
        let (_, lowered_target) = self.at_cost(forecast.pod_hours);
        let (with_lowered_target, lowered_overload) = run_in_halves(lowered_target, None);
        Comparison {
            capacity: self.runner.capacity,
            reactive: self.reactive,
            with_lowered_target,
            lowered_target,
            forecast,
            perfect: self.run(1.0, Some(&self.perfect())),
            is_steady: overload.iter().zip(lowered_overload).all(|(one, lowered)| *one <= lowered),
        }
    }

    /// The forecast load that a decision at each minute uses. NaN if there is none.
    pub fn forecasts(&self) -> Vec<f32> {
        let forecaster = forecaster(self.trace, &self.history, self.settings);
        forecaster.forecasts(self.first, &self.model_losses)
    }

    /// Perfect forecasts: for each minute, the highest load until a pod that starts one minute
    /// later is ready.
    pub fn perfect(&self) -> Vec<f32> {
        let loads = self.trace.loads();
        let ahead = minutes(self.settings.workload.startup) + 1;
        let highest = |minute: usize| {
            let end = (minute + ahead + 1).min(loads.len());
            loads.get(minute..end).unwrap_or_default().iter().copied().fold(f32::NAN, f32::max)
        };
        (0..loads.len()).map(highest).collect()
    }

    /// Runs the autoscaler with its target multiplied by `factor`. Each forecast load adds a
    /// proposal to the decision of its minute, unless it is NaN or there is no reading.
    pub fn run(&self, factor: f64, forecasts: Option<&[f32]>) -> Outcome {
        self.runner.run(factor, forecasts, |_| {})
    }

    /// The load, the replicas and the ready pods at each measured minute of [`Self::run`].
    pub fn measured_minutes(&self, factor: f64, forecasts: Option<&[f32]>) -> Vec<MeasuredMinute> {
        let mut minutes = Vec::new();
        self.runner.run(factor, forecasts, |measured| {
            let load = measured.load * self.settings.workload.target;
            minutes.push(MeasuredMinute { load, ..measured });
        });
        minutes
    }

    /// The outcome without forecasts, with the target lowered until the run costs `pod_hours`. Also
    /// returns that target as a share of the configured one, at most 1.
    pub fn at_cost(&self, pod_hours: f64) -> (Outcome, f64) {
        let (mut low, mut high) = (LOWEST_TARGET, 1.0);
        if pod_hours <= self.reactive.pod_hours {
            return (self.reactive, 1.0);
        }
        for _ in 0..TARGET_STEPS {
            let middle = f64::midpoint(low, high);
            if self.run(middle, None).pod_hours > pod_hours { low = middle } else { high = middle }
        }
        (self.run(low, None), low)
    }
}

fn forecaster<'a>(
    trace: &'a Trace,
    history: &'a History,
    settings: &'a GateSettings,
) -> Forecaster<'a> {
    Forecaster {
        trace,
        history,
        zone: &settings.zone,
        delay: minutes(settings.workload.delay),
        horizon: settings.horizon,
        quantile: settings.quantile,
    }
}

/// The load per ready pod that reactive autoscaling exceeds for 2 % of the time, and at least the
/// target plus tolerance.
fn assumed_capacity(runner: &Runner<'_>, tolerance: f64) -> f64 {
    let mut loads = Vec::new();
    runner.run(1.0, None, |measured| {
        loads.push(measured.load / f64::from(measured.ready.max(1)));
    });
    loads.sort_by(f64::total_cmp);
    let index = crate::history::as_index(loads.len() as f64 * (1.0 - ASSUMED_OVERLOAD));
    let assumed = index.and_then(|index| loads.get(index)).copied().unwrap_or_default();
    assumed.max(1.0 + tolerance)
}
