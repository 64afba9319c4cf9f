//! Requests one autoscaler at intervals, to detect an outage of the API server. A watch detects it
//! only after minutes if the server hangs or the token has expired.

use std::{error::Error, sync::Arc, time::Duration};

use hpa_calc::report::error_texts::{DEADLINE_EXCEEDED, NO_RESPONSE_WITHIN};
use hpa_controller::{
    AutoscalerApi, Clock,
    k8s::{Clients, ConnectError},
};
use hpa_metrics::{describe, percent_encode};
use http::Request;
use kube::Client;
use tokio::{
    sync::{Mutex, Notify},
    time::{sleep, timeout},
};

use crate::model::{Board, FailureKind, Outage, format_time};

/// Interval of requests during an outage.
const RETRY_INTERVAL: Duration = Duration::from_secs(3);
/// Without an outage, the interval is the sync period within these bounds.
const INTERVAL_BOUNDS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(5)..=Duration::from_secs(15);

/// Checks whether the API server can be read, and updates the board.
pub(crate) struct Probe {
    client: Client,
    /// Host and port of the API server. Empty if it is in this process.
    server: String,
    /// The only namespace to read. `None` for all.
    namespace: Option<String>,
    pub(crate) timeout: Duration,
    board: Arc<Board>,
    clock: Arc<dyn Clock>,
    /// Notified when another request has failed. The next check then follows at once.
    pub(crate) failure_suspected: Notify,
    /// Held during a check, so that only one runs at a time.
    check_lock: Mutex<()>,
}

impl Probe {
    pub(crate) fn new(
        clients: &Clients,
        namespace: Option<String>,
        timeout: Duration,
        board: Arc<Board>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            client: clients.api.clone(),
            server: clients.server.clone(),
            namespace,
            timeout,
            board,
            clock,
            failure_suspected: Notify::new(),
            check_lock: Mutex::default(),
        }
    }

    pub(crate) async fn run(self: Arc<Self>, period: Duration) {
        let period = period.clamp(*INTERVAL_BOUNDS.start(), *INTERVAL_BOUNDS.end());
        loop {
            self.check_connection().await;
            let interval = if self.board.is_down() { RETRY_INTERVAL } else { period };
            tokio::select! {
                () = sleep(interval) => {}
                () = self.failure_suspected.notified() => {}
            }
        }
    }

    /// Sends one request, and updates the board with its outcome.
    pub(crate) async fn check_connection(&self) {
        let _guard = self.check_lock.lock().await;
        let sent_at = self.clock.now();
        match self.request_autoscaler().await {
            None => self.board.mark_up(self.clock.now()),
            Some(failure) => self.board.mark_down(sent_at, |since| {
                let subject = match &*self.server {
                    "" => "The API server".to_owned(),
                    server => format!("The API server at {server}"),
                };
                let text = failure.describe(&subject, &format_time(since));
                Outage { subject, kind: Some(failure.kind), since, text }
            }),
        }
    }

    /// Requests one autoscaler. `None` if the API server can be read, even if it refused this
    /// request.
    async fn request_autoscaler(&self) -> Option<Failure> {
        let version = AutoscalerApi::Core.api_version();
        let scope = self.namespace.as_ref();
        let scope = scope.map(|name| format!("namespaces/{}/", percent_encode(name)));
        let scope = scope.unwrap_or_default();
        let path = format!("/apis/{version}/{scope}horizontalpodautoscalers?limit=1");
        let request = Request::get(path).body(Vec::new()).ok()?;
        match timeout(self.timeout, self.client.request_text(request)).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Failure::from_error(&error, self.timeout),
            Err(_) => Some(Failure::no_response(self.timeout)),
        }
    }
}

/// A reason why the API server can't be read.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: FailureKind,
    /// The cause, and advice if there is any.
    cause: String,
}

