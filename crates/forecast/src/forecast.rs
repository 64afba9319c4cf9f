//! The forecast: the current load plus its changes at this time on past days.

use hpa_calc::LoadForecast;
use jiff::{
    SignedDuration, Timestamp,
    tz::{Offset, TimeZone},
};
use serde::Serialize;

use crate::history::{BUCKET_SECONDS, History, as_f32, as_index};

const DAY: i64 = 86_400;
/// A past day contributes up to three changes: at the same time, a bucket earlier and a bucket
/// later. Daily patterns shift by some minutes from day to day.
const SHIFTS: [i64; 3] = [-BUCKET_SECONDS, 0, BUCKET_SECONDS];
/// The maximum number of past days that a forecast uses. More history has no effect.
pub const HISTORY_DAYS: usize = 14;
const MAX_CHANGES: usize = HISTORY_DAYS * SHIFTS.len();
/// The number of buckets in the half hour before a reading.
const SMOOTHED_BUCKETS: usize = 6;
/// The minimum number of past days for a forecast.
const MIN_DAYS: usize = 2;

/// The past days that a forecast for a day uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Season {
    /// All days.
    #[default]
    Daily,
    /// Monday to Friday for a workday, Saturday and Sunday for the weekend.
    Workweek,
    /// The same day of the week.
    Weekly,
}

impl Season {
    /// Whether a forecast for `day` uses the past day `other`. Days are counted from 1 January
    /// 1970, a Thursday.
    fn uses_past_day(self, day: i64, other: i64) -> bool {
        let is_weekend = |day: i64| (day + 3).rem_euclid(7) >= 5;
        match self {
            Self::Daily => true,
            Self::Workweek => is_weekend(day) == is_weekend(other),
            Self::Weekly => (day - other) % 7 == 0,
        }
    }
}

/// The load to which a forecast adds the change of past days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum LevelKind {
    /// The newest reading.
    #[default]
    Reading,
    /// 70 % of the newest reading and 30 % of the half hour before it, for loads with much noise.
    Smoothed,
}

/// The weight of the newest reading in [`LevelKind::Smoothed`].
const READING_WEIGHT: f64 = 0.7;

/// The choice of past days and of the current load for a forecast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// The past days that the forecast uses.
    pub season: Season,
    /// The load to which the forecast adds the change of past days.
    #[serde(rename = "level")]
    pub level_kind: LevelKind,
}

impl Model {
    /// Each season with each kind of level.
    pub const ALL: [Self; 6] = [
        Self { season: Season::Daily, level_kind: LevelKind::Reading },
        Self { season: Season::Workweek, level_kind: LevelKind::Reading },
        Self { season: Season::Weekly, level_kind: LevelKind::Reading },
        Self { season: Season::Daily, level_kind: LevelKind::Smoothed },
        Self { season: Season::Workweek, level_kind: LevelKind::Smoothed },
        Self { season: Season::Weekly, level_kind: LevelKind::Smoothed },
    ];
}

/// The inputs of a forecast other than the history.
#[derive(Clone, Copy, Debug)]
pub struct ForecastInput<'a> {
    /// The time of the newest reading.
    pub now: Timestamp,
    /// The newest reading, in the unit of the history.
    pub load: f64,
    /// The time from the newest reading to the forecast time.
    pub horizon: SignedDuration,
    /// The time zone for days, weeks and daylight saving time.
    pub zone: &'a TimeZone,
    /// The model, usually the one whose forecasts had the smallest errors in the past week.
    pub model: Model,
}

/// The distribution of the load at a future time.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// The forecast time.
    pub at: Timestamp,
    /// The number of past days that the forecast uses.
    pub days: usize,
    /// The load to which the changes are added.
    level: f64,
    /// The changes of the load on past days, in ascending order.
    changes: Vec<f32>,
}

impl Forecast {
    /// The load that is not exceeded with this probability, from 0 to 1. Never negative.
    pub fn load(&self, quantile: f64) -> f64 {
        (self.level + quantile_of(&self.changes, quantile)).max(0.0)
    }

    /// The forecast at a quantile, as an input of a decision.
    pub fn at_quantile(&self, quantile: f64) -> LoadForecast {
        LoadForecast { at: self.at, load: self.load(quantile), quantile, days: self.days }
    }
}

/// The quantile of sorted values, with linear interpolation. 0 without values.
fn quantile_of(sorted: &[f32], quantile: f64) -> f64 {
    let position = quantile.clamp(0.0, 1.0) * sorted.len().saturating_sub(1) as f64;
    let whole = position.floor();
    let index = as_index(whole).unwrap_or_default();
    let value = |index: usize| sorted.get(index).copied().map(f64::from);
    let low = value(index).unwrap_or_default();
    let high = value(index + 1).unwrap_or(low);
    low + (high - low) * (position - whole)
}

