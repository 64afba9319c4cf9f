//! Limits the log lines about peers, because each reconcile may find a peer's write.

use std::time::Duration;

use parking_lot::Mutex;

/// The minimum time between two lines.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Counts the status writes of all peers between two log lines.
#[derive(Debug, Default)]
pub struct PeerWarnings(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last_line: Option<Duration>,
    /// The number of writes since the last line.
    write_count: u64,
}

impl PeerWarnings {
    /// Counts a write at `now` in monotonic time. If a line is due, returns the number of writes
    /// since the last one, and starts the next interval.
    pub(super) fn count_write(&self, now: Duration) -> Option<u64> {
        let mut state = self.0.lock();
        state.write_count += 1;
        if state.last_line.is_some_and(|last| now.saturating_sub(last) < LOG_INTERVAL) {
            return None;
        }
        state.last_line = Some(now);
        Some(std::mem::take(&mut state.write_count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_due_once_a_minute() {
        let warnings = PeerWarnings::default();
        let due =
            [0, 1, 59, 60, 61, 130].map(|second| warnings.count_write(Duration::from_secs(second)));
        assert_eq!(due, [Some(1), None, None, Some(3), None, Some(2)]);
    }
}
