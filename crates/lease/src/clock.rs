//! The clock for decisions and for the times in the lease. Tests and the demo replace it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Wall-clock and monotonic time, read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instants {
    /// Wall-clock time, for timestamps in objects. It steps when the clock is set.
    pub wall: Timestamp,
    /// Monotonic time since an arbitrary origin, for durations.
    pub monotonic: Duration,
}

impl Instants {
    /// The step of the wall clock since `earlier`. Steps under 1 s are indistinguishable from NTP
    /// slew and returned as 0.
    pub fn wall_clock_step_since(self, earlier: Self) -> SignedDuration {
        let elapsed = self.monotonic.saturating_sub(earlier.monotonic);
        let elapsed = SignedDuration::try_from(elapsed).unwrap_or(SignedDuration::MAX);
        let step = self.wall.duration_since(earlier.wall).saturating_sub(elapsed);
        if step.abs() < SignedDuration::from_secs(1) { SignedDuration::ZERO } else { step }
    }

    /// The time for which the machine may have been suspended since `earlier`: the monotonic clock
    /// stops during a suspension, and the wall clock is set afterwards.
    pub fn suspended_since(self, earlier: Self) -> Duration {
        Duration::try_from(self.wall_clock_step_since(earlier)).unwrap_or_default()
    }
}

/// The time for decisions (windows, policy periods, pod ages) and for the lease: the times in it,
/// and the detection of suspensions. The work queue and the election's deadlines use tokio's time.
pub trait Clock: Send + Sync {
    fn instants(&self) -> Instants;

    /// Wall-clock time.
    fn now(&self) -> Timestamp {
        self.instants().wall
    }
}

/// The clocks of the operating system.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn instants(&self) -> Instants {
        Instants { wall: Timestamp::now(), monotonic: self.origin.elapsed() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_clock_step_is_zero_unless_the_clock_was_set() {
        let before = Instants { wall: Timestamp::UNIX_EPOCH, monotonic: Duration::from_secs(5) };
        let monotonic = before.monotonic + Duration::from_secs(60);
        let at = |seconds| Instants {
            wall: before.wall + SignedDuration::from_secs(seconds),
            monotonic,
        };
        assert_eq!(at(60).wall_clock_step_since(before), SignedDuration::ZERO);
        assert_eq!(at(3660).wall_clock_step_since(before), SignedDuration::from_hours(1));
        assert_eq!(at(-3540).wall_clock_step_since(before), SignedDuration::from_hours(-1));
        assert_eq!(at(3660).suspended_since(before), Duration::from_hours(1));
        assert_eq!(at(-3540).suspended_since(before), Duration::ZERO);
    }
}
