//! The start times of reconciles, distributed over the slots of a period.

use std::time::Duration;

use tokio::time::Instant;

/// Distributes the new autoscalers of a list, or those of a new leader, over a sync period, so that
/// they don't all send requests at the same time, at the start and in every later period.
#[derive(Clone, Copy, Debug)]
pub struct InitialDelay {
    period: Duration,
}

/// This many or more autoscalers are distributed over the whole period. Fewer are distributed over
/// a part of it.
const FULL_PERIOD_COUNT: usize = 1000;

/// The number of start times in a period: every 100 ms of 15 s. Autoscalers with the same start
/// time save wake-ups.
const SLOTS: u32 = 150;

impl InitialDelay {
    pub fn for_period(period: Duration) -> Self {
        Self { period }
    }

    /// The delay of the autoscaler with this index among `count`.
    pub fn delay(self, index: usize, count: usize) -> Duration {
        let count = u32::try_from(count.max(FULL_PERIOD_COUNT)).unwrap_or(u32::MAX);
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let delay = (self.period / count).saturating_mul(index);
        let slot = (self.period / SLOTS).as_nanos().max(1);
        let excess = u64::try_from(delay.as_nanos() % slot).unwrap_or_default();
        delay.saturating_sub(Duration::from_nanos(excess))
    }
}

/// The first slot at or after `at`, with slots counted from `epoch`. For autoscalers with a sync
/// period of their own: such a period begins at the end of a reconcile, so without slots each
/// autoscaler would need a wake-up and a network packet of its own.
pub(crate) fn next_slot(at: Instant, epoch: Instant, period: Duration) -> Instant {
    let (slots, period) = (u128::from(SLOTS), period.as_nanos().max(1));
    let slot = (at.saturating_duration_since(epoch).as_nanos() * slots).div_ceil(period);
    // The length of a slot is not rounded: otherwise a period would not be a whole number of slots,
    // and each period would last a slot longer.
    u64::try_from(slot * period / slots).map_or(at, |nanos| epoch + Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: InitialDelay = InitialDelay { period: Duration::from_secs(15) };

    #[test]
    fn own_periods_end_at_slots() {
        let (epoch, period) = (Instant::now(), Duration::from_secs(15));
        let next = |millis| {
            let at = epoch + Duration::from_millis(millis);
            (next_slot(at, epoch, period) - epoch).as_millis()
        };
        assert_eq!([0, 1, 99, 100, 101, 15_050].map(next), [0, 100, 100, 100, 200, 15_100]);
    }

    #[test]
    fn period_is_a_whole_number_of_slots() {
        let (epoch, period) = (Instant::now(), Duration::from_secs(7));
        let first = next_slot(epoch + Duration::from_millis(10), epoch, period);
        let second = next_slot(first + period, epoch, period);
        let excess = (second - first).saturating_sub(period);
        assert!(excess <= Duration::from_nanos(1), "{excess:?}");
    }

    #[test]
    fn single_autoscaler_has_no_delay() {
        assert_eq!(DELAY.delay(0, 1), Duration::ZERO);
    }

    #[test]
    fn few_autoscalers_start_close_together() {
        assert!(DELAY.delay(9, 10) < Duration::from_secs(1));
    }

    #[test]
    fn many_autoscalers_are_distributed_over_the_period() {
        let last = DELAY.delay(9_999, 10_000);
        assert!(
            last >= Duration::from_millis(14_900) && last < Duration::from_secs(15),
            "{last:?}"
        );
        assert_eq!(DELAY.delay(5_000, 10_000), Duration::from_millis(7_500));
    }
}
