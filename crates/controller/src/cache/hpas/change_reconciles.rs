//! The times of an autoscaler's reconciles for known changes of metrics and bounds.

use std::time::Duration;

use tokio::time::Instant;

/// The minimum time between two reconciles for changes. A schedule may change many times a second,
/// and each reconcile may write a scale and a status.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The reconciles for changes of one autoscaler.
#[derive(Debug, Default)]
pub(crate) struct ChangeReconciles {
    /// The due time of the next one.
    due: Option<Instant>,
    /// The start of the last one.
    last_start: Option<Instant>,
}

impl ChangeReconciles {
    /// Records the start of a reconcile. If one for a change was due, this is it.
    pub(crate) fn record_start(&mut self, start: Instant) {
        if self.due.take().is_some_and(|due| due <= start) {
            self.last_start = Some(start);
        }
    }

    /// Schedules the reconcile for the next change, and returns its due time: the time of the
    /// change, but at least [`MIN_INTERVAL`] after the last reconcile for a change. Further changes
    /// until then need no reconcile of their own.
    pub(crate) fn schedule(&mut self, change: Instant) -> Instant {
        let earliest = self.last_start.map(|last| last + MIN_INTERVAL);
        let due = earliest.map_or(change, |earliest| change.max(earliest));
        self.due = Some(due);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_changes_have_one_reconcile_a_second_and_one_after_the_last() {
        let begin = Instant::now();
        let millis = |millis| begin + Duration::from_millis(millis);
        let changes = (1..=200).map(|index| millis(50 * index));
        let mut reconciles = ChangeReconciles::default();
        let (mut start, mut starts) = (begin, Vec::new());
        while let Some(change) = changes.clone().find(|change| *change > start) {
            start = reconciles.schedule(change);
            starts.push(start);
            reconciles.record_start(start);
        }
        let expected: Vec<_> = (0..=10).map(|second| millis(1000 * second + 50)).collect();
        assert_eq!(starts, expected);
    }

    #[test]
    fn reconcile_for_another_reason_does_not_delay_a_change() {
        let begin = Instant::now();
        let millis = |millis| begin + Duration::from_millis(millis);
        let mut reconciles = ChangeReconciles::default();
        assert_eq!(reconciles.schedule(millis(5000)), millis(5000));
        reconciles.record_start(millis(4900));
        assert_eq!(reconciles.schedule(millis(5000)), millis(5000));
        reconciles.record_start(millis(5000));
        assert_eq!(reconciles.schedule(millis(5200)), millis(6000));
        reconciles.record_start(millis(5500));
        assert_eq!(reconciles.schedule(millis(5700)), millis(6000));
        reconciles.record_start(millis(6000));
        assert_eq!(reconciles.schedule(millis(9000)), millis(9000));
    }
}
