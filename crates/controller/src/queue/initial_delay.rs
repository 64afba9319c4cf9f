//! When each autoscaler is reconciled first.

use std::time::Duration;

/// How the autoscalers found at start are spread over a sync period, so that they do not ask the APIs all at once
/// then, nor ever after.
#[derive(Clone, Copy, Debug)]
pub struct InitialDelay {
    period: Duration,
}

/// So many autoscalers take a whole period to be begun with; fewer of them take less.
const SPREAD_OVER_PERIOD: usize = 1000;

/// At how many moments of a period autoscalers are begun with: every 100 ms of 15 s.
const SLOTS: u32 = 150;

impl InitialDelay {
    /// Spreads over this period.
    pub fn for_period(period: Duration) -> Self {
        Self { period }
    }

    /// When, after the start, the autoscaler of this index of so many is reconciled first. Those that are close to each
    /// other come together: it saves waking up for each of them, and for each of their answers.
    pub fn delay(self, index: usize, count: usize) -> Duration {
        let slots = u32::try_from(count.max(SPREAD_OVER_PERIOD)).unwrap_or(u32::MAX);
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let at = (self.period / slots).saturating_mul(index);
        let slot = (self.period / SLOTS).as_nanos().max(1);
        at.saturating_sub(Duration::from_nanos(
            u64::try_from(at.as_nanos() % slot).unwrap_or_default(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_autoscaler_is_not_kept_waiting() {
        assert_eq!(InitialDelay::for_period(Duration::from_secs(15)).delay(0, 1), Duration::ZERO);
    }

    #[test]
    fn few_autoscalers_start_close_together() {
        assert!(
            InitialDelay::for_period(Duration::from_secs(15)).delay(9, 10) < Duration::from_secs(1)
        );
    }

    #[test]
    fn many_autoscalers_fill_the_period_evenly() {
        let spread = InitialDelay::for_period(Duration::from_secs(15));
        let last = spread.delay(9_999, 10_000);
        assert!(
            last >= Duration::from_millis(14_900) && last < Duration::from_secs(15),
            "{last:?}"
        );
        assert_eq!(spread.delay(5_000, 10_000), Duration::from_millis(7_500));
    }
}
