//! Reports every request of a client, for metrics.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use http::{Method, Request, Response, StatusCode};
use tokio::time::Instant;
use tower::Service;

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

/// Reports requests to a [`RequestObserver`]. It belongs below the layers that hold requests back
/// before they are sent, so that the wait doesn't count, and above the timeout.
#[derive(Clone)]
pub(super) struct ObservedRequests<S> {
    pub(super) inner: S,
    pub(super) observer: Arc<dyn RequestObserver>,
    /// kube adds the host to the request only in a lower layer.
    pub(super) host: Arc<str>,
}

impl<S, B, C> Service<Request<B>> for ObservedRequests<S>
where
    S: Service<Request<B>, Response = Response<C>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let method = request.method().clone();
        let start = Instant::now();
        let response = self.inner.call(request);
        let (observer, host) = (self.observer.clone(), self.host.clone());
        Box::pin(response.inspect(move |response| {
            let status = response.as_ref().ok().map(Response::status);
            observer.request_finished(&host, &method, status, start.elapsed());
        }))
    }
}
