//! The timeout of a request, which covers the response with its body.

use std::{
    error::Error,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::future::BoxFuture;
use hpa_calc::report::error_texts::{DEADLINE_EXCEEDED, NO_RESPONSE_WITHIN};
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use kube::client::Body;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tower::{BoxError, Service};

use super::query::is_watch;

/// The time limit of a single request, in its extensions. It replaces the client's limit.
#[derive(Clone, Copy)]
pub(super) struct RequestTimeLimit(pub(super) Duration);

/// Fails a request whose response isn't complete in time. For a watch, only the response header
/// must arrive in time: kube's watcher ends silent watches, but only after they have started.
pub(super) struct RequestTimeout<S> {
    pub(super) inner: S,
    pub(super) limit: Duration,
    /// See [`DeadlineExceeded::server`].
    pub(super) server: Arc<str>,
}

/// The error text of a request without a complete response within `limit`.
pub(super) fn no_response_within(limit: Duration) -> String {
    format!("{DEADLINE_EXCEEDED}: {NO_RESPONSE_WITHIN}{limit:?}")
}

/// The error of a request that exceeded its timeout, with a text that starts with
/// [`DEADLINE_EXCEEDED`]. kube's client wraps it; use [`Self::find`].
#[derive(Debug, thiserror::Error)]
#[error("{}", no_response_within(*.limit))]
pub struct DeadlineExceeded {
    /// The host of the API server, with the port if its URL has one. Empty for a service in the
    /// same process.
    pub server: Arc<str>,
    pub limit: Duration,
    /// Whether the response had begun.
    pub has_begun: bool,
}

impl DeadlineExceeded {
    /// Finds this error in an error and its sources.
    #[must_use]
    pub fn find<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            // `io::Error::source` skips the inner error and returns the inner error's source.
            let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            next = match inner {
                Some(inner) => Some(inner as &(dyn Error + 'static)),
                None => error.source(),
            };
        }
        None
    }
}

impl<S, B> Service<Request<Body>> for RequestTimeout<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: 'static,
{
    type Response = Response<TimeoutBody<B>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_watch = is_watch(&request);
        let server = self.server.clone();
        let own = request.extensions().get::<RequestTimeLimit>();
        let limit = own.map_or(self.limit, |RequestTimeLimit(own)| *own);
        let deadline = Instant::now().checked_add(limit);
        let response = self.inner.call(request);
        Box::pin(async move {
            let response = match deadline {
                Some(deadline) => timeout_at(deadline, response).await.map_err(|_| {
                    DeadlineExceeded { server: server.clone(), limit, has_begun: false }
                })?,
                None => response.await,
            };
            let response = response.map_err(Into::into)?;
            let deadline = deadline.filter(|_| !is_watch);
            let with_deadline = |body| TimeoutBody {
                body,
                deadline,
                timer: None,
                error: Some(DeadlineExceeded { server, limit, has_begun: true }),
            };
            Ok::<_, BoxError>(response.map(with_deadline))
        })
    }
}

pin_project! {
    /// A body that ends with an error if it isn't complete at the deadline.
    pub(super) struct TimeoutBody<B> {
        #[pin]
        body: B,
        deadline: Option<Instant>,
        #[pin]
        timer: Option<Sleep>,
        // `None` if the body has ended with it.
        error: Option<DeadlineExceeded>,
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
        if this.error.is_none() {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = this.body.poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        ready!(poll_deadline(this.timer, *this.deadline, cx));
        Poll::Ready(this.error.take().map(|error| Err(error.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.error.is_none() || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Waits for the deadline, or forever if there is none. The timer is created on the first wait:
/// most bodies arrive together with the header and don't need one.
fn poll_deadline(
    mut timer: Pin<&mut Option<Sleep>>,
    deadline: Option<Instant>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    let Some(deadline) = deadline else { return Poll::Pending };
    if timer.is_none() {
        timer.set(Some(sleep_until(deadline)));
    }
    timer.as_pin_mut().map_or(Poll::Pending, |timer| timer.poll(cx))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::{BodyExt, StreamBody};
    use kube::{Client, client::ClientBuilder};
    use tokio::time::{sleep, timeout};
    use tower::layer::layer_fn;

    use super::*;

    fn with_timeout<S>(inner: S) -> RequestTimeout<S> {
        RequestTimeout { inner, limit: Duration::from_secs(10), server: "10.0.0.1:443".into() }
    }

    fn client_of_slow_server(delay: Duration) -> Client {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            sleep(delay).await;
            Ok::<_, Infallible>(Response::new(Body::from(b"{}".to_vec())))
        });
        ClientBuilder::new(service, "default").with_layer(&layer_fn(with_timeout)).build()
    }

    fn request(path: &str) -> Request<Body> {
        Request::get(path).body(Body::empty()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn request_without_response_times_out() {
        let client = client_of_slow_server(Duration::from_secs(60));
        let start = Instant::now();
        let error = client.send(request("/api/v1/pods?limit=1&watched=true")).await.unwrap_err();
        let text = "context deadline exceeded: no response within 10s";
        assert!(error.to_string().ends_with(text), "{error}");
        let exceeded = DeadlineExceeded::find(&error).unwrap();
        assert_eq!((&*exceeded.server, exceeded.has_begun), ("10.0.0.1:443", false));
        assert_eq!(start.elapsed(), Duration::from_secs(10));
    }

    /// kube's watcher also has a timeout, but that starts with the response header.
    #[tokio::test(start_paused = true)]
    async fn watch_without_response_times_out() {
        let client = client_of_slow_server(Duration::from_secs(60));
        let start = Instant::now();
        assert!(client.send(request("/api/v1/pods?limit=1&watch=true")).await.is_err());
        assert_eq!(start.elapsed(), Duration::from_secs(10));
    }

    #[tokio::test(start_paused = true)]
    async fn endless_body_times_out_unless_it_is_a_watch() {
        let service = tower::service_fn(|_: Request<Body>| async move {
            let endless = futures::stream::unfold((), |()| async {
                sleep(Duration::from_secs(4)).await;
                Body::from(b"more".to_vec()).frame().await.map(|frame| (frame, ()))
            });
            Ok::<_, Infallible>(Response::new(StreamBody::new(Box::pin(endless))))
        });
        let layer = layer_fn(with_timeout);
        let client = ClientBuilder::new(service, "default").with_layer(&layer).build();
        let start = Instant::now();
        let request = Request::get("/api/v1/pods").body(Vec::new()).unwrap();
        let error = client.request_text(request).await.unwrap_err();
        assert!(DeadlineExceeded::find(&error).unwrap().has_begun, "{error:?}");
        assert_eq!(start.elapsed(), Duration::from_secs(10));
        let watch = Request::get("/api/v1/pods?watch=1").body(Vec::new()).unwrap();
        let watch = timeout(Duration::from_secs(600), client.request_text(watch));
        assert!(watch.await.is_err());
    }
}