impl History {
    /// Forecasts the load: the current level plus the change over the horizon, as it was at the
    /// same time on the past days of the season.
    ///
    /// The quantiles are those of the past changes. A holiday or growth shifts the forecast at
    /// once, because it starts from the current level. A single unusual day in the past has little
    /// effect.
    ///
    /// `None` if the history has fewer than two days of the season, if the half hour before the
    /// reading is incomplete and the model needs it, if the load is negative or not finite, if the
    /// horizon is negative, or if the forecast time is out of range.
    pub fn forecast(&self, input: &ForecastInput<'_>) -> Option<Forecast> {
        let ForecastInput { now, load, horizon, zone, model } = *input;
        if !load.is_finite() || load < 0.0 || horizon.is_negative() {
            return None;
        }
        let at = now.checked_add(horizon).ok()?;
        let (second, ahead) = (now.as_second(), horizon.as_secs_f64());
        let level = self.level_at(second, load, model.level_kind)?;
        let offset = seconds(zone.to_offset(now));
        let today = (second + offset).div_euclid(DAY);
        let days_before = self.days_before(second);
        // Two clock changes are never within two weeks. If the oldest day has today's offset, all
        // days have it, and none needs a correction.
        let offset_days_ago =
            |days_ago: i64| offset_at(second - days_ago * DAY, zone).unwrap_or(offset);
        let is_changed = offset_days_ago(days_before) != offset;
        let clock_change =
            |days_ago| if is_changed { offset - offset_days_ago(days_ago) } else { 0 };
        let mut changes = Vec::with_capacity(MAX_CHANGES);
        let mut days = 0;
        for days_ago in 1..=days_before {
            if !model.season.uses_past_day(today, today - days_ago) {
                continue;
            }
            let same_time = second - days_ago * DAY + clock_change(days_ago);
            let len_before = changes.len();
            for from in SHIFTS.map(|shift| same_time + shift) {
                let past_load = self.load_at(from as f64);
                let past_level =
                    past_load.and_then(|load| self.level_at(from, load, model.level_kind));
                let later_load = self.load_at(from as f64 + ahead);
                if let (Some(past_level), Some(later_load)) = (past_level, later_load) {
                    changes.push(as_f32(later_load - past_level));
                }
            }
            days += usize::from(changes.len() > len_before);
        }
        changes.sort_unstable_by(f32::total_cmp);
        (days >= MIN_DAYS).then_some(Forecast { at, days, level, changes })
    }

    /// The level for a reading of `load` at `second`.
    pub(crate) fn level_at(&self, second: i64, load: f64, kind: LevelKind) -> Option<f64> {
        match kind {
            LevelKind::Reading => Some(load),
            LevelKind::Smoothed => {
                let mean_before = self.mean_before(second, SMOOTHED_BUCKETS)?;
                Some(READING_WEIGHT * load + (1.0 - READING_WEIGHT) * mean_before)
            }
        }
    }

    /// The number of past days to look at: back to the start of the history, at most
    /// [`HISTORY_DAYS`].
    fn days_before(&self, second: i64) -> i64 {
        let max = i64::try_from(HISTORY_DAYS).unwrap_or(i64::MAX);
        (second.saturating_sub(self.start_second()) / DAY + 1).clamp(0, max)
    }
}

fn offset_at(second: i64, zone: &TimeZone) -> Option<i64> {
    Timestamp::from_second(second).ok().map(|at| seconds(zone.to_offset(at)))
}

