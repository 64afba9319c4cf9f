//! Limits the rate of a log line.

use std::time::Duration;

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
