//! Limits log lines that everybody can cause.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How often such a line is logged as a warning.
const INTERVAL: Duration = Duration::from_secs(10);

/// When a line was logged last.
#[derive(Debug, Default)]
pub struct LogLimit(Mutex<Option<Instant>>);

impl LogLimit {
    /// Whether to log the line now.
    pub fn is_due(&self) -> bool {
        let now = Instant::now();
        let mut last = self.0.lock();
        let is_due = last.is_none_or(|last| now >= last + INTERVAL);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn line_is_due_once_in_an_interval() {
        let limit = LogLimit::default();
        assert!(limit.is_due() && !limit.is_due());
        tokio::time::advance(INTERVAL).await;
        assert!(limit.is_due() && !limit.is_due());
    }
}
