//! Whether forecasts of the load count.

use jiff::SignedDuration;

/// What is done with forecasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forecasting {
    /// None are made, as in the reference.
    #[default]
    Off,
    /// They are made and explained, and change nothing.
    Observe,
    /// They can raise the answer.
    Scale,
}

/// How forecasts are made, and what is done with them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Forecasts {
    /// What is done with them.
    pub mode: Forecasting,
    /// How far ahead; `None` for the measured time until pods of a scale-up are ready. The
    /// forecaster applies it.
    pub horizon: Option<SignedDuration>,
    /// The quantile of the forecast that is scaled for, from 0 to 1; `None` for the default of
    /// the forecaster.
    pub quantile: Option<f64>,
}

impl Forecasts {
    /// No forecasts.
    pub const OFF: Self = Self { mode: Forecasting::Off, horizon: None, quantile: None };

    /// Whether forecasts are made.
    pub fn is_on(&self) -> bool {
        self.mode != Forecasting::Off
    }
}
