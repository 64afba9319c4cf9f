//! Computes all changes of a schedule's value in a period, in one pass over the steps of its
//! windows.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use jiff::Timestamp;

use crate::schedules::{Change, Window, metric::Ramp};

/// The changes of the largest value of some windows, in the order of time.
///
/// Each window has one pending step at most: the next time at which its own value changes. The time
/// of a pass is therefore proportional to the number of steps, however many windows overlap.
pub(crate) struct Sweep {
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
    pub(crate) fn new(ramp: Ramp, windows: Vec<Window>, from: Timestamp, to: Timestamp) -> Self {
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
        let earlier = std::mem::replace(current, value);
        let next = self.ramp.next_step(window, now, value);
        self.remove(earlier);
        if value > 0 {
            *self.counts.entry(value).or_default() += 1;
        }
        if let Some(at) = next.filter(|at| *at <= self.to) {
            self.pending.push(Reverse((at, index)));
        }
    }

    /// Removes the earlier value of a window.
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
        let earlier = self.value();
        loop {
            let Reverse((at, index)) = self.pending.pop()?;
            self.advance(index, at);
            let is_last = self.pending.peek().is_none_or(|Reverse((next, _))| *next > at);
            // The value at a time is known after the last of its steps.
            if is_last && self.value() != earlier {
                return Some(Change { at, value: self.value() });
            }
        }
    }
}

impl Ramp {
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
