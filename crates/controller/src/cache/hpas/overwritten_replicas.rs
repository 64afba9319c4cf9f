//! Detects that another client changes the target's replicas after each scaling.

use jiff::{SignedDuration, Timestamp};

/// The number of overwritten scalings in a series after which they are reported. Fewer may come
/// from a user who scales by hand.
const REPORT_AFTER: u32 = 3;

/// The number of further overwritten scalings after which they are reported again, because events
/// expire.
const REPORT_AGAIN_AFTER: u32 = 100;

/// The longest time from a scaling to a change of the replicas that overwrites it. A later change
/// has another reason and ends the series. This time without a change also ends it. Deployment
/// tools compare their objects every few minutes.
const MAX_DELAY: SignedDuration = SignedDuration::from_mins(15);

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
}

impl OverwrittenReplicas {
    /// Records that a reconcile has written these replicas.
    pub(crate) fn record_write(&mut self, replicas: i32, now: Timestamp) {
        self.written = Some((replicas, now));
    }

    /// Compares the replicas that a reconcile reads with those that were written last. Returns the
    /// latter if the change is to be reported.
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
        let further = self.overwritten_count.checked_sub(REPORT_AFTER)?;
        (further % REPORT_AGAIN_AFTER == 0).then_some(written)
    }

    /// The number of overwritten scalings in the series. 0 if they are too few to be reported, or
    /// if the last one is long ago.
    pub(crate) fn current_count(&self, now: Timestamp) -> u32 {
        let is_reported = self.is_recent(now) && self.overwritten_count >= REPORT_AFTER;
        if is_reported { self.overwritten_count } else { 0 }
    }

    fn is_recent(&self, now: Timestamp) -> bool {
        self.overwritten_at.is_some_and(|at| now.duration_since(at) <= MAX_DELAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether each of these scalings to 5 is reported, if the next reconcile reads this number.
    fn reported(found: &[i32]) -> Vec<bool> {
        let mut overwritten = OverwrittenReplicas::default();
        let observe = |found: &i32| {
            overwritten.record_write(5, Timestamp::UNIX_EPOCH);
            overwritten.observe(*found, Timestamp::UNIX_EPOCH).is_some()
        };
        found.iter().map(observe).collect()
    }

    #[test]
    fn third_scaling_that_is_overwritten_is_reported_and_later_ones_rarely() {
        let all = reported(&[2; 250]).into_iter().enumerate();
        let numbers: Vec<_> = all.filter(|(_, it)| *it).map(|(index, _)| index + 1).collect();
        assert_eq!(numbers, [3, 103, 203]);
    }

    #[test]
    fn steps_between_the_changes_do_not_end_the_series() {
        assert_eq!(reported(&[2, 5, 2, 5, 2]), [false, false, false, false, true]);
    }

    #[test]
    fn series_ends_after_a_time_without_a_change() {
        let mut overwritten = OverwrittenReplicas::default();
        let mut is_reported_at = |minutes| {
            let now = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes);
            overwritten.record_write(5, now);
            overwritten.observe(2, now).is_some()
        };
        assert_eq!(
            [0, 15, 31, 46, 61].map(&mut is_reported_at),
            [false, false, false, false, true]
        );
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
    fn count_is_current_until_minutes_have_passed() {
        let mut overwritten = OverwrittenReplicas::default();
        let now = Timestamp::UNIX_EPOCH;
        let mut counts = Vec::new();
        for _ in 0..4 {
            overwritten.record_write(5, now);
            overwritten.observe(2, now);
            counts.push(overwritten.current_count(now));
        }
        assert_eq!(counts, [0, 0, 3, 4]);
        let at = |minutes| now + SignedDuration::from_mins(minutes);
        assert_eq!([15, 16].map(|minutes| overwritten.current_count(at(minutes))), [4, 0]);
    }

    #[test]
    fn change_within_minutes_is_counted_and_a_later_one_is_not() {
        assert!(is_reported_after(1) && is_reported_after(15));
        assert!(!is_reported_after(16));
    }
}
