//! The settings of forecasts of the load.

use jiff::SignedDuration;

/// Whether forecasts are made, and whether they count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForecastMode {
    /// No forecasts are made, as in the reference.
    #[default]
    Off,
    /// Forecasts are made and explained, but change nothing.
    Observe,
    /// Forecasts can raise the desired replicas.
    Scale,
}

/// The settings of forecasts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Forecasts {
    /// Whether forecasts are made, and whether they count.
    pub mode: ForecastMode,
    /// The time from a reading to the forecast time; `None` for the measured time until pods of a
    /// scale-up are ready, plus the age of the metric and a sync period. The forecaster applies it.
    pub horizon: Option<SignedDuration>,
    /// The quantile of the future load that forecasts estimate, from 0 to 1; `None` for the
    /// forecaster's default. See [`LoadForecast::quantile`](crate::LoadForecast::quantile).
    pub quantile: Option<f64>,
}

impl Forecasts {
    /// Whether forecasts are made.
    pub fn is_on(&self) -> bool {
        self.mode != ForecastMode::Off
    }
}
