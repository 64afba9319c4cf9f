//! Detects that another client changes the target's replicas after each scaling.

use hpa_calc::report::OverwrittenScalings;
use jiff::{SignedDuration, Timestamp};

use crate::k8s::is_clearly_after;

/// The number of overwritten scalings in a series after which they are reported. Fewer may come
/// from a user who scales by hand.
const MIN_OVERWRITTEN_SCALINGS: u32 = 3;

/// The time after which the next overwritten scaling is reported again, because events expire.
/// After a burst, the event writer accepts one event of an object in this time.
const REPORT_AGAIN_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// The longest time from a scaling to a change of the replicas that overwrites it. A later change
/// has another reason and ends the series. This time without a change also ends it. Deployment
/// tools compare their objects every few minutes.
const MAX_DELAY: SignedDuration = SignedDuration::from_mins(15);

/// The longest time between two reports of a series. An older report is about a series that has
/// ended.
const MAX_REPORT_AGE: SignedDuration = SignedDuration::from_mins(20);

/// The overwritten scalings of a series, from an event that was last reported at `reported_at`. An
/// event doesn't contain their number, so the count is the smallest that is reported. `None` if the
/// series has ended, or if the time is [in the future](is_clearly_after): users can forge events.
pub fn overwritten_by_event(reported_at: Timestamp, now: Timestamp) -> Option<OverwrittenScalings> {
    let is_current =
        now.duration_since(reported_at) <= MAX_REPORT_AGE && !is_clearly_after(reported_at, now);
    let seen_at = Some(reported_at);
    is_current.then_some(OverwrittenScalings { count: MIN_OVERWRITTEN_SCALINGS, seen_at })
}

/// A series of scalings of a target that another client has overwritten. Scalings that last don't
/// end it: between two resets, the replicas may rise in several steps.
#[derive(Debug, Default)]
pub(crate) struct OverwrittenReplicas {
    /// The replicas that a reconcile wrote last, with the time, until another client changes them.
    written: Option<(i32, Timestamp)>,
    /// The number of overwritten scalings in the series.
    overwritten_count: u32,
    /// The time at which the last change by another client was read.
    overwritten_at: Option<Timestamp>,
    /// The time of the last report.
    reported_at: Option<Timestamp>,
}

impl OverwrittenReplicas {
    /// Records that a reconcile has written these replicas.
    pub(crate) fn record_write(&mut self, replicas: i32, now: Timestamp) {
        self.written = Some((replicas, now));
    }

    /// Compares the replicas that a reconcile reads with those that were written last. Returns the
    /// written ones if the change must be reported.
    pub(crate) fn observe(&mut self, replicas: i32, now: Timestamp) -> Option<i32> {
        let (written, at) = self.written.filter(|(written, _)| *written != replicas)?;
        self.written = None;
        if now.duration_since(at) > MAX_DELAY {
            self.overwritten_count = 0;
            return None;
        }
        if !self.is_recent(now) {
            self.overwritten_count = 0;
        }
        self.overwritten_count = self.overwritten_count.saturating_add(1);
        self.overwritten_at = Some(now);
        // After a clock that was ahead is set back, the last report seems to be in the future.
        let is_old = |at| now.duration_since(at).abs() >= REPORT_AGAIN_AFTER;
        let is_due = self.reported_at.is_none_or(is_old);
        if self.overwritten_count < MIN_OVERWRITTEN_SCALINGS || !is_due {
            return None;
        }
        self.reported_at = Some(now);
        Some(written)
    }

    /// The overwritten scalings in the series. `None` if they are too few to be reported, or if the
    /// last one is long ago.
    pub(crate) fn current(&self, now: Timestamp) -> Option<OverwrittenScalings> {
        let is_reported = self.is_recent(now) && self.overwritten_count >= MIN_OVERWRITTEN_SCALINGS;
        let (count, seen_at) = (self.overwritten_count, self.overwritten_at);
        is_reported.then_some(OverwrittenScalings { count, seen_at })
    }

