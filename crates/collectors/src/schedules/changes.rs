//! Computes the changes of a schedule's value.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use jiff::{SignedDuration, Timestamp};

use crate::schedules::{ScheduledMetric, Window, metric::Ramp};

const NANOSECOND: SignedDuration = SignedDuration::from_nanos(1);

/// A change of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The first instant at which the metric has this value.
    pub at: Timestamp,
    pub value: i64,
}

impl ScheduledMetric {
    /// The changes after `from` and up to `to`. Invalid entries are left out, and are no error. The
    /// time to compute them is proportional to the number of steps of all ramps in this period.
    pub fn changes(&self, from: Timestamp, to: Timestamp) -> Vec<Change> {
        Sweep::new(self.ramp, self.effective_windows(from, to), from, to).collect()
    }

    /// The time of the first change after `now`: either a window exceeds the current value, or the
    /// last window that has this value falls below it. Other windows are skipped, because a
    /// schedule may have thousands of windows.
    pub(crate) fn next_change_in(&self, windows: &[Window], now: Timestamp) -> Option<Timestamp> {
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
            // The periods in which a window contributes at least the current value. The value falls
            // at the end of those that overlap from `now` on.
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
        next.filter(|at| *at > now)
    }
}

/// The changes of the largest value of some windows, in the order of time.
///
/// Each window has one pending step at most: the next time at which its own value changes. The time
/// to find all changes is therefore proportional to the number of steps, however many windows
/// overlap.
struct Sweep {
    ramp: Ramp,
    /// The end of the period. A change at this time is included.
    to: Timestamp,
    /// The windows, each with its current value.
    windows: Vec<(Window, i64)>,
    /// The times of the next steps, each with the index of its window.
    pending: BinaryHeap<Reverse<(Timestamp, usize)>>,
    /// The numbers of windows by their current values. Values up to 0 are left out, because the
    /// value of a schedule is at least 0.
    counts: BTreeMap<i64, usize>,
}

impl Sweep {
    /// `windows` must contain all windows that can affect the value from `from` to `to`.
    fn new(ramp: Ramp, windows: Vec<Window>, from: Timestamp, to: Timestamp) -> Self {
        let windows: Vec<_> = windows.into_iter().map(|window| (window, 0)).collect();
        let (pending, counts) = (BinaryHeap::new(), BTreeMap::new());
        let mut sweep = Self { ramp, to, windows, pending, counts };
        for index in 0..sweep.windows.len() {
            sweep.advance(index, from);
        }
        sweep
    }

    fn value(&self) -> i64 {
        self.counts.last_key_value().map_or(0, |(value, _)| *value)
    }

    /// Sets the current value of a window to the one at `now`, and finds its next step.
    fn advance(&mut self, index: usize, now: Timestamp) {
        let Some((window, current)) = self.windows.get_mut(index) else { return };
        let value = self.ramp.value(window, now);
        let previous = std::mem::replace(current, value);
        let next = self.ramp.next_step(window, now, value);
        self.remove(previous);
        if value > 0 {
            *self.counts.entry(value).or_default() += 1;
        }
        if let Some(at) = next.filter(|at| *at <= self.to) {
            self.pending.push(Reverse((at, index)));
        }
    }

    /// Removes the previous value of a window from the counts.
    fn remove(&mut self, value: i64) {
        if let Some(count) = self.counts.get_mut(&value) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&value);
            }
        }
    }
}

impl Iterator for Sweep {
    type Item = Change;

    fn next(&mut self) -> Option<Change> {
        let previous = self.value();
        loop {
            let Reverse((at, index)) = self.pending.pop()?;
            self.advance(index, at);
            let is_last = self.pending.peek().is_none_or(|Reverse((next, _))| *next > at);
            // The value at a time is known after the last of its steps.
            if is_last && self.value() != previous {
                return Some(Change { at, value: self.value() });
            }
        }
    }
}

impl Ramp {
    /// The first instant at which a window contributes at least `value`.
    fn first_at_least(self, window: &Window, value: i64) -> Option<Timestamp> {
        let is_reached = |at| self.value(window, at) >= value;
        let (from, to) = self.extent(window);
        let at = first_instant(from, window.start.clamp(from, to), is_reached);
        is_reached(at).then_some(at)
    }

    /// The first instant after its end at which a window contributes less than `value`.
    fn first_below(self, window: &Window, value: i64) -> Timestamp {
        let (from, to) = self.extent(window);
        first_instant(window.end.clamp(from, to), to, |at| self.value(window, at) < value)
    }

    /// The first time after `now` at which the value of a window isn't `value`, its value at `now`.
    fn next_step(self, window: &Window, now: Timestamp, value: i64) -> Option<Timestamp> {
        let (rise, _) = self.extent(window);
        let may_rise = now < window.start.max(rise) && value < window.value;
        let risen = may_rise.then(|| self.first_at_least(window, value.max(0) + 1)).flatten();
        if let Some(at) = risen.filter(|at| *at > now) {
            return Some(at);
        }
        (value > 0).then(|| self.first_below(window, value)).filter(|at| *at > now)
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
