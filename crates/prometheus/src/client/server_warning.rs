//! The warnings of a server about its results.

use std::{borrow::Cow, time::Duration};

use hpa_calc::{explain::one_line, go_text::truncate};
use hpa_metrics::mark_logged_if_due;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::warn;

/// The maximum number of characters of a warning.
const MAX_CHARS: usize = 300;

/// The time for which a warning is recent.
const LIFETIME: Duration = Duration::from_mins(1);

/// The newest warning of a server. A response with one may lack results: Thanos and Mimir warn if
/// they could not read all of their stores.
#[derive(Default)]
pub(super) struct ServerWarning(Mutex<State>);

#[derive(Default)]
struct State {
    newest: Option<(Instant, String)>,
    /// The time of the last log line.
    last_logged: Option<Instant>,
}

impl ServerWarning {
    /// Records the warnings of a response, and logs the first one at most once a minute.
    pub(super) fn record(&self, server: &str, warnings: &[Cow<'_, str>]) {
        let Some(first) = warnings.first() else { return };
        let (now, warning) = (Instant::now(), truncate(one_line(first).into_owned(), MAX_CHARS));
        let is_logged = {
            let mut state = self.0.lock();
            state.newest = Some((now, warning.clone()));
            mark_logged_if_due(&mut state.last_logged, now)
        };
        if is_logged {
            warn!(server, warning, "Prometheus warns of a result, which may lack series");
        }
    }

    /// The newest warning, if it is of the last minute.
    pub(super) fn recent(&self) -> Option<String> {
        let newest = self.0.lock().newest.clone();
        newest.filter(|(at, _)| at.elapsed() < LIFETIME).map(|(_, warning)| warning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn warning_is_recent_for_a_minute() {
        let warning = ServerWarning::default();
        let record = |warnings: &[&str]| {
            let warnings: Vec<_> = warnings.iter().copied().map(Cow::from).collect();
            warning.record("main", &warnings);
            warning.recent()
        };
        assert_eq!(record(&[]), None);
        assert_eq!(record(&["store\na is down", "b"]).as_deref(), Some("store\\na is down"));
        assert_eq!(record(&[]).as_deref(), Some("store\\na is down"), "of another query");
        assert_eq!(
            record(&[&"x".repeat(1000)]).map(|text| text.len()),
            Some(MAX_CHARS + '…'.len_utf8())
        );
        tokio::time::advance(LIFETIME).await;
        assert_eq!(warning.recent(), None);
    }
}
