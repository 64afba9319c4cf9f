//! Evaluates a schedule for a period.

use jiff::{SignedDuration, Timestamp};

use crate::schedules::{ScheduleError, ScheduledMetric};

/// The maximum validity of an evaluation. A search for later changes would cost more than another
/// evaluation.
const MAX_VALIDITY: SignedDuration = SignedDuration::from_hours(1);

/// The outcome of a schedule, and the period in which it applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Evaluation {
    pub(crate) value: Result<i64, ScheduleError>,
    /// `status.active`. `None` if the schedule can't be evaluated.
    pub(crate) is_active: Option<bool>,
    since: Timestamp,
    /// The first time after `since` at which the value or the activity may differ.
    until: Timestamp,
    /// The first time after `since` at which the value may differ.
    next_change: Timestamp,
}

impl Evaluation {
    /// Whether the value and the activity apply at a time.
    pub(crate) fn is_valid_at(&self, now: Timestamp) -> bool {
        self.since <= now && now < self.until
    }

    /// The next time at which the value may differ, if the value applies at `now`.
    pub(crate) fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        (self.since <= now && now < self.next_change).then_some(self.next_change)
    }

    /// The time at which the value expired, if that is before or at `now`.
    pub(crate) fn expired_at(&self, now: Timestamp) -> Option<Timestamp> {
        (self.next_change <= now).then_some(self.next_change)
    }
}

impl ScheduledMetric {
    /// Evaluates the schedule at a time, and searches for the next changes within an hour.
    pub(crate) fn evaluate(&self, now: Timestamp) -> Evaluation {
        let horizon = now.saturating_add(MAX_VALIDITY).unwrap_or(Timestamp::MAX);
        // Entries with invalid times are errors only on their days.
        let day_ends = self.entries.iter().filter_map(|entry| entry.end_of_validity(now));
        let horizon = day_ends.fold(horizon, Ord::min);
        if let Err(error) = self.validate_at(now) {
            return Evaluation {
                value: Err(error),
                is_active: None,
                since: now,
                until: horizon,
                next_change: horizon,
            };
        }
        let windows = self.effective_windows(now, horizon);
        let change = self.next_change_in(&windows, now);
        let next_change = change.map_or(horizon, |change| change.min(horizon));
        let extents = || windows.iter().map(|window| self.ramp.extent(window));
        let edges = extents().flat_map(|(rise, fall)| [rise, fall]).filter(|edge| *edge > now);
        Evaluation {
            value: Ok(self.value_in(&windows, now)),
            is_active: Some(extents().any(|(rise, fall)| rise <= now && now < fall)),
            since: now,
            until: edges.fold(next_change, Ord::min),
            next_change,
        }
    }
}
