//! Detects that a runtime no longer runs tasks. Probes have their own thread, so without this check
//! they would still succeed.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval};

const INTERVAL: Duration = Duration::from_secs(1);

/// A runtime that has run no task for this time is stuck, and the probes fail.
const LIMIT: Duration = Duration::from_secs(30);

/// The time at which a runtime last ran a task.
pub(crate) struct Heartbeat {
    last: Mutex<Instant>,
}

impl Heartbeat {
    /// Starts to watch the current runtime, until the heartbeat is dropped.
    pub(crate) fn start() -> Arc<Self> {
        let heartbeat = Arc::new(Self { last: Mutex::new(Instant::now()) });
        let watched = Arc::downgrade(&heartbeat);
        tokio::spawn(async move {
            let mut ticks = interval(INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let Some(heartbeat) = watched.upgrade() else { return };
                *heartbeat.last.lock() = Instant::now();
            }
        });
        heartbeat
    }

    /// Fails if the runtime has run no task for [`LIMIT`].
    pub(crate) fn check(&self) -> Result<(), String> {
        let age = self.last.lock().elapsed();
        if age < LIMIT {
            return Ok(());
        }
        Err(format!("the process has been stuck for {} s", age.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn runtime_that_runs_tasks_is_healthy() {
        let heartbeat = Heartbeat::start();
        sleep(10 * LIMIT).await;
        assert_eq!(heartbeat.check(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn runtime_that_runs_no_task_for_the_limit_is_stuck() {
        let heartbeat = Heartbeat { last: Mutex::new(Instant::now()) };
        advance(Duration::from_secs(29)).await;
        assert_eq!(heartbeat.check(), Ok(()));
        advance(Duration::from_secs(1)).await;
        assert_eq!(heartbeat.check(), Err("the process has been stuck for 30 s".to_owned()));
    }
}
