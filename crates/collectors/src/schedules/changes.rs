//! Computes the changes of a schedule's value.

use jiff::{SignedDuration, Timestamp};

use crate::schedules::{ScheduleError, ScheduledMetric, Window, metric::Ramp};

/// The searched time. Repeating entries repeat after a week.
const HORIZON: SignedDuration = SignedDuration::from_hours(9 * 24);

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
        let horizon = now.saturating_add(HORIZON).unwrap_or(Timestamp::MAX);
        if let Some(change) = self.search(now, horizon).next() {
            return Ok(Some(change));
        }
        // After the horizon, only `OneTime` windows are new.
        let windows = self.windows(now, now);
        let rises = windows.iter().flat_map(|window| [self.ramp.around(window).0, window.end]);
        let later = rises.filter(|at| *at >= horizon).min();
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
        let windows = self.windows(from, to);
        let mut now = from;
        let mut value = self.value_in(&windows, now);
        std::iter::from_fn(move || {
            loop {
                now = windows.iter().filter_map(|window| self.ramp.next_edge(window, now)).min()?;
                if now > to {
                    return None;
                }
                let next = self.value_in(&windows, now);
                if next != value {
                    value = next;
                    return Some(Change { at: now, value });
                }
            }
        })
    }
}

impl Ramp {
    /// The next instant at which the value of a window can change.
    fn next_edge(self, window: &Window, now: Timestamp) -> Option<Timestamp> {
        let (rise, fall) = self.around(window);
        let step = |base: Timestamp, end: Timestamp| {
            if now < base || now >= end || self.steps == 0 {
                return None;
            }
            let (steps, total) = (i128::from(self.steps), self.duration.as_nanos());
            let elapsed = now.duration_since(base).as_nanos();
            // A step starts at its edge or, where a float is rounded down, right after it.
            let done = elapsed.saturating_mul(steps) / total.max(1);
            let edges = (done..=done + 1).map(|step| (step * total + steps - 1) / steps);
            let edges = edges.flat_map(|edge| [edge, edge + 1]);
            let next = edges.filter(|edge| *edge > elapsed).min()?;
            let next = SignedDuration::from_nanos(i64::try_from(next).ok()?);
            base.checked_add(next).ok().filter(|at| *at < end)
        };
        let edges = [
            Some(rise),
            Some(window.start),
            Some(window.end),
            Some(fall),
            step(rise, window.start),
            step(window.end, fall),
        ];
        edges.into_iter().flatten().filter(|at| *at > now).min()
    }
}
