//! Logs when a server can't be read, and when it answers again.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use hpa_metrics::describe;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::client::{error::QueryFailure, settings::Settings};

/// The time without a failure after which a response ends an outage. It prevents a line for each
/// request if only some fail, for example those of one of the clients.
const RECOVERY_TIME: Duration = Duration::from_mins(1);

/// Logs the outages of one server: the first failure of each, and its end with the number of failed
/// requests.
#[derive(Default)]
pub(super) struct OutageLog(Mutex<State>);

/// The logs of the servers of this process, by URL.
static LOGS: Mutex<BTreeMap<String, Weak<OutageLog>>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct State {
    /// The time of the last response.
    responded_at: Option<Instant>,
    outage: Option<Outage>,
}

struct Outage {
    failed_requests: u64,
    last_failure: Instant,
}

impl OutageLog {
    /// The log of a server. All clients of its URL share it, and log an outage once.
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
                let ended = self.0.lock().record_response(now);
                if let Some(Outage { failed_requests, last_failure }) = ended {
                    let url = settings.url_without_credentials();
                    let last_failure_seconds_ago = now.duration_since(last_failure).as_secs();
                    info!(
                        server,
                        url, failed_requests, last_failure_seconds_ago, "Prometheus answers again"
                    );
                }
            }
        }
    }

    /// Whether a failure is part of the current outage, which was logged.
    pub(super) fn has_logged(&self, failure: &QueryFailure) -> bool {
        is_outage(failure) && self.0.lock().outage.is_some()
    }
}

/// Whether a failure means that the server can't be reached. Other failures may concern only one
/// request: 500 may be about the query, and a server that refuses one path (401 or 403) or responds
/// slowly may answer others.
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
    /// Records the failure of a request that was sent at `start`. Returns whether an outage begins.
    /// None begins if other requests got responses since `start`.
    fn record_failure(&mut self, start: Instant, now: Instant) -> bool {
        if let Some(outage) = &mut self.outage {
            outage.failed_requests += 1;
            outage.last_failure = now;
            return false;
        }
        if self.responded_at.is_some_and(|at| at > start) {
            return false;
        }
        self.outage = Some(Outage { failed_requests: 1, last_failure: now });
        true
    }

    /// Records a response. Returns the outage that it ends.
    fn record_response(&mut self, now: Instant) -> Option<Outage> {
        self.responded_at = Some(now);
        self.outage.take_if(|outage| now.duration_since(outage.last_failure) >= RECOVERY_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_one_server_share_its_log() {
        let log = OutageLog::of_server("http://shared:9090");
        assert!(Arc::ptr_eq(&log, &OutageLog::of_server("http://shared:9090")));
        assert!(!Arc::ptr_eq(&log, &OutageLog::of_server("http://other:9090")));
    }

    #[test]
    fn outage_begins_with_a_failure_and_ends_after_a_minute_without_one() {
        let (mut state, start) = (State::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let respond = |state: &mut State, seconds| {
            state.record_response(at(seconds)).map(|outage| outage.failed_requests)
        };
        assert_eq!(respond(&mut state, 0), None, "nothing failed");
        assert!(state.record_failure(at(1), at(2)));
        assert!(!state.record_failure(at(3), at(4)), "it was logged");
        assert_eq!(respond(&mut state, 5), None, "another client may still fail");
        assert!(!state.record_failure(at(6), at(7)));
        assert_eq!(respond(&mut state, 66), None);
        assert_eq!(respond(&mut state, 67), Some(3));
        assert_eq!(respond(&mut state, 68), None);
        assert!(state.record_failure(at(69), at(70)), "the next outage is logged at once");
        for seconds in (71..400).step_by(20) {
            let is_logged = state.record_failure(at(seconds), at(seconds));
            let ended = respond(&mut state, seconds + 1);
            assert_eq!((is_logged, ended), (false, None), "one of two clients fails");
        }
    }

    #[test]
    fn failed_request_beside_others_with_a_response_is_no_outage() {
        let (mut state, start) = (State::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(state.record_response(at(5)).is_none());
        assert!(!state.record_failure(at(0), at(10)));
        assert!(state.outage.is_none());
    }

    #[test]
    fn only_failures_to_reach_the_server_are_an_outage() {
        let limit = Duration::from_secs(30);
        let settings = Settings::new("main", "http://main").unwrap();
        let is_logged = |failure: QueryFailure| {
            let log = OutageLog::default();
            log.record(&settings, Instant::now(), Some(&failure));
            log.has_logged(&failure)
        };
        let address: Arc<str> = "main:80".into();
        let status = |status| QueryFailure::Status {
            server: "http://main".into(),
            status,
            reported: String::new(),
            hint: String::new(),
        };
        assert!(is_logged(status(502)) && is_logged(status(503)) && is_logged(status(504)));
        assert!(is_logged(QueryFailure::Timeout { address: address.clone(), limit }));
        assert!(!is_logged(QueryFailure::Busy(limit)), "nothing was sent");
        assert!(!is_logged(status(500)), "it may be about the query");
        assert!(!is_logged(status(403)), "it answers");
        let slow = QueryFailure::SlowResponse { address, limit };
        assert!(!is_logged(slow), "it answers");
    }

    #[tokio::test(start_paused = true)]
    async fn other_failure_during_an_outage_is_left_to_the_caller() {
        let (log, settings) = (OutageLog::default(), Settings::new("main", "http://main").unwrap());
        let limit = Duration::from_secs(30);
        let timeout = QueryFailure::Timeout { address: "main:80".into(), limit };
        log.record(&settings, Instant::now(), Some(&timeout));
        assert!(log.has_logged(&timeout));
        assert!(!log.has_logged(&QueryFailure::StringResult));
        tokio::time::advance(RECOVERY_TIME).await;
        log.record(&settings, Instant::now(), None);
        assert!(!log.has_logged(&timeout), "it has ended");
    }
}
