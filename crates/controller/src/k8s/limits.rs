use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use kube::client::Body;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};
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
pub(crate) struct RateLimitLayer(pub(crate) RateLimit);

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
pub(crate) struct RateLimited<S> {
    inner: S,
    qps: f64,
    burst: f64,
    tokens: f64,
    at: Instant,
    /// TimeoutBody there is a token.
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
pub(crate) struct RequestTimeoutLayer(pub(crate) Duration);

impl<S> Layer<S> for RequestTimeoutLayer {
    type Service = RequestTimeout<S>;

    fn layer(&self, inner: S) -> RequestTimeout<S> {
        RequestTimeout { inner, timeout: self.0 }
    }
}

/// See [`RequestTimeoutLayer`].
pub(crate) struct RequestTimeout<S> {
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
{
    type Response = Response<TimeoutBody<B>>;
    type Error = BoxError;
    type Future = TimeoutFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_watch = is_watch(&request);
        let deadline = Instant::now().checked_add(self.timeout);
        TimeoutFuture { answer: self.inner.call(request), deadline, alarm: None, is_watch }
    }
}

pin_project! {
    /// An answer that has to begin before the deadline, if there is one; and to end, unless it is a watch.
    pub(crate) struct TimeoutFuture<F> {
        #[pin]
        answer: F,
        deadline: Option<Instant>,
        #[pin]
        alarm: Option<Sleep>,
        is_watch: bool,
    }
}

impl<F, B, E> Future for TimeoutFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Response<TimeoutBody<B>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(answer) = this.answer.poll(cx) {
            // A watch that has begun is the watcher's to end; one that does not begin nobody else would.
            let deadline = this.deadline.filter(|_| !*this.is_watch);
            let until = |body| TimeoutBody { body, deadline, alarm: None, is_over: false };
            return Poll::Ready(answer.map(|answer| answer.map(until)).map_err(Into::into));
        }
        ready!(poll_alarm(this.alarm, *this.deadline, cx));
        Poll::Ready(Err(Elapsed.into()))
    }
}

pin_project! {
    /// A body that ends with an error if it is not complete at the deadline.
    pub(crate) struct TimeoutBody<B> {
        #[pin]
        body: B,
        deadline: Option<Instant>,
        #[pin]
        alarm: Option<Sleep>,
        is_over: bool,
    }
}

impl<B> HttpBody for TimeoutBody<B>
where
    B: HttpBody,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let this = self.project();
        if *this.is_over {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = this.body.poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        ready!(poll_alarm(this.alarm, *this.deadline, cx));
        *this.is_over = true;
        Poll::Ready(Some(Err(Elapsed.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Waits for a deadline, if there is one. A timer is set only by what has to wait: of most answers the body comes with the
/// head.
fn poll_alarm(
    mut alarm: Pin<&mut Option<Sleep>>,
    deadline: Option<Instant>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    let Some(deadline) = deadline else { return Poll::Pending };
    if alarm.is_none() {
        alarm.set(Some(sleep_until(deadline)));
    }
    alarm.as_pin_mut().map_or(Poll::Pending, |alarm| alarm.poll(cx))
}

pub(crate) fn is_watch<B>(request: &Request<B>) -> bool {
    let parameters = request.uri().query().unwrap_or_default();
    parameters.split('&').any(|parameter| matches!(parameter, "watch=true" | "watch=1"))
}
