use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::{future::BoxFuture, stream};
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tower::{BoxError, Layer, Service};

/// How many requests may be sent in a time: a bucket of tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Requests per second in the long run. Zero or less is taken as one in a day.
    pub qps: f64,
    /// Requests at once after a pause; at least one.
    pub burst: u32,
}

/// Holds requests back to a [`RateLimit`].
#[derive(Clone, Copy)]
pub(super) struct RateLimitLayer(pub(super) RateLimit);

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimited<S>;

    fn layer(&self, inner: S) -> RateLimited<S> {
        const LEAST: f64 = 1.0 / 86_400.0;
        let burst = f64::from(self.0.burst.max(1));
        // In this order, for NaN.
        let qps = LEAST.max(self.0.qps);
        RateLimited { inner, qps, burst, tokens: burst, at: Instant::now(), wait: None }
    }
}

/// See [`RateLimitLayer`].
pub(super) struct RateLimited<S> {
    inner: S,
    qps: f64,
    burst: f64,
    tokens: f64,
    at: Instant,
    /// Until there is a token.
    wait: Option<Pin<Box<Sleep>>>,
}

impl<S> RateLimited<S> {
    /// Waits for a token, and leaves it in the bucket.
    fn poll_token(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Less than a token by rounding only is one.
        const ROUNDING: f64 = 1e-6;
        loop {
            if let Some(wait) = &mut self.wait {
                ready!(wait.as_mut().poll(cx));
                self.wait = None;
            }
            let now = Instant::now();
            let refill = now.duration_since(self.at).as_secs_f64() * self.qps;
            (self.tokens, self.at) = ((self.tokens + refill).min(self.burst), now);
            let missing = 1.0 - self.tokens;
            if missing <= ROUNDING {
                return Poll::Ready(());
            }
            // A timer is exact to the millisecond only.
            let pause = Duration::from_secs_f64(missing / self.qps).max(Duration::from_millis(1));
            self.wait = Some(Box::pin(sleep_until(now + pause)));
        }
    }
}

impl<S: Service<R>, R> Service<R> for RateLimited<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        ready!(self.poll_token(cx));
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.tokens -= 1.0;
        self.inner.call(request)
    }
}

/// Ends requests that take too long. A watch only has to begin in time.
#[derive(Clone, Copy)]
pub(super) struct RequestTimeoutLayer(pub(super) Duration);

impl<S> Layer<S> for RequestTimeoutLayer {
    type Service = RequestTimeout<S>;

    fn layer(&self, inner: S) -> RequestTimeout<S> {
        RequestTimeout { inner, timeout: self.0 }
    }
}

/// See [`RequestTimeoutLayer`].
pub(super) struct RequestTimeout<S> {
    inner: S,
    timeout: Duration,
}

/// Go's words for it, as they reach conditions and events.
#[derive(Debug, thiserror::Error)]
#[error("context deadline exceeded")]
struct Elapsed;

impl<S, B> Service<Request<Body>> for RequestTimeout<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: BodyExt + Send + 'static,
    B::Data: Send + 'static,
    B::Error: Into<BoxError> + 'static,
{
    type Response = Response<UnsyncBoxBody<B::Data, BoxError>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_watch = is_watch(&request);
        let deadline = Instant::now().checked_add(self.timeout);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let Some(deadline) = deadline else {
                let answer = answer.await.map_err(Into::into)?;
                return Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()));
            };
            let answer = timeout_at(deadline, answer).await.map_err(|_| Elapsed)?.map_err(Into::into)?;
            // A watch that has begun is the watcher's to end; one that does not begin nobody else would.
            Ok(answer.map(|body| {
                if is_watch { body.map_err(Into::into).boxed_unsync() } else { until(deadline, body) }
            }))
        })
    }
}

pub(super) fn is_watch<B>(request: &Request<B>) -> bool {
    let parameters = request.uri().query().unwrap_or_default();
    parameters.split('&').any(|parameter| matches!(parameter, "watch=true" | "watch=1"))
}

/// The body, which ends with an error if it is not complete at the deadline.
fn until<B>(deadline: Instant, body: B) -> UnsyncBoxBody<B::Data, BoxError>
where
    B: BodyExt + Send + 'static,
    B::Data: Send + 'static,
    B::Error: Into<BoxError> + 'static,
{
    let frames = stream::unfold(Some(Box::pin(body)), move |body| async move {
        let mut body = body?;
        match timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => Some((Ok(frame), Some(body))),
            Ok(Some(Err(error))) => Some((Err(error.into()), None)),
            Ok(None) => None,
            Err(_) => Some((Err(Elapsed.into()), None)),
        }
    });
    StreamBody::new(frames).boxed_unsync()
}
