//! Logs when a server can't be read, and when it answers again.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use hpa_metrics::{describe, take_log_slot};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::client::{error::QueryFailure, settings::Settings};

/// Logs the outages of one server: each once, and its end with the number of failed requests. An
/// outage that starts less than a minute after the last logged one is logged if it lasts that long.
#[derive(Default)]
pub(super) struct OutageLog(Mutex<State>);

/// The logs of the servers of this process, by URL.
static LOGS: Mutex<BTreeMap<String, Weak<OutageLog>>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct State {
    /// The time of the last failure.
    failed_at: Option<Instant>,
    /// The time of the last response.
    responded_at: Option<Instant>,
    /// The number of failed requests of the current outage. 0 if there is none.
    failed: u64,
    /// Whether the current outage was logged.
    is_logged: bool,
    /// The time of the last log line about an outage.
    last_logged: Option<Instant>,
}

impl OutageLog {
    /// The log of a server. All clients of its URL share it, because its outage is one.
    pub(super) fn of_server(url: &str) -> Arc<Self> {
        let mut logs = LOGS.lock();
        logs.retain(|_, log| log.strong_count() > 0);
        if let Some(log) = logs.get(url).and_then(Weak::upgrade) {
            return log;
        }
        let log = Arc::default();
        logs.insert(url.to_owned(), Arc::downgrade(&log));
        log
    }

    /// Records the end of a request that was sent at `start`.
    pub(super) fn record(
        &self,
        settings: &Settings,
        start: Instant,
        failure: Option<&QueryFailure>,
    ) {
        let (server, now) = (&settings.name, Instant::now());
        match failure {
            // Limits of this client: the request was not sent, or its response not read.
            Some(QueryFailure::Busy(_) | QueryFailure::BusyReading(_)) => {}
            Some(failure) if is_outage(failure) => {
                if self.0.lock().record_failure(start, now) {
                    let (url, error) = (settings.url_without_credentials(), describe(failure));
                    warn!(server, url, error, "Prometheus can't be read, retrying");
                }
            }
            _ => {
                // Releases the lock before the line is written.
                let ended = self.0.lock().record_response(start, now);
                if let Some(failed_requests) = ended {
                    let url = settings.url_without_credentials();
                    info!(server, url, failed_requests, "Prometheus answers again");
                }
            }
        }
    }

    /// Whether the warning about the current outage was logged.
    pub(super) fn is_logged(&self) -> bool {
        self.0.lock().is_logged
    }
}

/// Whether a failure is one of the server or of the way to it, so that all requests may fail. 500
/// may be about the query, and a server that refuses one path (401 or 403) or responds slowly may
/// answer others.
fn is_outage(failure: &QueryFailure) -> bool {
    matches!(
        failure,
        QueryFailure::Connection(_)
            | QueryFailure::Request { .. }
            | QueryFailure::Timeout { .. }
            | QueryFailure::Status { status: 502..=504, .. }
    )
}

impl State {
    /// Records the failure of a request that was sent at `start`. If other requests got responses
    /// since then, there is no outage. Returns whether to log one.
    fn record_failure(&mut self, start: Instant, now: Instant) -> bool {
        self.failed_at = Some(now);
        if self.responded_at.is_some_and(|at| at > start) {
            return false;
        }
        self.failed += 1;
        let is_due = !self.is_logged && take_log_slot(&mut self.last_logged, now);
        self.is_logged |= is_due;
        is_due
    }

    /// Records the response to a request that was sent at `start`. Returns the number of failed
    /// requests if the end of an outage is to be logged. While other requests fail, a response to
    /// an earlier one doesn't end the outage: the server may answer too slowly for most.
    fn record_response(&mut self, start: Instant, now: Instant) -> Option<u64> {
        self.responded_at = Some(now);
        if self.failed_at.is_some_and(|at| at > start) {
            return None;
        }
        let failed = std::mem::take(&mut self.failed);
        std::mem::take(&mut self.is_logged).then_some(failed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn clients_of_one_server_share_its_log() {
        let log = OutageLog::of_server("http://shared:9090");
        assert!(Arc::ptr_eq(&log, &OutageLog::of_server("http://shared:9090")));
        assert!(!Arc::ptr_eq(&log, &OutageLog::of_server("http://other:9090")));
    }

    #[test]
    fn outage_and_its_end_are_logged_once() {
        let (mut state, start) = (State::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(state.record_response(at(0), at(0)), None, "nothing failed");
        assert!(state.record_failure(at(1), at(2)));
        assert!(!state.record_failure(at(90), at(91)), "it was logged");
        assert_eq!(state.record_response(at(92), at(92)), Some(2));
        assert_eq!(state.record_response(at(93), at(93)), None);
        assert!(state.record_failure(at(94), at(95)));
        assert_eq!(state.record_response(at(96), at(96)), Some(1));
        assert!(!state.record_failure(at(97), at(98)), "less than a minute after the last one");
        assert!(state.record_failure(at(155), at(156)), "it lasts");
        assert_eq!(state.record_response(at(150), at(157)), None, "a request since then failed");
        assert_eq!(state.record_response(at(157), at(157)), Some(2));
    }

    #[test]
    fn failed_request_beside_others_with_a_response_is_no_outage() {
        let (mut state, start) = (State::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(state.record_response(at(5), at(5)), None);
        assert!(!state.record_failure(at(0), at(10)));
        assert_eq!((state.failed, state.record_response(at(11), at(11))), (0, None));
    }

    #[test]
    fn only_failures_to_reach_the_server_are_an_outage() {
        let (log, limit) = (OutageLog::default(), Duration::from_secs(30));
        let settings = Settings::new("main", "http://main").unwrap();
        let is_outage_after = |failure: Option<QueryFailure>| {
            log.record(&settings, Instant::now(), failure.as_ref());
            log.0.lock().failed > 0
        };
        let server: Arc<str> = "main:80".into();
        let status = |status| QueryFailure::Status {
            server: server.clone(),
            status,
            reported: String::new(),
            hint: String::new(),
        };
        assert!(!is_outage_after(Some(QueryFailure::Busy(limit))));
        assert!(is_outage_after(Some(status(503))));
        assert!(is_outage_after(Some(QueryFailure::Busy(limit))), "nothing was sent");
        assert!(!is_outage_after(Some(status(500))), "it may be about the query");
        assert!(is_outage_after(Some(QueryFailure::Timeout { server: server.clone(), limit })));
        assert!(!is_outage_after(Some(status(403))), "it answers");
        assert!(is_outage_after(Some(status(502))));
        let slow = QueryFailure::SlowResponse { server: server.clone(), limit };
        assert!(!is_outage_after(Some(slow)), "it answers");
        assert!(is_outage_after(Some(status(504))));
        assert!(!is_outage_after(None));
    }

    #[test]
    fn outage_without_a_log_line_is_not_logged() {
        let (log, settings) = (OutageLog::default(), Settings::new("main", "http://main").unwrap());
        let limit = Duration::from_secs(30);
        let failure = QueryFailure::Timeout { server: "main:80".into(), limit };
        let is_logged_after = |failure: Option<&QueryFailure>| {
            log.record(&settings, Instant::now(), failure);
            log.is_logged()
        };
        assert!(is_logged_after(Some(&failure)));
        assert!(!is_logged_after(None));
        assert!(!is_logged_after(Some(&failure)), "less than a minute after the last line");
    }
}
