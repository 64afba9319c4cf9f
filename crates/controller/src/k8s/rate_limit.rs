//! Limits the rate of requests with a token bucket, as client-go does.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};
use tower::Service;

/// A limit of the request rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Requests per second in the long run. NaN and less than one request a day mean one a day.
    pub qps: f64,
    /// The number of requests that may be sent at once after a pause. Zero means one.
    pub burst: u32,
}

/// Delays requests to keep to a [`RateLimit`].
pub(super) struct RateLimiter<S> {
    inner: S,
    qps: f64,
    burst: f64,
    tokens: f64,
    refilled_at: Instant,
    /// Ends when there is a token.
    wait: Option<Pin<Box<Sleep>>>,
}

impl<S> RateLimiter<S> {
    pub(super) fn new(inner: S, limit: RateLimit) -> Self {
        const MIN_QPS: f64 = 1.0 / 86_400.0;
        let burst = f64::from(limit.burst.max(1));
        // In this order: `f64::max` ignores a NaN argument.
        let qps = MIN_QPS.max(limit.qps);
        Self { inner, qps, burst, tokens: burst, refilled_at: Instant::now(), wait: None }
    }

    /// Waits for a token, and leaves it in the bucket.
    fn poll_token(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Absorbs rounding errors of the refill.
        const EPSILON: f64 = 1e-6;
        loop {
            if let Some(wait) = &mut self.wait {
                ready!(wait.as_mut().poll(cx));
                self.wait = None;
            }
            let now = Instant::now();
            let refill = now.duration_since(self.refilled_at).as_secs_f64() * self.qps;
            self.tokens = (self.tokens + refill).min(self.burst);
            self.refilled_at = now;
            let missing = 1.0 - self.tokens;
            if missing <= EPSILON {
                return Poll::Ready(());
            }
            // Timers have a resolution of 1 ms.
            let delay = Duration::from_secs_f64(missing / self.qps).max(Duration::from_millis(1));
            self.wait = Some(Box::pin(sleep_until(now + delay)));
        }
    }
}

impl<S: Service<R>, R> Service<R> for RateLimiter<S> {
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use rstest::rstest;
    use tokio::time::sleep;
    use tower::{ServiceExt, service_fn};

    use super::*;

    /// Sends requests one after the other. Returns the time of each.
    async fn send(rate: RateLimit, pauses: &[Duration]) -> Vec<Duration> {
        let inner = service_fn(|()| async { Ok::<_, Infallible>(()) });
        let mut service = RateLimiter::new(inner, rate);
        let start = Instant::now();
        let mut sent = Vec::new();
        for pause in pauses {
            sleep(*pause).await;
            service.ready().await.expect("ready").call(()).await.expect("a response");
            sent.push(start.elapsed());
        }
        sent
    }

    #[tokio::test(start_paused = true)]
    async fn burst_passes_and_the_rest_is_delayed() {
        let minute = Duration::from_mins(1);
        let mut pauses = [Duration::ZERO; 9];
        pauses[6] = minute;
        let sent = send(RateLimit { qps: 2.0, burst: 3 }, &pauses).await;
        let rounded = |time: &Duration| (time.as_millis() + 5) / 10 * 10;
        let sent: Vec<_> = sent.iter().map(rounded).collect();
        assert_eq!(sent, [0, 0, 0, 500, 1000, 1500, 61_500, 61_500, 61_500]);
    }

    #[rstest]
    #[case(RateLimit { qps: 0.0, burst: 0 })]
    #[case(RateLimit { qps: f64::NAN, burst: 0 })]
    #[case(RateLimit { qps: -1.0, burst: 1 })]
    #[tokio::test(start_paused = true)]
    async fn invalid_rate_is_one_request_a_day(#[case] rate: RateLimit) {
        let sent = send(rate, &[Duration::ZERO; 2]).await;
        assert_eq!(sent[1].as_secs(), 86_400);
    }
}
