//! Holds requests back after a 429 response (`TooManyRequests`) of the API server.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::{Request, Response, StatusCode, header};
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::{Layer, Service};

/// For a 429 without a usable `Retry-After`.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Holds all requests back for the time in `Retry-After`, but at most for `max_delay`. Without it,
/// each of hundreds of autoscalers would send a request to an API server that is overloaded. A
/// request that was refused is not retried here: the next sync does that.
#[derive(Clone, Copy)]
pub(super) struct BackpressureLayer {
    pub(super) max_delay: Duration,
}

impl<S> Layer<S> for BackpressureLayer {
    type Service = Backpressure<S>;

    fn layer(&self, inner: S) -> Backpressure<S> {
        Backpressure { inner, max_delay: self.max_delay, blocked_until: Arc::default(), wait: None }
    }
}

/// The service of [`BackpressureLayer`].
pub(super) struct Backpressure<S> {
    inner: S,
    max_delay: Duration,
    blocked_until: Arc<Mutex<Option<Instant>>>,
    wait: Option<Pin<Box<Sleep>>>,
}

impl<S, B, C> Service<Request<B>> for Backpressure<S>
where
    S: Service<Request<B>, Response = Response<C>>,
{
    type Response = Response<C>;
    type Error = S::Error;
    type Future = BackpressureFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        loop {
            if let Some(wait) = &mut self.wait {
                ready!(wait.as_mut().poll(cx));
                self.wait = None;
            }
            match *self.blocked_until.lock() {
                Some(until) if Instant::now() < until => {
                    self.wait = Some(Box::pin(sleep_until(until)));
                }
                _ => break,
            }
        }
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        BackpressureFuture {
            response: self.inner.call(request),
            blocked_until: self.blocked_until.clone(),
            max_delay: self.max_delay,
        }
    }
}

pin_project! {
    /// The response future of [`Backpressure`].
    pub(super) struct BackpressureFuture<F> {
        #[pin]
        response: F,
        blocked_until: Arc<Mutex<Option<Instant>>>,
        max_delay: Duration,
    }
}

impl<F: Future<Output = Result<Response<C>, E>>, C, E> Future for BackpressureFuture<F> {
    type Output = Result<Response<C>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.response.poll(cx))?;
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            let delay = retry_after(&response).unwrap_or(DEFAULT_RETRY_AFTER).min(*this.max_delay);
            let mut blocked_until = this.blocked_until.lock();
            *blocked_until = (*blocked_until).max(Some(Instant::now() + delay));
        }
        Poll::Ready(Ok(response))
    }
}

/// The delay in `Retry-After`. The API server sends seconds, never a date.
fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let value = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    Some(Duration::from_secs(value.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tower::{ServiceExt, service_fn};

    use super::*;

    /// When each of `count` requests reaches the server, in seconds. The server answers the first
    /// one with this status.
    async fn sent(status: u16, retry_after: Option<&'static str>, count: usize) -> Vec<u64> {
        let start = Instant::now();
        let times = Arc::new(Mutex::new(Vec::new()));
        let received = times.clone();
        let server = service_fn(move |_: Request<()>| {
            let is_first = received.lock().is_empty();
            received.lock().push(start.elapsed().as_secs());
            let mut response = Response::builder().status(if is_first { status } else { 200 });
            if let Some(retry_after) = retry_after {
                response = response.header(header::RETRY_AFTER, retry_after);
            }
            async move { Ok::<_, Infallible>(response.body(()).expect("a response")) }
        });
        let layer = BackpressureLayer { max_delay: Duration::from_secs(10) };
        let mut service = layer.layer(server);
        for _ in 0..count {
            let ready = service.ready().await.expect("ready");
            ready.call(Request::new(())).await.expect("a response");
        }
        times.lock().clone()
    }

    #[tokio::test(start_paused = true)]
    async fn requests_wait_for_retry_after() {
        assert_eq!(sent(429, Some("3"), 3).await, [0, 3, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_wait_a_second_without_usable_retry_after() {
        assert_eq!(sent(429, None, 2).await, [0, 1]);
        assert_eq!(sent(429, Some("Wed, 21 Oct 2026 07:28:00 GMT"), 2).await, [0, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn delay_is_limited() {
        assert_eq!(sent(429, Some("86400"), 2).await, [0, 10]);
    }

    #[tokio::test(start_paused = true)]
    async fn other_errors_do_not_delay_requests() {
        assert_eq!(sent(503, Some("3"), 2).await, [0, 0]);
    }
}