fn seconds(offset: Offset) -> i64 {
    offset.seconds().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// A load of 100, and of 300 from 08:00 to 18:00 local time on open days.
    fn history(zone: &TimeZone, days: i64, until: &str, is_open: fn(i64) -> bool) -> History {
        let mut history = History::new(15);
        let end = at(until).as_second();
        for second in ((end - days * DAY)..end).step_by(60) {
            let time = Timestamp::from_second(second).unwrap();
            let local = second + seconds(zone.to_offset(time));
            let hour = local.rem_euclid(DAY) / HOUR;
            let is_busy = (8..18).contains(&hour) && is_open(local.div_euclid(DAY));
            history.add(time, if is_busy { 300.0 } else { 100.0 });
        }
        history
    }

    fn forecast(history: &History, zone: &TimeZone, now: &str, season: Season) -> Option<Forecast> {
        history.forecast(&ForecastInput {
            now: at(now),
            load: 150.0,
            horizon: SignedDuration::from_mins(20),
            zone,
            model: Model { season, level_kind: LevelKind::Reading },
        })
    }

    fn rounded(forecast: Option<Forecast>, quantile: f64) -> Option<f64> {
        forecast.map(|forecast| forecast.load(quantile).round())
    }

    #[test]
    fn change_of_past_days_is_added_to_the_reading() {
        let utc = TimeZone::UTC;
        let history = history(&utc, 14, "2026-01-19T07:50:00Z", |_| true);
        let morning = forecast(&history, &utc, "2026-01-19T07:50:00Z", Season::Daily);
        assert_eq!(morning.as_ref().map(|forecast| forecast.days), Some(14));
        assert_eq!(rounded(morning, 0.5), Some(350.0));
        let night = forecast(&history, &utc, "2026-01-19T04:00:00Z", Season::Daily);
        assert_eq!(rounded(night, 0.95), Some(150.0));
        let evening = forecast(&history, &utc, "2026-01-18T17:50:00Z", Season::Daily);
        assert_eq!(rounded(evening, 0.5), Some(0.0), "never negative");
    }

    #[test]
    fn days_follow_the_time_zone_across_a_clock_change() {
        // Clocks were put forward on 29 March 2026: 08:00 is an hour earlier in UTC.
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let history = history(&berlin, 14, "2026-03-30T05:50:00Z", |_| true);
        let local = forecast(&history, &berlin, "2026-03-30T05:50:00Z", Season::Daily);
        assert_eq!(rounded(local, 0.5), Some(350.0));
        let utc = forecast(&history, &TimeZone::UTC, "2026-03-30T05:50:00Z", Season::Daily);
        assert_eq!(rounded(utc, 0.5), Some(150.0));
    }

    #[test]
    fn season_selects_similar_days() {
        let utc = TimeZone::UTC;
        let is_workday = |day: i64| (day + 3).rem_euclid(7) < 5;
        let history = history(&utc, 15, "2026-01-24T07:50:00Z", is_workday);
        // A Saturday after two weeks.
        let saturday = "2026-01-24T07:50:00Z";
        let on = |season| rounded(forecast(&history, &utc, saturday, season), 0.8);
        assert_eq!(on(Season::Daily), Some(350.0));
        assert_eq!(on(Season::Workweek), Some(150.0));
        assert_eq!(on(Season::Weekly), Some(150.0));
    }

    #[test]
    fn single_unusual_day_does_not_move_the_forecast() {
        let utc = TimeZone::UTC;
        let holiday = at("2026-01-14T00:00:00Z").as_second() / DAY;
        assert_eq!(holiday, 20_467);
        let history = history(&utc, 14, "2026-01-19T07:50:00Z", |day| day != 20_467);
        let morning = forecast(&history, &utc, "2026-01-19T07:50:00Z", Season::Daily);
        assert_eq!(rounded(morning.clone(), 0.2), Some(350.0));
        assert_eq!(rounded(morning, 0.01), Some(150.0));
    }

    #[test]
    fn too_little_history_gives_no_forecast() {
        let utc = TimeZone::UTC;
        let history = history(&utc, 1, "2026-01-19T07:50:00Z", |_| true);
        let morning = "2026-01-19T07:50:00Z";
        assert!(forecast(&history, &utc, morning, Season::Daily).is_none());
        let empty = History::new(15);
        assert!(forecast(&empty, &utc, morning, Season::Daily).is_none());
    }

    #[test]
    fn invalid_or_extreme_inputs_give_no_forecast() {
        let utc = TimeZone::UTC;
        let history = history(&utc, 14, "2026-01-19T07:50:00Z", |_| true);
        let input = |now, load, horizon| ForecastInput {
            now,
            load,
            horizon,
            zone: &utc,
            model: Model::default(),
        };
        let now = at("2026-01-19T07:50:00Z");
        let far = SignedDuration::MAX;
        assert!(history.forecast(&input(now, f64::NAN, SignedDuration::ZERO)).is_none());
        assert!(history.forecast(&input(now, -1.0, SignedDuration::ZERO)).is_none());
        assert!(history.forecast(&input(now, 1.0, SignedDuration::ZERO)).is_some());
        assert!(history.forecast(&input(now, 1.0, SignedDuration::from_secs(-1))).is_none());
        assert!(history.forecast(&input(now, 1.0, far)).is_none());
        let far = input(Timestamp::MAX, 1.0, SignedDuration::ZERO);
        assert!(history.forecast(&far).is_none());
        let early = input(Timestamp::MIN, 1.0, SignedDuration::ZERO);
        assert!(history.forecast(&early).is_none());
    }
}
