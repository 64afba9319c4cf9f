//! The requests of the clients, as client-go counts them.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::{Method, Request, Response};
use pin_project_lite::pin_project;
use tokio::time::Instant;
use tower::{Layer, Service};

use super::Telemetry;

/// Has requests counted by host, method and status. It belongs below what holds requests back, so that their wait does
/// not count, and above what ends them.
#[derive(Clone)]
pub struct RequestMetricsLayer {
    telemetry: Arc<Telemetry>,
    host: Arc<str>,
}

impl RequestMetricsLayer {
    /// Counts requests to this host. kube's client adds the host to a request only further below.
    pub fn new(telemetry: Arc<Telemetry>, host: impl Into<Arc<str>>) -> Self {
        Self { telemetry, host: host.into() }
    }
}

impl<S> Layer<S> for RequestMetricsLayer {
    type Service = RequestMetricsService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RequestMetricsService { inner, telemetry: self.telemetry.clone(), host: self.host.clone() }
    }
}

/// See [`RequestMetricsLayer`].
#[derive(Clone)]
pub struct RequestMetricsService<S> {
    inner: S,
    telemetry: Arc<Telemetry>,
    host: Arc<str>,
}

impl<S, B, C> Service<Request<B>> for RequestMetricsService<S>
where
    S: Service<Request<B>, Response = Response<C>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = CountedAnswer<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let method = request.method().clone();
        let begun = Instant::now();
        let answer = self.inner.call(request);
        CountedAnswer {
            answer,
            telemetry: self.telemetry.clone(),
            host: self.host.clone(),
            method,
            begun,
        }
    }
}

pin_project! {
    /// An answer that is counted when it comes.
    pub struct CountedAnswer<F> {
        #[pin]
        answer: F,
        telemetry: Arc<Telemetry>,
        host: Arc<str>,
        method: Method,
        begun: Instant,
    }
}

impl<F: Future<Output = Result<Response<C>, E>>, C, E> Future for CountedAnswer<F> {
    type Output = Result<Response<C>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.answer.poll(cx));
        let (counted, host, verb) = (&this.telemetry.counters, &**this.host, this.method.as_str());
        counted
            .request_seconds
            .with_label_values(&[host, verb])
            .observe(this.begun.elapsed().as_secs_f64());
        let status = answer.as_ref().map(Response::status);
        let code = status.as_ref().map_or("<error>", |status| status.as_str());
        counted.requests.with_label_values(&[code, host, verb]).inc();
        Poll::Ready(answer)
    }
}
