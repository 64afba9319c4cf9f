//! The start times of reconciles, distributed over a period.

use std::time::Duration;

use tokio::time::Instant;

/// This many or more autoscalers are distributed over the whole period. Fewer are distributed over
/// a part of it.
const FULL_PERIOD_COUNT: usize = 1000;

/// The number of start times in a period: every 100 ms of 15 s. Autoscalers with the same start
/// time save wake-ups.
const START_TIMES: u32 = 150;

/// The delay of the first reconcile of the autoscaler with this index among `count`. It distributes
/// the new autoscalers of a list, or those of a new leader, over a sync period, so that they don't
/// all send requests at the same time, at the start and in every later period.
pub(crate) fn initial_delay(period: Duration, index: usize, count: usize) -> Duration {
    let count = u32::try_from(count.max(FULL_PERIOD_COUNT)).unwrap_or(u32::MAX);
    let index = u32::try_from(index).unwrap_or(u32::MAX);
    let delay = (period / count).saturating_mul(index);
    let step = (period / START_TIMES).as_nanos().max(1);
    let excess = u64::try_from(delay.as_nanos() % step).unwrap_or_default();
    delay.saturating_sub(Duration::from_nanos(excess))
}

/// The first start time at or after `at`, with the start times counted from `epoch`. For
/// autoscalers with a sync period of their own: such a period begins at the end of a reconcile, so
/// without common start times each autoscaler would need a wake-up and a network packet of its own.
pub(crate) fn next_start_time(at: Instant, epoch: Instant, period: Duration) -> Instant {
    let (count, period) = (u128::from(START_TIMES), period.as_nanos().max(1));
    let index = (at.saturating_duration_since(epoch).as_nanos() * count).div_ceil(period);
    // The step is not rounded: otherwise a period would not be a whole number of steps, and each
    // period would last a step longer.
    u64::try_from(index * period / count).map_or(at, |nanos| epoch + Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(15);

    #[test]
    fn next_start_time_is_rounded_up_to_a_step() {
        let epoch = Instant::now();
        let next = |millis| {
            let at = epoch + Duration::from_millis(millis);
            (next_start_time(at, epoch, PERIOD) - epoch).as_millis()
        };
        assert_eq!([0, 1, 99, 100, 101, 15_050].map(next), [0, 100, 100, 100, 200, 15_100]);
    }

    #[test]
    fn period_is_a_whole_number_of_steps() {
        let (epoch, period) = (Instant::now(), Duration::from_secs(7));
        let first = next_start_time(epoch + Duration::from_millis(10), epoch, period);
        let second = next_start_time(first + period, epoch, period);
        let excess = (second - first).saturating_sub(period);
        assert!(excess <= Duration::from_nanos(1), "{excess:?}");
    }

    #[test]
    fn single_autoscaler_has_no_delay() {
        assert_eq!(initial_delay(PERIOD, 0, 1), Duration::ZERO);
    }

    #[test]
    fn few_autoscalers_start_close_together() {
        assert!(initial_delay(PERIOD, 9, 10) < Duration::from_secs(1));
    }

    #[test]
    fn many_autoscalers_are_distributed_over_the_period() {
        let last = initial_delay(PERIOD, 9_999, 10_000);
        assert!(
            last >= Duration::from_millis(14_900) && last < Duration::from_secs(15),
            "{last:?}"
        );
        assert_eq!(initial_delay(PERIOD, 5_000, 10_000), Duration::from_millis(7_500));
    }
}
