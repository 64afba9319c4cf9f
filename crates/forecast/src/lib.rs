//! Forecasts a load from its past days, and checks whether forecasts would have helped an
//! autoscaler.
//!
//! There is no I/O, clock or async runtime: times are arguments. The controller uses forecasts in
//! its decisions while the gate, which it runs daily, recommends them. `hpa-simulate` runs
//! autoscalers with forecasts, and `hpa forecast` prints the results of the gate.
//!
//! - `history`: the past load in buckets of five minutes, in bounded memory
//! - `forecast`: the forecast, its quantiles, and the past days that it uses
//! - `model`: the choice of a model by its errors in the past week
//! - `trace`: a recorded load, minute by minute
//! - `autoscaler`: an autoscaler on such a load, with the rule of `hpa-calc`
//! - `gate`: runs with and without forecasts, and the decision whether to use forecasts
//!
//! ```
//! use hpa_forecast::{ForecastInput, History, Model};
//! use jiff::{SignedDuration, Timestamp, tz::TimeZone};
//!
//! // A load that doubles at eight every day.
//! let start: Timestamp = "2026-01-05T00:00:00Z".parse()?;
//! let mut history = History::new(15);
//! for minute in 0..5 * 24 * 60 {
//!     let load = if minute % 1440 < 480 { 100.0 } else { 200.0 };
//!     history.add(start + SignedDuration::from_mins(minute), load);
//! }
//! let input = ForecastInput {
//!     now: "2026-01-10T07:58:00Z".parse()?,
//!     load: 110.0,
//!     horizon: SignedDuration::from_mins(10),
//!     zone: &TimeZone::UTC,
//!     model: Model::default(),
//! };
//! let forecast = history.forecast(&input).ok_or("too little history")?;
//! assert_eq!(forecast.load(0.8).round(), 210.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(missing_docs)]

mod autoscaler;
mod forecast;
mod gate;
mod history;
mod model;
mod trace;

pub use hpa_calc::ForecastReason;

pub use self::{
    autoscaler::{MeasuredMinute, Outcome, Workload},
    forecast::{Forecast, ForecastInput, HISTORY_DAYS, LevelKind, Model, Season},
    gate::{
        Backtest, Comparison, GateDecision, GateSettings, decide, first_measured, overload_ratio,
    },
    history::{History, MAX_DAYS},
    model::ModelChoice,
    trace::Trace,
};
