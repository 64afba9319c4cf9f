//! The choice of a model, by the errors of its forecasts in the past week.

use jiff::{SignedDuration, tz::TimeZone};
use serde::Serialize;

use crate::{
    forecast::{Forecast, ForecastInput, LevelKind, Model},
    history::{History, as_f32, as_index},
    trace::{MINUTES_PER_DAY, Trace},
};

/// The days on which models are compared.
const COMPARED_DAYS: usize = 7;
/// The minimum number of comparisons: half a day without gaps. Each minute is compared, so a step
/// of the load can't fall between two comparisons, whatever its period.
const MIN_COMPARED: usize = 12 * 60;
/// The number of quantiles at which forecasts are compared.
const QUANTILES: usize = 3;
/// Forecasts at this quantile can also show a season. The history turns a step of the load into a
/// slope that is a bucket long, so lower quantiles of a forecast can be as wrong as the newest
/// reading. Without a season, forecasts at high quantiles have the largest errors.
const HIGH_QUANTILE: f64 = 0.95;
/// The number of levels to which forecasts without a season add a number.
const LEVELS: usize = 3;

/// The model with the smallest errors in the past week.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelChoice {
    /// The model.
    pub model: Model,
    /// The relative reduction of errors compared with the best forecast without a season: at the
    /// quantile, at the median or at 0.95, whichever is the largest. About 0 or less if the load
    /// has no season.
    pub skill: f64,
}

/// Makes forecasts for the minutes of a trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forecaster<'a> {
    pub(crate) trace: &'a Trace,
    /// The history of the whole trace. Its days after a reading have no effect, because a forecast
    /// uses only earlier days and the half hour before the reading.
    pub(crate) history: &'a History,
    pub(crate) zone: &'a TimeZone,
    /// Minutes from a reading to the decision that uses it.
    pub(crate) delay: usize,
    /// The time from a reading to the forecast time.
    pub(crate) horizon: SignedDuration,
    pub(crate) quantile: f64,
}

impl Forecaster<'_> {
    /// The forecast that is made with the reading of a minute.
    fn forecast(&self, reading_minute: usize, model: Model) -> Option<Forecast> {
        let input = ForecastInput {
            now: self.trace.time(reading_minute),
            load: self.trace.load(reading_minute)?,
            horizon: self.horizon,
            zone: self.zone,
            model,
        };
        self.history.forecast(&input)
    }

    /// The forecast that a decision at each minute uses, from minute `first` on. NaN if there is no
    /// forecast. Each day uses the model that was best in the week before, or else that of the day
    /// before.
    pub(crate) fn forecasts(&self, first: usize, losses: &ModelLosses) -> Vec<f32> {
        let mut forecasts = vec![f32::NAN; self.trace.len()];
        let mut model = Model::default();
        for minute in first..self.trace.len() {
            if (minute - first).is_multiple_of(MINUTES_PER_DAY) {
                model = losses.choose(minute).map_or(model, |choice| choice.model);
            }
            let reading_minute = minute.checked_sub(self.delay);
            let forecast =
                reading_minute.and_then(|reading_minute| self.forecast(reading_minute, model));
            if let Some((forecast, load)) = forecast.zip(forecasts.get_mut(minute)) {
                *load = as_f32(forecast.load(self.quantile));
            }
        }
        forecasts
    }

    /// Compares the forecasts for a minute with its load.
    fn compare(&self, minute: usize) -> Option<MinuteLosses> {
        let reading_minute = minute.checked_sub(crate::autoscaler::minutes(self.horizon))?;
        let (reading, actual) = (self.trace.load(reading_minute)?, self.trace.load(minute)?);
        let second = self.trace.time(reading_minute).as_second();
        let smoothed = self.history.level_at(second, reading, LevelKind::Smoothed);
        let levels = [reading, smoothed.unwrap_or(f64::NAN), 0.0];
        let losses = Model::ALL.map(|model| {
            let Some(forecast) = self.forecast(reading_minute, model) else {
                return [f32::NAN; QUANTILES];
            };
            compared_quantiles(self.quantile)
                .map(|quantile| as_f32(pinball(quantile, actual - forecast.load(quantile))))
        });
        let differences = levels.map(|level| as_f32(actual - level));
        Some(MinuteLosses { minute, differences, losses })
    }
}

/// The losses of all models in the past. The model for a day is chosen by the week before it. These
/// weeks overlap, so the losses of each minute are computed once and stored.
pub(crate) struct ModelLosses {
    quantile: f64,
    /// In order of time.
    compared: Vec<MinuteLosses>,
}

