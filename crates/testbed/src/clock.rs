//! Wall clocks of the server, such as [`SimulatedClock`], which runs at a multiple of tokio's time,
//! and the format of times in the API.

use std::{sync::Arc, time::Duration};

use hpa_simulate::workload::seconds::whole_second;
use jiff::{SignedDuration, Timestamp};
use tokio::{sync::watch, time::Instant};

/// A wall clock.
pub(crate) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The maximum duration of one sleep. A stopped clock would need an infinite one.
const MAX_SLEEP: Duration = Duration::from_hours(24);
/// The minimum duration of one sleep. A wait for the last nanoseconds of simulated time may round
/// to 0, which would never end while tokio's time is paused.
const MIN_SLEEP: Duration = Duration::from_millis(1);

/// Simulated time at a multiple of tokio's time, which tests may pause. Clones share one clock.
#[derive(Clone, Debug)]
pub struct SimulatedClock {
    /// A change wakes sleeping tasks.
    anchor: watch::Sender<Anchor>,
}

/// The last change of the speed: its real and simulated time, and the speed since then.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    real: Instant,
    simulated: Timestamp,
    speed: f64,
}

impl Anchor {
    fn at(&self, real: Instant) -> Timestamp {
        let elapsed = real.saturating_duration_since(self.real).as_secs_f64() * self.speed;
        let span = SignedDuration::try_from_secs_f64(elapsed).unwrap_or(SignedDuration::MAX);
        self.simulated.checked_add(span).unwrap_or(Timestamp::MAX)
    }
}

impl SimulatedClock {
    /// A clock at `start` that runs `speed` times as fast as tokio's time.
    pub fn new(start: Timestamp, speed: f64) -> Self {
        let (real, speed) = (Instant::now(), speed_or_stopped(speed));
        Self { anchor: watch::Sender::new(Anchor { real, simulated: start, speed }) }
    }

    /// The simulated time.
    pub fn now(&self) -> Timestamp {
        self.anchor.borrow().at(Instant::now())
    }

    /// Simulated seconds per second of tokio's time. 0 if the clock is stopped.
    pub fn speed(&self) -> f64 {
        self.anchor.borrow().speed
    }

    /// Changes the speed. A speed that isn't positive and finite stops the clock.
    pub fn set_speed(&self, speed: f64) {
        self.anchor.send_modify(|anchor| {
            let real = Instant::now();
            *anchor = Anchor { real, simulated: anchor.at(real), speed: speed_or_stopped(speed) };
        });
    }

    /// The clock as a function, for [`Config::clock`](crate::Config).
    pub fn as_fn(&self) -> Clock {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }

    /// Waits until the simulated `time`. The speed may change during the wait.
    pub async fn sleep_until(&self, time: Timestamp) {
        let mut anchor = self.anchor.subscribe();
        loop {
            let (now, speed) = (self.now(), self.speed());
            if now >= time {
                return;
            }
            let seconds = time.duration_since(now).as_secs_f64() / speed;
            let wait = Duration::try_from_secs_f64(seconds).unwrap_or(MAX_SLEEP);
            let wait = wait.clamp(MIN_SLEEP, MAX_SLEEP);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = anchor.changed() => {}
            }
        }
    }

    /// Waits for a number of simulated seconds.
    pub async fn sleep(&self, seconds: f64) {
        let span = SignedDuration::try_from_secs_f64(seconds).unwrap_or(SignedDuration::ZERO);
        self.sleep_until(self.now().checked_add(span).unwrap_or(Timestamp::MAX)).await;
    }
}

/// Formats a time in RFC 3339, truncated to seconds as in `metav1.Time`.
pub(crate) fn format_time(time: Timestamp) -> String {
    whole_second(time).to_string()
}

fn speed_or_stopped(speed: f64) -> f64 {
    if speed.is_finite() && speed > 0.0 { speed } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn sleep_that_rounds_to_zero_ends() {
        let clock = SimulatedClock::new(Timestamp::UNIX_EPOCH, 1000.0);
        let time = Timestamp::UNIX_EPOCH + SignedDuration::from_nanos(1);
        clock.sleep_until(time).await;
        assert!(clock.now() >= time);
    }
}
