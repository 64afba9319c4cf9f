//! Early retries of a new autoscaler.

use std::time::Duration;

use tokio::time::Instant;

/// The times of early retries, counted from the first reconcile. If a reconcile of a new autoscaler
/// ends without a decision, it is retried early: its target or pods may be created a moment later.
const RETRY_AFTER: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(5)];

/// The early retries of an autoscaler.
#[derive(Debug, Default)]
pub(super) struct EarlyRetries {
    /// Whether the autoscaler was created while this controller watched, and its early retries
    /// aren't over.
    is_new: bool,
    /// The due time of the first reconcile.
    first_due: Option<Instant>,
    /// Whether the last reconcile ended without a decision.
    is_undecided: bool,
}

/// The next due time of an autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextDue {
    Early(Instant),
    /// A sync period after the last periodic reconcile.
    Periodic(Instant),
}

impl EarlyRetries {
    pub(super) fn for_new() -> Self {
        Self { is_new: true, ..Self::default() }
    }

    pub(super) fn set_undecided(&mut self, is_undecided: bool) {
        self.is_undecided = is_undecided;
    }

    /// The next due time after a reconcile that was due at `due`. Early retries don't shift the
    /// periodic reconciles.
    pub(super) fn next_due(&mut self, due: Instant, period: Duration) -> NextDue {
        if !self.is_new {
            return NextDue::Periodic(due + period);
        }
        let first = *self.first_due.get_or_insert(due);
        let end = first + period;
        let mut retries = RETRY_AFTER.iter().map(|delay| first + *delay);
        let retry = retries.find(|retry| *retry > due && *retry < end);
        if let Some(retry) = retry.filter(|_| self.is_undecided) {
            return NextDue::Early(retry);
        }
        self.is_new = false;
        NextDue::Periodic(if end > due { end } else { due + period })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const PERIOD: u64 = 15;

    /// The seconds at which an autoscaler is due, if its first `failures` reconciles don't decide.
    fn due_times(mut retries: EarlyRetries, failures: usize, period: u64) -> Vec<u64> {
        let start = Instant::now();
        let mut times = vec![0];
        for index in 0..4 {
            let due = start + Duration::from_secs(times[index]);
            retries.set_undecided(index < failures);
            let (NextDue::Early(next) | NextDue::Periodic(next)) =
                retries.next_due(due, Duration::from_secs(period));
            times.push(next.duration_since(start).as_secs());
        }
        times
    }

    #[rstest]
    #[case::none(0, [0, 15, 30, 45, 60])]
    #[case::first(1, [0, 2, 15, 30, 45])]
    #[case::second(2, [0, 2, 5, 15, 30])]
    #[case::all(9, [0, 2, 5, 15, 30])]
    fn new_autoscaler_without_a_decision_is_retried_early(
        #[case] failures: usize,
        #[case] expected: [u64; 5],
    ) {
        assert_eq!(due_times(EarlyRetries::for_new(), failures, PERIOD), expected);
    }

    #[test]
    fn listed_autoscaler_is_not_retried_early() {
        assert_eq!(due_times(EarlyRetries::default(), 9, PERIOD), [0, 15, 30, 45, 60]);
    }

    #[test]
    fn short_period_has_no_early_retry() {
        assert_eq!(due_times(EarlyRetries::for_new(), 9, 2), [0, 2, 4, 6, 8]);
    }
}
