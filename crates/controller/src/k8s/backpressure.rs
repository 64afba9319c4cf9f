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

/// Waits where the API server does not say for how long.
const USUAL: Duration = Duration::from_secs(1);

/// Holds all requests back after an answer 429 (`TooManyRequests`), for as long as the API server asks for in
/// `Retry-After`, but never longer than this. What was refused is not repeated here: the next sync does that.
///
/// Without it, hundreds of autoscalers would each find out for themselves that the API server is overloaded.
#[derive(Clone, Copy)]
pub(crate) struct BackpressureLayer(pub(crate) Duration);

impl<S> Layer<S> for BackpressureLayer {
    type Service = Backpressure<S>;

    fn layer(&self, inner: S) -> Backpressure<S> {
        Backpressure { inner, longest: self.0, until: Arc::default(), wait: None }
    }
}

/// See [`BackpressureLayer`].
pub(crate) struct Backpressure<S> {
    inner: S,
    longest: Duration,
    /// Until when nothing is sent.
    until: Arc<Mutex<Option<Instant>>>,
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
            match *self.until.lock() {
                Some(until) if Instant::now() < until => {
                    self.wait = Some(Box::pin(sleep_until(until)))
                }
                _ => break,
            }
        }
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        BackpressureFuture {
            answer: self.inner.call(request),
            until: self.until.clone(),
            longest: self.longest,
        }
    }
}

pin_project! {
    /// An answer whose 429 holds back what comes after it.
    pub(crate) struct BackpressureFuture<F> {
        #[pin]
        answer: F,
        until: Arc<Mutex<Option<Instant>>>,
        longest: Duration,
    }
}

impl<F: Future<Output = Result<Response<C>, E>>, C, E> Future for BackpressureFuture<F> {
    type Output = Result<Response<C>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.answer.poll(cx))?;
        if answer.status() == StatusCode::TOO_MANY_REQUESTS {
            let pause = retry_after(&answer).unwrap_or(USUAL).min(*this.longest);
            let mut until = this.until.lock();
            *until = (*until).max(Some(Instant::now() + pause));
        }
        Poll::Ready(Ok(answer))
    }
}

/// What the API server asks for: it always tells seconds, not a date.
fn retry_after<B>(answer: &Response<B>) -> Option<Duration> {
    let seconds = answer.headers().get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tower::{ServiceExt, service_fn};

    use super::*;

    /// When each of these requests is sent, in seconds; the first is answered so.
    async fn sent(status: u16, retry_after: Option<&'static str>, requests: usize) -> Vec<u64> {
        let begun = Instant::now();
        let times = Arc::new(Mutex::new(Vec::new()));
        let seen = times.clone();
        let server = service_fn(move |_: Request<()>| {
            let is_first = seen.lock().is_empty();
            seen.lock().push(begun.elapsed().as_secs());
            let mut answer = Response::builder().status(if is_first { status } else { 200 });
            if let Some(retry_after) = retry_after {
                answer = answer.header(header::RETRY_AFTER, retry_after);
            }
            async move { Ok::<_, Infallible>(answer.body(()).expect("an answer")) }
        });
        let mut service = BackpressureLayer(Duration::from_secs(10)).layer(server);
        for _ in 0..requests {
            let ready = service.ready().await.expect("ready");
            ready.call(Request::new(())).await.expect("an answer");
        }
        times.lock().clone()
    }

    #[tokio::test(start_paused = true)]
    async fn requests_wait_for_as_long_as_is_asked() {
        assert_eq!(sent(429, Some("3"), 3).await, [0, 3, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_wait_a_second_where_nothing_is_said() {
        assert_eq!(sent(429, None, 2).await, [0, 1]);
        assert_eq!(sent(429, Some("Wed, 21 Oct 2026 07:28:00 GMT"), 2).await, [0, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_do_not_wait_for_ever() {
        assert_eq!(sent(429, Some("86400"), 2).await, [0, 10]);
    }

    #[tokio::test(start_paused = true)]
    async fn other_failures_hold_nothing_back() {
        assert_eq!(sent(503, Some("3"), 2).await, [0, 0]);
    }
}
