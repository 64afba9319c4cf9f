//! A client that reports when watches start, and when they confirm the cache, and that sets the
//! timeouts of watches.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use http::Request;
use http_body::{Body as HttpBody, Frame, SizeHint};
use kube::{Client, client::Body};
use pin_project_lite::pin_project;
use tokio::{sync::Notify, time::Instant};
use tower::service_fn;

use super::rewind_check::RewindCheck;
use crate::{
    cache::WatchAge,
    k8s::{is_watch, query_parameter, with_query_parameter},
};

/// Observes the requests of an informer's watch: their start, end and failures. kube's watcher
/// reports neither bookmarks nor the end of a watch.
#[derive(Debug)]
pub(super) struct WatchObserver {
    /// Notified when the API server accepts a watch request, because a watch that resumes delivers
    /// no event by itself.
    pub(super) started: Notify,
    /// The age of the cache. Each confirmation resets it.
    pub(super) age: Arc<WatchAge>,
    pub(super) rewind_check: Arc<RewindCheck>,
    /// The timeout of a watch. An older cache shortens it, see [`Self::next_timeout`].
    timeout: Duration,
    /// Whether the running watch has reported a failure, so that the rest of it confirms nothing.
    has_failed: AtomicBool,
}

impl WatchObserver {
    pub(super) fn new(age: Arc<WatchAge>, timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            started: Notify::new(),
            age,
            rewind_check: Arc::new(RewindCheck::new()),
            timeout,
            has_failed: AtomicBool::new(false),
        })
    }

    pub(super) fn set_failed(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    fn start(&self) {
        self.has_failed.store(false, Ordering::Relaxed);
        self.age.set_error(None);
        self.started.notify_one();
    }

    fn confirm(&self, at: Instant) {
        if !self.has_failed.load(Ordering::Relaxed) {
            self.age.confirm(at);
        }
    }

    /// The timeout of a watch that is requested now. The age of the cache shortens it, so that a
    /// cache that took long to list is also confirmed in time.
    fn next_timeout(&self) -> Duration {
        let rest = self.timeout.saturating_sub(self.age.age().unwrap_or_default());
        // Requests have timeouts in whole seconds, and zero means no timeout.
        Duration::from_secs(rest.as_millis().div_ceil(1000).max(1).try_into().unwrap_or(u64::MAX))
    }

    /// Handles the end of the watch that was requested at `requested` with `timeout`.
    fn end(&self, requested: Instant, timeout: Duration) {
        self.confirm(Instant::now());
        // Tolerates an end that is up to 2 s early.
        if requested.elapsed() + Duration::from_secs(2) > timeout {
            self.rewind_check.watch_timed_out();
        }
    }

    /// A client that reports its requests to `self`, and sets `timeoutSeconds` of watches to
    /// [`Self::next_timeout`].
    pub(super) fn instrument(self: &Arc<Self>, client: &Client) -> Client {
        let (client, namespace) = (client.clone(), client.default_namespace().to_owned());
        let this = self.clone();
        let service = service_fn(move |mut request: Request<Body>| {
            let (client, this) = (client.clone(), this.clone());
            async move {
                let is_watch = is_watch(&request);
                let timeout = this.next_timeout();
                if is_watch {
                    let (uri, seconds) = (request.uri(), timeout.as_secs());
                    if let Some(uri) = with_query_parameter(uri, "timeoutSeconds", seconds) {
                        *request.uri_mut() = uri;
                    }
                    let version = query_parameter(request.uri(), "resourceVersion");
                    this.rewind_check.watch_requested(version.unwrap_or_default());
                } else {
                    this.rewind_check.list_requested();
                }
                let requested = Instant::now();
                let response = client.send(request).await?;
                let observer = (is_watch && response.status().is_success()).then_some(this);
                if let Some(observer) = &observer {
                    observer.start();
                }
                let body = |body| WatchBody { body, observer, requested, timeout, received: None };
                Ok::<_, kube::Error>(response.map(body))
            }
        });
        Client::new(service, namespace)
    }
}

pin_project! {
    /// A response body. Each frame and the end of a watch's body confirm the cache.
    struct WatchBody {
        #[pin]
        body: Body,
        observer: Option<Arc<WatchObserver>>,
        requested: Instant,
        timeout: Duration,
        // The time when the last frame arrived. It confirms the cache only when the next frame is
        // polled: by then, the informer has applied the event, or reported its failure.
        received: Option<Instant>,
    }
}

impl HttpBody for WatchBody {
    type Data = <Body as HttpBody>::Data;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.project();
        let Some(observer) = this.observer else { return this.body.poll_frame(cx) };
        if let Some(received) = this.received.take() {
            observer.confirm(received);
        }
        let frame = ready!(this.body.poll_frame(cx));
        match &frame {
            Some(Ok(_)) => *this.received = Some(Instant::now()),
            Some(Err(_)) => {}
            None => observer.end(*this.requested, *this.timeout),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;
    use tokio::{sync::mpsc, time::advance};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn watch_of_an_old_cache_has_a_shorter_timeout() {
        let (sent, mut received) = mpsc::unbounded_channel();
        let server = service_fn(move |request: Request<Body>| {
            sent.send(request.uri().to_string()).expect("the test runs");
            std::future::ready(Ok::<_, Infallible>(Response::new(Body::empty())))
        });
        let age = Arc::<WatchAge>::default();
        let observer = WatchObserver::new(age.clone(), Duration::from_secs(27));
        let client = observer.instrument(&Client::new(server, "default"));
        let mut requested = async |parameters: &str| {
            let request = Request::get(format!("/pods?{parameters}")).body(Body::empty());
            client.send(request.expect("a request")).await.expect("a response");
            received.recv().await.expect("a request")
        };
        let watch = "watch=true&timeoutSeconds=27&resourceVersion=5";
        assert_eq!(requested(watch).await, format!("/pods?{watch}"));
        age.list_started();
        advance(Duration::from_millis(9_500)).await;
        age.list_completed();
        let expected = "/pods?watch=true&timeoutSeconds=18&resourceVersion=5";
        assert_eq!(requested(watch).await, expected, "the list took 9.5 s");
        advance(Duration::from_mins(1)).await;
        let expected = "/pods?watch=true&timeoutSeconds=1&resourceVersion=5";
        assert_eq!(requested(watch).await, expected, "zero would be no timeout");
        let list = "limit=250&timeoutSeconds=27";
        assert_eq!(requested(list).await, format!("/pods?{list}"));
    }
}
