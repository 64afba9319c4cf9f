//! Limits the log lines about peers, because each reconcile may find a peer's write.

use hpa_metrics::mark_logged_if_due;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Counts the status writes of all peers between two log lines.
#[derive(Debug, Default)]
pub struct PeerWarnings(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last_logged: Option<Instant>,
    /// The number of writes since the last line.
    write_count: u64,
}

impl PeerWarnings {
    /// Counts a write at `now`. If a line is due, returns the number of writes since the last one,
    /// and starts the next interval.
    pub(super) fn count_write(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        state.write_count += 1;
        let is_due = mark_logged_if_due(&mut state.last_logged, now);
        is_due.then(|| std::mem::take(&mut state.write_count))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn line_is_due_once_a_minute() {
        let (warnings, start) = (PeerWarnings::default(), Instant::now());
        let due = [0, 1, 59, 60, 61, 130]
            .map(|second| warnings.count_write(start + Duration::from_secs(second)));
        assert_eq!(due, [Some(1), None, None, Some(3), None, Some(2)]);
    }
}