impl Failure {
    /// `None` if the error is about this request only, such as a missing right.
    pub(crate) fn from_error(error: &kube::Error, timeout: Duration) -> Option<Self> {
        let kube::Error::Api(status) = error else {
            return Some(match last_cause(error) {
                cause if cause.starts_with(DEADLINE_EXCEEDED) => Self::no_response(timeout),
                cause => Self::unreachable(cause),
            });
        };
        let (code, message) = (status.code, status.message.trim());
        let cause = match message {
            "" => format!("status {code}"),
            _ => format!("{message} (status {code})"),
        };
        match code {
            401 => Some(Self {
                kind: FailureKind::RejectedCredentials,
                cause: cause
                    + ". Log in again; if that changes the kubeconfig, restart the dashboard",
            }),
            500.. => Some(Self { kind: FailureKind::ServerError, cause }),
            _ => None,
        }
    }

    fn no_response(timeout: Duration) -> Self {
        Self::unreachable(format!("{NO_RESPONSE_WITHIN}{timeout:?}"))
    }

    fn unreachable(cause: String) -> Self {
        Self { kind: FailureKind::Unreachable, cause }
    }

    fn describe(&self, subject: &str, since: &str) -> String {
        let Self { kind, cause } = self;
        format!("{subject} {kind} since {since}: {cause}")
    }
}

/// The text of the last error in a chain of sources, or the cause of a [`ConnectError`]. The errors
/// before it only repeat it or name the server.
pub(crate) fn last_cause(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    loop {
        if let Some(error) = last.downcast_ref::<ConnectError>() {
            return error.cause.clone();
        }
        match last.source() {
            Some(source) => last = source,
            None => return describe(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use hpa_calc::{Settings, settings::SettingPolicy};
    use hpa_controller::k8s::ClientLimits;
    use hpa_testbed::{Config, Effect, Fault, Faults, Match, Testbed};
    use hpa_tests::harness::VirtualClock;
    use kube::core::Status;
    use rstest::rstest;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn server_is_unreachable_since_the_first_request_without_a_response() {
        let faults = Faults::new(1);
        let by = Duration::from_secs(60);
        faults.add(Fault::on(Match::any()).effect(Effect::Slow { by }));
        let config = Config { interceptor: Some(Arc::new(faults)), ..Config::default() };
        let testbed = Testbed::new(config);
        let clients = Clients::from_service(testbed.service(), &ClientLimits::default());
        let api = AutoscalerApi::Core;
        let board = Arc::new(Board::new(&[api], Settings::default(), SettingPolicy::default()));
        let clock = VirtualClock::start();
        let limit = Duration::from_secs(10);
        let probe = Probe::new(&clients, None, limit, board.clone(), Arc::new(clock.clone()));
        let sent_at = clock.now();
        probe.check_connection().await;
        probe.check_connection().await;
        assert!(clock.age() > limit);
        let since = board.outage_summary().map(|outage| outage.since);
        assert_eq!(since, Some(sent_at));
        let text = format!("has been unreachable since {}: ", format_time(sent_at));
        assert!(board.problems()[0].contains(&text), "{:?}", board.problems());
    }

    fn api(code: u16, message: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure(message, "").with_code(code)))
    }

    #[rstest]
    #[case::token(
        api(401, "Unauthorized"),
        Some(
            "has rejected your credentials since T: Unauthorized (status 401). Log in again; if \
             that changes the kubeconfig, restart the dashboard"
        )
    )]
    #[case::etcd(
        api(500, "etcdserver: request timed out"),
        Some("has failed since T: etcdserver: request timed out (status 500)")
    )]
    #[case::proxy(api(503, ""), Some("has failed since T: status 503"))]
    #[case::right(api(403, "horizontalpodautoscalers is forbidden"), None)]
    #[case::version(api(404, ""), None)]
    #[case::broken(kube::Error::Service(std::io::Error::other("connection reset").into()),
        Some("has been unreachable since T: connection reset"))]
    #[case::hanging(kube::Error::Service(std::io::Error::other(DEADLINE_EXCEEDED).into()),
        Some("has been unreachable since T: no response within 10s"))]
    fn failure_is_described_with_its_cause_once(
        #[case] error: kube::Error,
        #[case] expected: Option<&str>,
    ) {
        let failure = Failure::from_error(&error, Duration::from_secs(10));
        let text = failure.map(|failure| failure.describe("S", "T"));
        assert_eq!(text, expected.map(|expected| format!("S {expected}")));
    }
}
