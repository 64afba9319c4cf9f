//! The choice of a model, by the errors of its forecasts in the past week.

use jiff::{SignedDuration, tz::TimeZone};
use serde::Serialize;

use crate::{
    forecast::{Forecast, Level, Question, Season},
    history::{History, as_f32, as_index},
    trace::Trace,
};

const MINUTES_PER_DAY: usize = 24 * 60;
/// The days on which models are compared.
const COMPARED_DAYS: usize = 7;
/// Every 30th minute is compared.
const COMPARED_STEP: usize = 30;
/// The minimum number of comparisons: half a day has as many.
const MIN_COMPARED: usize = 24;

/// The model of a forecast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// The past days that the forecast uses.
    pub season: Season,
    /// The level to start from.
    pub level: Level,
}

/// The model with the smallest errors in the past week.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    /// The model.
    pub model: Model,
    /// The reduction of the error compared with forecasts without a season, as a share: at the
    /// median or at the quantile, whichever is larger. 0 or less if the load has no season.
    pub skill: f64,
}

/// The settings of the forecasts for the minutes of a trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    pub(crate) trace: &'a Trace,
    /// The history of the trace. A forecast reads days before its own and the half hour before
    /// its reading, so the history may have later days.
    pub(crate) history: &'a History,
    pub(crate) zone: &'a TimeZone,
    /// Minutes from a reading to the decision that uses it.
    pub(crate) delay: usize,
    /// The time from a reading to the forecast time.
    pub(crate) horizon: SignedDuration,
    pub(crate) quantile: f64,
}

impl Task<'_> {
    /// The forecast that is known at a minute.
    pub(crate) fn forecast(&self, minute: usize, model: Model) -> Option<Forecast> {
        let read = minute.checked_sub(self.delay)?;
        let question = Question {
            now: self.trace.time(read),
            load: self.trace.load(read)?,
            horizon: self.horizon,
            zone: self.zone,
            model,
        };
        self.history.forecast(&question)
    }

    /// The forecasts of all minutes from `first` on. Each day uses the model that was best in the
    /// week before. NaN if there is no forecast.
    pub(crate) fn forecasts(&self, first: usize) -> Vec<f32> {
        let mut forecasts = vec![f32::NAN; self.trace.len()];
        let mut model = Model::default();
        for minute in first..self.trace.len() {
            if (minute - first).is_multiple_of(MINUTES_PER_DAY) {
                model = self.choose(minute).map_or(model, |choice| choice.model);
            }
            let forecast = self.forecast(minute, model);
            if let Some((forecast, slot)) = forecast.zip(forecasts.get_mut(minute)) {
                *slot = as_f32(forecast.load(self.quantile));
            }
        }
        forecasts
    }

    /// Chooses the model for the time from `end` on. `None` with too few comparisons.
    pub(crate) fn choose(&self, end: usize) -> Option<Choice> {
        let compared = self.compared(end);
        if compared.len() < MIN_COMPARED {
            return None;
        }
        let losses = Model::ALL.map(|model| (model, self.losses(&compared, model)));
        let known = losses.into_iter().filter_map(|(model, losses)| Some((model, losses?)));
        let best = known.min_by(|(_, one), (_, other)| one.quantile.total_cmp(&other.quantile));
        let (model, losses) = best?;
        let changes = sorted_changes(&compared);
        let skill = |quantile, loss: f64| match loss_without_season(&changes, quantile) {
            without_season if without_season > 0.0 => 1.0 - loss / without_season,
            _ => 0.0,
        };
        let skill = skill(0.5, losses.median).max(skill(self.quantile, losses.quantile));
        Some(Choice { model, skill })
    }

    /// The minutes of the decisions to compare, with the load that was read and the actual load at
    /// the forecast time.
    fn compared(&self, end: usize) -> Vec<(usize, f64, f64)> {
        let horizon = crate::autoscaler::minutes(self.horizon);
        let start = end.saturating_sub(COMPARED_DAYS * MINUTES_PER_DAY);
        let minutes = (start..end).step_by(COMPARED_STEP);
        let loads = minutes.filter_map(|minute| {
            let read = minute.checked_sub(self.delay)?;
            let target = Some(read + horizon).filter(|target| *target < end)?;
            Some((minute, self.trace.load(read)?, self.trace.load(target)?))
        });
        loads.collect()
    }

    /// The mean losses. `None` if the model has no forecasts for half of the minutes.
    fn losses(&self, compared: &[(usize, f64, f64)], model: Model) -> Option<Losses> {
        let (mut sums, mut count) = (Losses { quantile: 0.0, median: 0.0 }, 0_usize);
        for (minute, _, actual) in compared {
            if let Some(forecast) = self.forecast(*minute, model) {
                sums.quantile += pinball(self.quantile, actual - forecast.load(self.quantile));
                sums.median += pinball(0.5, actual - forecast.load(0.5));
                count += 1;
            }
        }
        let mean = |sum: f64| sum / count as f64;
        let losses = Losses { quantile: mean(sums.quantile), median: mean(sums.median) };
        (count * 2 >= compared.len()).then_some(losses)
    }
}

/// Mean pinball losses.
#[derive(Clone, Copy, Debug)]
struct Losses {
    quantile: f64,
    median: f64,
}

fn sorted_changes(compared: &[(usize, f64, f64)]) -> Vec<f64> {
    let mut changes: Vec<f64> = compared.iter().map(|(_, read, actual)| actual - read).collect();
    changes.sort_by(f64::total_cmp);
    changes
}

/// The mean loss of the best forecast that adds the same change at all times of day.
fn loss_without_season(changes: &[f64], quantile: f64) -> f64 {
    let index = as_index((quantile * changes.len().saturating_sub(1) as f64).round());
    let change = index.and_then(|index| changes.get(index)).copied().unwrap_or_default();
    let losses = changes.iter().map(|actual| pinball(quantile, actual - change));
    losses.sum::<f64>() / changes.len().max(1) as f64
}

/// The pinball loss, which is minimal for the quantile. For a high quantile, a forecast that is too
/// low costs more than one that is too high.
fn pinball(quantile: f64, error: f64) -> f64 {
    if error >= 0.0 { quantile * error } else { (quantile - 1.0) * error }
}

impl Model {
    /// All models.
    pub const ALL: [Self; 6] = [
        Self { season: Season::Daily, level: Level::Reading },
        Self { season: Season::Workweek, level: Level::Reading },
        Self { season: Season::Weekly, level: Level::Reading },
        Self { season: Season::Daily, level: Level::Smoothed },
        Self { season: Season::Workweek, level: Level::Smoothed },
        Self { season: Season::Weekly, level: Level::Smoothed },
    ];
}
