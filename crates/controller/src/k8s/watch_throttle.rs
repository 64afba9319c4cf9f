use std::{
    collections::HashMap,
    task::{Context, Poll},
    time::Duration,
};

use futures::{
    TryFutureExt,
    future::{BoxFuture, Either, ErrInto},
};
use http::Request;
use tokio::time::{Instant, sleep_until};
use tower::{BoxError, Layer, Service};

use super::limits::is_watch;

/// Begins a watch of the same objects at most this often. A watch that ends without an error is begun again at once:
/// were each of them ended at once, by a proxy for example, nothing else would hold the requests back.
#[derive(Clone, Copy)]
pub(crate) struct WatchThrottleLayer(pub(crate) Duration);

impl<S> Layer<S> for WatchThrottleLayer {
    type Service = WatchThrottle<S>;

    fn layer(&self, inner: S) -> WatchThrottle<S> {
        WatchThrottle { inner, pace: self.0, next: HashMap::new() }
    }
}

/// See [`WatchThrottleLayer`].
pub(crate) struct WatchThrottle<S> {
    inner: S,
    pace: Duration,
    /// By path, when the next watch of it may begin.
    next: HashMap<String, Instant>,
}

impl<S, B> Service<Request<B>> for WatchThrottle<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
    S::Response: Send,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future =
        Either<ErrInto<S::Future, BoxError>, BoxFuture<'static, Result<S::Response, BoxError>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if !is_watch(&request) {
            return Either::Left(self.inner.call(request).err_into());
        }
        let now = Instant::now();
        let begins = self.next.get(request.uri().path()).map_or(now, |next| now.max(*next));
        self.next.insert(request.uri().path().to_owned(), begins + self.pace);
        let answer = self.inner.call(request);
        Either::Right(Box::pin(async move {
            let answer = answer.await.map_err(Into::into);
            // The answer waits rather than the request: that has its place in the order of all requests.
            sleep_until(begins).await;
            answer
        }))
    }
}
