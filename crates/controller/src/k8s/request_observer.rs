//! Reports every request of a client, for metrics and for the log of outages.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use http::{Method, Request, Response, StatusCode};
use tokio::time::Instant;
use tower::{BoxError, Service};

use super::connection_log::ConnectionLog;

/// Called after each request to the API server, unless its caller stopped waiting for it. It must
/// not block.
pub trait RequestObserver: Send + Sync {
    /// A request to `host` has received its response header, or failed. `status` is `None` for a
    /// request without a response. `duration` excludes the time that the client's limits held the
    /// request back, except for the watch throttle.
    fn request_finished(
        &self,
        host: &str,
        method: &Method,
        status: Option<StatusCode>,
        duration: Duration,
    );
}

/// Ignores all requests.
impl RequestObserver for () {
    fn request_finished(&self, _: &str, _: &Method, _: Option<StatusCode>, _: Duration) {}
}

/// Reports requests to a [`RequestObserver`] and a [`ConnectionLog`]. It belongs below the layers
/// that hold requests back before they are sent, so that the wait doesn't count, and above the
/// timeout.
#[derive(Clone)]
pub(super) struct ObservedRequests<S> {
    pub(super) inner: S,
    pub(super) observer: Arc<dyn RequestObserver>,
    /// kube adds the host to the request only in a lower layer.
    pub(super) host: Arc<str>,
    pub(super) log: Option<Arc<ConnectionLog>>,
}

impl<S, B, C> Service<Request<B>> for ObservedRequests<S>
where
    S: Service<Request<B>, Response = Response<C>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let method = request.method().clone();
        let start = Instant::now();
        let (observer, host) = (self.observer.clone(), self.host.clone());
        let log = self.log.clone().map(|log| (log.response_count(), log));
        Box::pin(self.inner.call(request).map(move |response| {
            let status = response.as_ref().ok().map(Response::status);
            observer.request_finished(&host, &method, status, start.elapsed());
            match log {
                Some((count_before, log)) => log.ended(count_before, response),
                None => response,
            }
        }))
    }
}
