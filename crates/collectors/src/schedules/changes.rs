//! Computes the changes of a schedule's value.

use jiff::{SignedDuration, Timestamp};

use crate::schedules::{ScheduleError, ScheduledMetric, Window, metric::Ramp};

/// The time that is searched for a change. It is longer than a week, after which repeating entries
/// repeat.
const HORIZON: SignedDuration = SignedDuration::from_hours(9 * 24);

/// The time that is searched first, because it has fewer windows.
const NEAR_HORIZON: SignedDuration = SignedDuration::from_hours(1);

const NANOSECOND: SignedDuration = SignedDuration::from_nanos(1);

/// A change of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The first instant with the value.
    pub at: Timestamp,
    pub value: i64,
}

impl ScheduledMetric {
    /// The next change after a time. `None` if the value doesn't change within nine days, which
    /// covers all repeating entries, and no later `OneTime` entry exists.
    pub fn next_change(&self, now: Timestamp) -> Result<Option<Change>, ScheduleError> {
        self.value_at(now)?;
        let end_of = |horizon| now.saturating_add(horizon).unwrap_or(Timestamp::MAX);
        let near = self.search(now, end_of(NEAR_HORIZON)).next();
        let horizon = end_of(HORIZON);
        if let Some(change) = near.or_else(|| self.search(now, horizon).next()) {
            return Ok(Some(change));
        }
        // After the horizon, only `OneTime` windows are new.
        let windows = self.effective_windows(now, now);
        let edges = windows.iter().flat_map(|window| [self.ramp.around(window).0, window.end]);
        let later = edges.filter(|at| *at >= horizon).min();
        Ok(later.and_then(|at| {
            let from = at.saturating_sub(NANOSECOND).unwrap_or(Timestamp::MIN);
            self.search(from, from.saturating_add(HORIZON).unwrap_or(Timestamp::MAX)).next()
        }))
    }

    /// The changes after `from` and up to `to`, without checking the entries.
    pub fn changes(&self, from: Timestamp, to: Timestamp) -> Vec<Change> {
        self.search(from, to).collect()
    }

    fn search(&self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = Change> {
        let windows = self.effective_windows(from, to);
        let mut now = from;
        std::iter::from_fn(move || {
            let change = self.next_in(&windows, now).filter(|change| change.at <= to)?;
            now = change.at;
            Some(change)
        })
    }

    /// Returns the first change after `now`: either a window exceeds the current value, or the last
    /// window with this value falls below it. Windows that can do neither are skipped, because a
    /// schedule may have thousands of them.
    fn next_in(&self, windows: &[Window], now: Timestamp) -> Option<Change> {
        let (value, ramp) = (self.value_in(windows, now), self.ramp);
        let mut next: Option<Timestamp> = None;
        let starts_before = |window: &Window, end: Option<Timestamp>| {
            end.is_none_or(|end| ramp.around(window).0 < end)
        };
        for window in windows.iter().filter(|window| window.value > value) {
            if starts_before(window, next)
                && let Some(at) = ramp.reaches(window, value + 1).filter(|at| *at > now)
            {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        if value > 0 {
            let has_value = |window: &&Window| {
                window.value >= value && ramp.around(window).1 > now && starts_before(window, next)
            };
            let periods = windows.iter().filter(has_value).filter_map(|window| {
                Some((ramp.reaches(window, value)?, ramp.falls_below(window, value)))
            });
            let mut periods: Vec<_> = periods.collect();
            periods.sort();
            let extend = |end: Timestamp, (from, to): (Timestamp, Timestamp)| {
                if from <= end { end.max(to) } else { end }
            };
            let end = periods.into_iter().fold(now, extend);
            next = Some(next.map_or(end, |next| next.min(end)));
        }
        next.filter(|at| *at > now).map(|at| Change { at, value: self.value_in(windows, at) })
    }
}

impl Ramp {
    /// The first instant at which a window contributes at least `value`.
    fn reaches(self, window: &Window, value: i64) -> Option<Timestamp> {
        let is_reached = |at| self.value(window, at) >= value;
        let at = first_instant(self.around(window).0, window.start, is_reached);
        is_reached(at).then_some(at)
    }

    /// The first instant after its end at which a window contributes less than `value`.
    fn falls_below(self, window: &Window, value: i64) -> Timestamp {
        first_instant(window.end, self.around(window).1, |at| self.value(window, at) < value)
    }
}

/// The first instant between `from` and `to` that `accepts` returns true for, or else `to`. If
/// it returns true for an instant, it must do so for all later ones.
fn first_instant(from: Timestamp, to: Timestamp, accepts: impl Fn(Timestamp) -> bool) -> Timestamp {
    let (mut low, mut high) = (from, to);
    while low < high {
        let middle = low.saturating_add(high.duration_since(low) / 2).unwrap_or(low);
        if accepts(middle) {
            high = middle;
        } else {
            low = middle.saturating_add(NANOSECOND).unwrap_or(high);
        }
    }
    low
}
