//! Computes the changes of a schedule's value.

use jiff::{SignedDuration, Timestamp};

use crate::schedules::{ScheduleError, ScheduledMetric, Window, metric::Ramp, sweep::Sweep};

/// The period after now that is searched for a change. It is longer than a week, because repeating
/// entries repeat weekly.
const SEARCH_HORIZON: SignedDuration = SignedDuration::from_hours(9 * 24);

/// The period that is searched first. It needs fewer windows, so the search is cheaper.
const NEAR_HORIZON: SignedDuration = SignedDuration::from_hours(1);

/// The maximum number of searches at distant edges. A schedule may have thousands of entries, and
/// each search evaluates all of them.
const MAX_DISTANT_SEARCHES: usize = 50;

const NANOSECOND: SignedDuration = SignedDuration::from_nanos(1);

/// A change of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The first instant at which the metric has this value.
    pub at: Timestamp,
    pub value: i64,
}

impl ScheduledMetric {
    /// The next change after a time. Searches the nine days after it, and then the nine days after
    /// each later edge of a `OneTime` entry, up to 50 times. `None` if there is no change in these
    /// periods. Nine days include all changes by repeating entries, except those that follow from a
    /// later clock change. Fails if [`Self::value_at`] fails.
    pub fn next_change(&self, now: Timestamp) -> Result<Option<Change>, ScheduleError> {
        let value = self.value_at(now)?;
        let end_of = |horizon| now.saturating_add(horizon).unwrap_or(Timestamp::MAX);
        let near = self.first_change(now, end_of(NEAR_HORIZON));
        let horizon = end_of(SEARCH_HORIZON);
        if let Some(change) = near.or_else(|| self.first_change(now, horizon)) {
            return Ok(Some(change));
        }
        // The horizon includes all changes by repeating entries, but not those by later `OneTime`
        // entries.
        let edges = self.edges_of_value(&self.effective_windows(now, now), value);
        let mut searched_until = horizon;
        for _ in 0..MAX_DISTANT_SEARCHES {
            let Some(edge) = edges.iter().copied().filter(|edge| *edge > searched_until).min()
            else {
                break;
            };
            let from = edge.saturating_sub(NANOSECOND).unwrap_or(Timestamp::MIN);
            searched_until = from.saturating_add(SEARCH_HORIZON).unwrap_or(Timestamp::MAX);
            if let Some(change) = self.first_change(from, searched_until) {
                return Ok(Some(change));
            }
        }
        Ok(None)
    }

    /// The times at which a period with this value may end: a window rises above the value, or a
    /// window that has it falls below it. In the second case, another window may still have the
    /// value.
    fn edges_of_value(&self, windows: &[Window], value: i64) -> Vec<Timestamp> {
        let above = windows.iter().filter(|window| window.value > value);
        let rises = above.filter_map(|window| self.ramp.first_at_least(window, value + 1));
        let holding = windows.iter().filter(|window| value > 0 && window.value >= value);
        rises.chain(holding.map(|window| self.ramp.first_below(window, value))).collect()
    }

    /// The changes after `from` and up to `to`. Invalid entries are left out, and are no error. The
    /// time to compute them is proportional to the number of steps of all ramps in this period.
    pub fn changes(&self, from: Timestamp, to: Timestamp) -> Vec<Change> {
        Sweep::new(self.ramp, self.effective_windows(from, to), from, to).collect()
    }

    /// The first change after `from` and up to `to`. Unlike [`Self::changes`], doesn't search for
    /// steps of windows that can't be the first change.
    fn first_change(&self, from: Timestamp, to: Timestamp) -> Option<Change> {
        let windows = self.effective_windows(from, to);
        self.next_change_in(&windows, from).filter(|change| change.at <= to)
    }

    /// Returns the first change after `now`: either a window exceeds the current value, or the last
    /// window that has this value falls below it. Other windows are skipped, because a schedule may
    /// have thousands of windows.
    pub(crate) fn next_change_in(&self, windows: &[Window], now: Timestamp) -> Option<Change> {
        let (value, ramp) = (self.value_in(windows, now), self.ramp);
        let mut next: Option<Timestamp> = None;
        let starts_before = |window: &Window, end: Option<Timestamp>| {
            end.is_none_or(|end| ramp.extent(window).0 < end)
        };
        for window in windows.iter().filter(|window| window.value > value) {
            if starts_before(window, next)
                && let Some(at) = ramp.first_at_least(window, value + 1).filter(|at| *at > now)
            {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        if value > 0 {
            let has_value = |window: &&Window| {
                window.value >= value && ramp.extent(window).1 > now && starts_before(window, next)
            };
            let periods = windows.iter().filter(has_value).filter_map(|window| {
                Some((ramp.first_at_least(window, value)?, ramp.first_below(window, value)))
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
    pub(crate) fn first_at_least(self, window: &Window, value: i64) -> Option<Timestamp> {
        let is_reached = |at| self.value(window, at) >= value;
        let (from, to) = self.extent(window);
        let at = first_instant(from, window.start.clamp(from, to), is_reached);
        is_reached(at).then_some(at)
    }

    /// The first instant after its end at which a window contributes less than `value`.
    pub(crate) fn first_below(self, window: &Window, value: i64) -> Timestamp {
        let (from, to) = self.extent(window);
        first_instant(window.end.clamp(from, to), to, |at| self.value(window, at) < value)
    }
}

/// The first instant between `from` and `to` at which `accepts` returns true, or else `to`. This is
/// a binary search: once `accepts` returns true, it must do so for all later instants.
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
