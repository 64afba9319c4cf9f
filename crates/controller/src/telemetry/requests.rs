//! The requests of the clients, as client-go counts them.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response};
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
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let host = self.host.clone();
        let method = request.method().clone();
        let telemetry = self.telemetry.clone();
        let begun = Instant::now();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let counted = &telemetry.counted;
            let verb = method.as_str();
            counted.request_seconds.with_label_values(&[&host, verb]).observe(begun.elapsed().as_secs_f64());
            let code =
                answer.as_ref().map_or("<error>".to_owned(), |answer| answer.status().as_u16().to_string());
            counted.requests.with_label_values(&[code.as_str(), &host, verb]).inc();
            answer
        })
    }
}