/// A minute for which forecasts are compared. It is small, because there are thousands of them.
struct MinuteLosses {
    minute: usize,
    /// The load minus each level to which a forecast without a season adds the same number at all
    /// times: the reading, the smoothed reading, and 0. The best number for 0 is the mean or a
    /// quantile of the load. NaN if there is no level.
    differences: [f32; LEVELS],
    /// The losses at the [`compared_quantiles`], in the order of [`Model::ALL`]. NaN if the model
    /// has no forecast.
    losses: [[f32; QUANTILES]; Model::ALL.len()],
}

impl ModelLosses {
    /// Compares forecasts and loads from a week before `first` to the end of the trace.
    pub(crate) fn new(forecaster: &Forecaster<'_>, first: usize) -> Self {
        let start = first.saturating_sub(COMPARED_DAYS * MINUTES_PER_DAY);
        let minutes = start..forecaster.trace.len();
        let compared = minutes.filter_map(|minute| forecaster.compare(minute)).collect();
        Self { quantile: forecaster.quantile, compared }
    }

    /// Chooses the model for the time from `end` on. `None` with too few comparisons, or if no
    /// model has forecasts for half of them.
    pub(crate) fn choose(&self, end: usize) -> Option<ModelChoice> {
        let compared = self.week_before(end)?;
        if compared.len() < MIN_COMPARED {
            return None;
        }
        let losses = Model::ALL.into_iter().enumerate();
        let losses =
            losses.filter_map(|(index, model)| Some((model, mean_losses(compared, index)?)));
        let best = losses.min_by(|(_, [one, ..]), (_, [other, ..])| one.total_cmp(other));
        let (model, losses) = best?;
        let differences: Vec<Vec<f64>> =
            (0..LEVELS).filter_map(|level| sorted_differences(compared, level)).collect();
        let skill = |(quantile, loss): (f64, f64)| {
            let without_season = differences.iter().map(|one| loss_without_season(one, quantile));
            match without_season.min_by(f64::total_cmp) {
                Some(without_season) if without_season > 0.0 => 1.0 - loss / without_season,
                _ => 0.0,
            }
        };
        let skills = compared_quantiles(self.quantile).into_iter().zip(losses).map(skill);
        let skill = skills.fold(f64::NEG_INFINITY, f64::max);
        Some(ModelChoice { model, skill })
    }

    /// The comparisons of the week before a minute.
    fn week_before(&self, end: usize) -> Option<&[MinuteLosses]> {
        let start = end.saturating_sub(COMPARED_DAYS * MINUTES_PER_DAY);
        let index = |minute| self.compared.partition_point(|compared| compared.minute < minute);
        self.compared.get(index(start)..index(end))
    }
}

/// The quantiles at which forecasts are compared. The first one selects the model.
fn compared_quantiles(quantile: f64) -> [f64; QUANTILES] {
    [quantile, 0.5, HIGH_QUANTILE]
}

/// The mean losses of a model at the [`compared_quantiles`]. `None` if it has forecasts for less
/// than half of the minutes.
fn mean_losses(compared: &[MinuteLosses], model: usize) -> Option<[f64; QUANTILES]> {
    let (mut sums, mut count) = ([0.0; QUANTILES], 0_usize);
    let losses = compared.iter().filter_map(|compared| compared.losses.get(model));
    for losses in losses.filter(|losses| !losses.iter().any(|loss| loss.is_nan())) {
        for (sum, loss) in sums.iter_mut().zip(losses) {
            *sum += f64::from(*loss);
        }
        count += 1;
    }
    (count * 2 >= compared.len()).then(|| sums.map(|sum| sum / count as f64))
}

/// The differences of the load from a level, in ascending order. `None` if less than half of the
/// minutes have the level.
fn sorted_differences(compared: &[MinuteLosses], level: usize) -> Option<Vec<f64>> {
    let differences = compared.iter().filter_map(|compared| compared.differences.get(level));
    let mut differences: Vec<f64> =
        differences.copied().filter(|one| !one.is_nan()).map(f64::from).collect();
    differences.sort_by(f64::total_cmp);
    (differences.len() * 2 >= compared.len()).then_some(differences)
}

/// The mean loss of the forecast that adds the same number to a level at all times.
fn loss_without_season(differences: &[f64], quantile: f64) -> f64 {
    let index = as_index((quantile * differences.len().saturating_sub(1) as f64).round());
    let added = index.and_then(|index| differences.get(index)).copied().unwrap_or_default();
    let losses = differences.iter().map(|actual| pinball(quantile, actual - added));
    losses.sum::<f64>() / differences.len().max(1) as f64
}

/// The pinball loss. Forecasts at the quantile have the smallest mean loss. For a high quantile, a
/// forecast that is too low costs more than one that is too high.
fn pinball(quantile: f64, error: f64) -> f64 {
    if error >= 0.0 { quantile * error } else { (quantile - 1.0) * error }
}
