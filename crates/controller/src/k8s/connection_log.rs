//! Logs when the API server becomes unreachable or rejects the credentials, and when it responds
//! again.

use hpa_metrics::{LogLimit, describe, mark_logged_if_due};
use http::{Response, StatusCode};
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::BoxError;
use tracing::{info, warn};

/// The error of a request that failed while all other requests failed as well. The
/// [`ConnectionLog`] logs it, so that callers don't have to.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct ConnectionLost(BoxError);

/// Logs outages of the connection to one API server.
pub(super) struct ConnectionLog {
    /// Without credentials.
    url: String,
    /// The kubeconfig or service account that the credentials are from.
    credentials: String,
    state: Mutex<State>,
    rejection_limit: LogLimit,
}

#[derive(Default)]
struct State {
    /// The number of requests that got a response.
    response_count: u64,
    /// The time of the last log line about an outage.
    outage_logged_at: Option<Instant>,
    /// Whether an outage was logged, but not its end yet.
    is_outage_logged: bool,
}

impl ConnectionLog {
    /// `credentials` names the kubeconfig or service account that the credentials are from.
    pub(super) fn new(url: String, credentials: String) -> Self {
        let rejection_limit = LogLimit::default();
        Self { url, credentials, state: Mutex::default(), rejection_limit }
    }

    pub(super) fn response_count(&self) -> u64 {
        self.state.lock().response_count
    }

    /// Handles the end of a request that was sent when the number of responses was `count_before`.
    pub(super) fn ended<C>(
        &self,
        count_before: u64,
        response: Result<Response<C>, BoxError>,
    ) -> Result<Response<C>, BoxError> {
        let response = response.map_err(|error| self.failed(count_before, error))?;
        self.responded(response.status());
        Ok(response)
    }

    fn responded(&self, status: StatusCode) {
        if self.state.lock().record_response() {
            info!(url = self.url, "the API server responds again");
        }
        // The requests' own errors don't have the origin of the credentials.
        if status == StatusCode::UNAUTHORIZED && self.rejection_limit.try_acquire() {
            warn!(
                url = self.url,
                credentials = self.credentials,
                "the API server rejects the credentials (401 Unauthorized): they may have expired"
            );
        }
    }

    /// Handles the failure of a request that was sent when the number of responses was
    /// `count_before`. If other requests got responses since then, the API server is reachable, and
    /// `error` is returned unchanged. Otherwise logs an outage, and returns [`ConnectionLost`].
    fn failed(&self, count_before: u64, error: BoxError) -> BoxError {
        let mut state = self.state.lock();
        if state.response_count != count_before {
            return error;
        }
        if state.record_outage(Instant::now()) {
            let error = describe(&*error);
            warn!(url = self.url, error, "no response from the API server, retrying");
        }
        ConnectionLost(error).into()
    }
}

impl State {
    /// Records a response. Returns whether to log that the outage is over.
    fn record_response(&mut self) -> bool {
        self.response_count += 1;
        std::mem::take(&mut self.is_outage_logged)
    }

    /// Records a failed request of an outage. Returns whether to log the outage: once, and at the
    /// earliest a minute after the last one was logged.
    fn record_outage(&mut self, now: Instant) -> bool {
        let is_due = !self.is_outage_logged && mark_logged_if_due(&mut self.outage_logged_at, now);
        self.is_outage_logged |= is_due;
        is_due
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use http::Request;
    use tokio::{
        sync::oneshot,
        time::{advance, sleep},
    };
    use tower::{ServiceExt, service_fn};

    use super::*;
    use crate::k8s::request_observer::ObservedRequests;

    fn logged<S>(inner: S, log: &Arc<ConnectionLog>) -> ObservedRequests<S> {
        let log = Some(log.clone());
        ObservedRequests { inner, observer: Arc::new(()), host: "".into(), log }
    }

    #[tokio::test(start_paused = true)]
    async fn outage_is_logged_once_and_the_next_one_after_a_minute() {
        let mut state = State::default();
        let record_outage = |state: &mut State| state.record_outage(Instant::now());
        assert!(!state.record_response(), "nothing was lost");
        assert!(record_outage(&mut state));
        advance(Duration::from_secs(30)).await;
        assert!(!record_outage(&mut state), "it was logged");
        assert!(state.record_response());
        assert!(!state.record_response(), "the end is logged once");
        assert!(!record_outage(&mut state), "a minute after the last one");
        assert!(!state.record_response(), "this outage was not logged");
        advance(Duration::from_secs(30)).await;
        assert!(record_outage(&mut state));
        advance(Duration::from_secs(60)).await;
        assert!(!record_outage(&mut state), "it goes on");
    }

    fn connection_log() -> ConnectionLog {
        ConnectionLog::new("https://api.example:6443".to_owned(), "kubeconfig a.yaml".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn only_rejected_credentials_use_up_the_log_line_of_the_minute() {
        let statuses = [StatusCode::OK, StatusCode::FORBIDDEN, StatusCode::UNAUTHORIZED];
        for (status, is_logged) in statuses.into_iter().zip([false, false, true]) {
            let log = Arc::new(connection_log());
            let inner = service_fn(move |_: Request<()>| async move {
                Ok::<_, BoxError>(Response::builder().status(status).body(()).expect("a response"))
            });
            let service = logged(inner, &log);
            service.oneshot(Request::new(())).await.expect("a response");
            assert_eq!(!log.rejection_limit.try_acquire(), is_logged, "{status}");
            assert!(!log.state.lock().is_outage_logged);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failed_request_beside_others_that_succeed_is_no_outage() {
        let log = Arc::new(connection_log());
        let service = |succeeds: bool, after: oneshot::Receiver<()>| {
            let after = Mutex::new(Some(after));
            let inner = service_fn(move |_: Request<()>| {
                let after = after.lock().take();
                async move {
                    after.expect("one request").await.ok();
                    sleep(Duration::from_millis(1)).await;
                    if succeeds { Ok(Response::new(())) } else { Err::<_, BoxError>("down".into()) }
                }
            });
            logged(inner, &log)
        };
        let outcome = async |others_succeed: bool| {
            let (end, ended) = oneshot::channel();
            let failing = tokio::spawn(service(false, ended).oneshot(Request::new(())));
            tokio::task::yield_now().await;
            if others_succeed {
                let (end, ended) = oneshot::channel();
                end.send(()).expect("a request");
                service(true, ended).oneshot(Request::new(())).await.expect("a response");
            }
            end.send(()).expect("a request");
            let error = failing.await.expect("no panic").expect_err("it fails");
            (error.is::<ConnectionLost>(), error.to_string())
        };
        assert_eq!(outcome(true).await, (false, "down".to_owned()));
        assert_eq!(outcome(false).await, (true, "down".to_owned()));
    }
}
