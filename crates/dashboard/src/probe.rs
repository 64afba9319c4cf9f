//! Asks the API server for one autoscaler in each period, to notice that it can't be read: a watch
//! of a server that hangs, or whose token has expired, ends after minutes only.

use std::{error::Error, sync::Arc, time::Duration};

use hpa_controller::{
    AutoscalerApi, Clock,
    k8s::{Clients, ConnectError},
};
use hpa_metrics::describe;
use http::Request;
use kube::Client;
use tokio::{
    sync::{Mutex, Notify},
    time::{sleep, timeout},
};

use crate::model::{Board, Outage, seconds};

/// Interval of attempts while the API server can't be read.
const RETRY: Duration = Duration::from_secs(3);
/// Bounds of the interval otherwise.
const PERIOD: std::ops::RangeInclusive<Duration> = Duration::from_secs(5)..=Duration::from_secs(15);

/// Keeps up to date whether the API server can be read.
pub(crate) struct Probe {
    client: Client,
    /// Host and port of the API server. Empty if it is in this process.
    server: String,
    /// The only namespace to read. `None` for all.
    namespace: Option<String>,
    pub(crate) timeout: Duration,
    board: Arc<Board>,
    clock: Arc<dyn Clock>,
    /// Notified of a request that failed: then the API server is asked at once.
    pub(crate) suspected: Notify,
    running: Mutex<()>,
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
            suspected: Notify::new(),
            running: Mutex::default(),
        }
    }

    pub(crate) async fn run(self: Arc<Self>, period: Duration) {
        let period = period.clamp(*PERIOD.start(), *PERIOD.end());
        loop {
            self.check().await;
            let pause = if self.board.is_down() { RETRY } else { period };
            tokio::select! {
                () = sleep(pause) => {}
                () = self.suspected.notified() => {}
            }
        }
    }

    /// Asks the API server. Returns when the board has the outcome.
    pub(crate) async fn check(&self) {
        let _running = self.running.lock().await;
        match self.failure().await {
            None => self.board.set_up(self.clock.now()),
            Some(failure) => self.board.set_down(self.clock.now(), |since| {
                let subject = match &*self.server {
                    "" => "The API server".to_owned(),
                    server => format!("The API server at {server}"),
                };
                let text = failure.describe(&subject, &seconds(since));
                Outage { subject, kind: failure.kind(), since, text }
            }),
        }
    }

    /// `None` if the API server answered, even if it refused the request.
    async fn failure(&self) -> Option<Failure> {
        let version = AutoscalerApi::Core.api_version();
        let scope = self.namespace.as_ref().map(|name| format!("namespaces/{name}/"));
        let scope = scope.unwrap_or_default();
        let path = format!("/apis/{version}/{scope}horizontalpodautoscalers?limit=1");
        let request = Request::get(path).body(Vec::new()).ok()?;
        match timeout(self.timeout, self.client.request_text(request)).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Failure::of(&error, self.timeout),
            Err(_) => Some(Failure::silence(self.timeout)),
        }
    }
}

/// Why the API server can't be read.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It doesn't accept the credentials.
    Rejected(String),
    /// It answers with an error of its own.
    Error(String),
    /// There is no answer.
    Unanswered(String),
}

impl Failure {
    /// `None` if the server answered about the request itself.
    pub(crate) fn of(error: &kube::Error, timeout: Duration) -> Option<Self> {
        match error {
            kube::Error::Api(status) => {
                let (code, message) = (status.code, status.message.trim());
                let text = match message {
                    "" => format!("status {code}"),
                    _ => format!("{message} (status {code})"),
                };
                match code {
                    401 => Some(Self::Rejected(text)),
                    500.. => Some(Self::Error(text)),
                    _ => None,
                }
            }
            error => Some(match last_cause(error) {
                text if text == DEADLINE => Self::silence(timeout),
                text => Self::Unanswered(text),
            }),
        }
    }

    fn silence(timeout: Duration) -> Self {
        Self::Unanswered(format!("no response within {timeout:?}"))
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Rejected(_) => "has rejected your credentials",
            Self::Error(_) => "has failed",
            Self::Unanswered(_) => "has been unreachable",
        }
    }

    fn describe(&self, subject: &str, since: &str) -> String {
        let (Self::Rejected(cause) | Self::Error(cause) | Self::Unanswered(cause)) = self;
        let advice = match self {
            Self::Rejected(_) => {
                ". Log in again; if that changes the kubeconfig, restart the dashboard"
            }
            _ => "",
        };
        format!("{subject} {} since {since}: {cause}{advice}", self.kind())
    }
}

/// The text of a request that took too long.
const DEADLINE: &str = "context deadline exceeded";

/// The text of the last error of a chain. Those before it repeat it, or name the server.
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
    use kube::core::Status;
    use rstest::rstest;

    use super::*;

    fn api(code: u16, message: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure(message, "").with_code(code)))
    }

    #[rstest]
    #[case::token(
        api(401, "Unauthorized"),
        Some(
            "has rejected your credentials since T: \
        Unauthorized (status 401). Log in again; if that changes the kubeconfig, restart the \
        dashboard"
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
    #[case::hanging(kube::Error::Service(std::io::Error::other(DEADLINE).into()),
        Some("has been unreachable since T: no response within 10s"))]
    fn cause_is_named_once(#[case] error: kube::Error, #[case] expected: Option<&str>) {
        let failure = Failure::of(&error, Duration::from_secs(10));
        let text = failure.map(|failure| failure.describe("S", "T"));
        assert_eq!(text, expected.map(|expected| format!("S {expected}")));
    }
}
