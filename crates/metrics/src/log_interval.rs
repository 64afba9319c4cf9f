//! Limits the rate of a log line.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The minimum time between two log lines.
pub(crate) const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Returns whether to log a line now: a minute after the last one. If so, sets the time of the last
/// line to `now`.
pub fn mark_logged_if_due(last_logged: &mut Option<Instant>, now: Instant) -> bool {
    if last_logged.is_some_and(|logged| now.duration_since(logged) < LOG_INTERVAL) {
        return false;
    }
    *last_logged = Some(now);
    true
}

/// Limits a log line to one a minute.
#[derive(Debug, Default)]
pub struct LogLimit(Mutex<Option<Instant>>);

impl LogLimit {
    /// Returns whether to log the line now, and if so, starts the next minute.
    pub fn try_acquire(&self) -> bool {
        mark_logged_if_due(&mut self.0.lock(), Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn line_is_due_once_a_minute() {
        let limit = LogLimit::default();
        assert!(limit.try_acquire() && !limit.try_acquire());
        tokio::time::advance(LOG_INTERVAL).await;
        assert!(limit.try_acquire() && !limit.try_acquire());
    }
}
