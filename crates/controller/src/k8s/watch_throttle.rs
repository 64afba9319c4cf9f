//! Limits how often a watch of the same objects starts.

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
use tower::{BoxError, Service};

use super::query::is_watch;

/// Delays the responses to watches, so that watches of the same path start at most once per
/// interval. If a watch ends without an error, kube's watcher starts another one at once. If a
/// proxy, for example, ended every watch immediately, nothing else would limit the requests.
pub(super) struct WatchThrottle<S> {
    inner: S,
    interval: Duration,
    /// By path, the earliest start of the next watch.
    next_start: HashMap<String, Instant>,
}

impl<S> WatchThrottle<S> {
    pub(super) fn new(inner: S, interval: Duration) -> Self {
        Self { inner, interval, next_start: HashMap::new() }
    }
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
        let path = request.uri().path();
        let now = Instant::now();
        let start = self.next_start.get(path).map_or(now, |next| now.max(*next));
        self.next_start.insert(path.to_owned(), start + self.interval);
        let response = self.inner.call(request);
        Either::Right(Box::pin(async move {
            let response = response.await.map_err(Into::into);
            // Delays the response and not the request, which would hold up the requests behind it.
            sleep_until(start).await;
            response
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;
    use kube::client::{Body, ClientBuilder};
    use tokio::time::sleep;
    use tower::layer::layer_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn watches_of_the_same_path_start_an_interval_apart() {
        let service = tower::service_fn(|_: Request<Body>| async {
            Ok::<_, Infallible>(Response::new(Body::empty()))
        });
        let layer = layer_fn(|inner| WatchThrottle::new(inner, Duration::from_secs(1)));
        let client = ClientBuilder::new(service, "default").with_layer(&layer).build();
        let send = |path: &str| client.send(Request::get(path).body(Body::empty()).unwrap());
        let start = Instant::now();
        for path in ["/pods?watch=true", "/others?watch=1", "/pods", "/pods?limit=1"] {
            send(path).await.unwrap();
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        for _ in 0..3 {
            send("/pods?watch=true").await.unwrap();
        }
        assert!(start.elapsed() >= Duration::from_secs(3), "{:?}", start.elapsed());
        sleep(Duration::from_mins(1)).await;
        let after_pause = Instant::now();
        send("/pods?watch=true").await.unwrap();
        assert_eq!(after_pause.elapsed(), Duration::ZERO);
    }
}