    fn is_recent(&self, now: Timestamp) -> bool {
        self.overwritten_at.is_some_and(|at| now.duration_since(at) <= MAX_DELAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the reported scalings to 5, if they are `seconds` apart and the reconciles
    /// after them read these replicas.
    fn reported(seconds: i64, found: &[i32]) -> Vec<usize> {
        let mut overwritten = OverwrittenReplicas::default();
        let mut now = Timestamp::UNIX_EPOCH;
        let mut is_reported = |found: i32| {
            now += SignedDuration::from_secs(seconds);
            overwritten.record_write(5, now);
            overwritten.observe(found, now).is_some()
        };
        let reported = (1..).zip(found).filter(|(_, found)| is_reported(**found));
        reported.map(|(number, _)| number).collect()
    }

    #[test]
    fn third_overwritten_scaling_is_reported_and_then_one_in_five_minutes() {
        assert_eq!(reported(15, &[2; 50]), [3, 23, 43]);
        assert_eq!(reported(14 * 60, &[2; 6]), [3, 4, 5, 6]);
        assert!(MAX_REPORT_AGE >= REPORT_AGAIN_AFTER + MAX_DELAY);
    }

    /// Whether each scaling is reported, if they are overwritten at these times.
    fn reported_at(times: [SignedDuration; 5]) -> [bool; 5] {
        let mut overwritten = OverwrittenReplicas::default();
        times.map(|time| {
            let now = Timestamp::UNIX_EPOCH + time;
            overwritten.record_write(5, now);
            overwritten.observe(2, now).is_some()
        })
    }

    #[test]
    fn scalings_are_reported_again_after_the_clock_is_set_back() {
        let reported = reported_at([9, 9, 9, 9, 1].map(SignedDuration::from_hours));
        assert_eq!(reported, [false, false, true, false, true]);
    }

    #[test]
    fn steps_between_the_changes_do_not_end_the_series() {
        assert_eq!(reported(0, &[2, 5, 2, 5, 2]), [5]);
    }

    #[test]
    fn series_ends_after_a_time_without_a_change() {
        let reported = reported_at([0, 15, 31, 46, 61].map(SignedDuration::from_mins));
        assert_eq!(reported, [false, false, false, false, true]);
    }

    /// Whether the third scaling is reported, if each is changed after this number of minutes.
    fn is_reported_after(minutes: i64) -> bool {
        let mut overwritten = OverwrittenReplicas::default();
        let mut now = Timestamp::UNIX_EPOCH;
        let mut observe = || {
            overwritten.record_write(5, now);
            let still = overwritten.observe(5, now);
            now += SignedDuration::from_mins(minutes);
            // A further change by the other client counts once.
            still.or(overwritten.observe(2, now)).or(overwritten.observe(3, now)).is_some()
        };
        [observe(), observe(), observe()] == [false, false, true]
    }

    #[test]
    fn count_is_current_for_15_minutes() {
        let mut overwritten = OverwrittenReplicas::default();
        let now = Timestamp::UNIX_EPOCH;
        let mut counts = Vec::new();
        for _ in 0..4 {
            overwritten.record_write(5, now);
            overwritten.observe(2, now);
            counts.push(overwritten.current(now).map(|current| current.count));
        }
        assert_eq!(counts, [None, None, Some(3), Some(4)]);
        let at = |minutes| now + SignedDuration::from_mins(minutes);
        let current = OverwrittenScalings { count: 4, seen_at: Some(now) };
        let expected = [Some(current), None];
        assert_eq!([15, 16].map(|minutes| overwritten.current(at(minutes))), expected);
    }

    #[test]
    fn change_within_15_minutes_is_counted_and_a_later_one_is_not() {
        assert!(is_reported_after(1) && is_reported_after(15));
        assert!(!is_reported_after(16));
    }
}
