//! A client that reports which watches start, and when they confirm the cache.

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
use crate::{cache::WatchAge, k8s::is_watch};

/// The running watch request of an informer. kube's watcher reports neither bookmarks nor the end
/// of a watch.
#[derive(Debug)]
pub(super) struct WatchRequest {
    /// The API server accepted a watch request. A watch that resumes delivers no event by itself.
    pub(super) started: Notify,
    /// The age that the watch confirms.
    pub(super) age: Arc<WatchAge>,
    pub(super) rewind_check: Arc<RewindCheck>,
    /// The time after which the API server ends the watch.
    timeout: Duration,
    has_failed: AtomicBool,
}

impl WatchRequest {
    pub(super) fn new(age: Arc<WatchAge>, timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            started: Notify::new(),
            age,
            rewind_check: Arc::new(RewindCheck::new()),
            timeout,
            has_failed: AtomicBool::new(false),
        })
    }

    /// The running watch reported a failure, so the rest of it confirms nothing.
    pub(super) fn set_failed(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    fn start(&self) {
        self.has_failed.store(false, Ordering::Relaxed);
        self.started.notify_one();
    }

    fn confirm(&self, at: Instant) {
        if !self.has_failed.load(Ordering::Relaxed) {
            self.age.confirm(at);
        }
    }

    /// The API server ended the watch that was requested at this time.
    fn end(&self, requested: Instant) {
        self.confirm(Instant::now());
        // The request has whole seconds, and the response may be early by the time it travels.
        if requested.elapsed() + Duration::from_secs(2) > self.timeout {
            self.rewind_check.watch_timed_out();
        }
    }

    /// A client that reports its requests to `self`.
    pub(super) fn observe(self: &Arc<Self>, client: &Client) -> Client {
        let (client, namespace) = (client.clone(), client.default_namespace().to_owned());
        let this = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let (client, this) = (client.clone(), this.clone());
            async move {
                let is_watch = is_watch(&request);
                if is_watch {
                    this.rewind_check.watch_requested(resource_version(&request));
                } else {
                    this.rewind_check.list_requested();
                }
                let requested = Instant::now();
                let response = client.send(request).await?;
                let watch = (is_watch && response.status().is_success()).then_some(this);
                if let Some(watch) = &watch {
                    watch.start();
                }
                let body = |body| WatchBody { body, watch, requested, received: None };
                Ok::<_, kube::Error>(response.map(body))
            }
        });
        Client::new(service, namespace)
    }
}

/// The version at which a watch starts.
fn resource_version<B>(request: &Request<B>) -> &str {
    let mut parameters = request.uri().query().unwrap_or_default().split('&');
    let version = parameters.find_map(|parameter| parameter.strip_prefix("resourceVersion="));
    version.unwrap_or_default()
}

pin_project! {
    /// A response body. That of a watch confirms the cache with everything that the API server
    /// sends, and with its end.
    struct WatchBody {
        #[pin]
        body: Body,
        watch: Option<Arc<WatchRequest>>,
        requested: Instant,
        // When the last frame arrived. It confirms the cache when the next one is requested: by
        // then, the informer has applied its event, or reported its failure.
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
        let Some(watch) = this.watch else { return this.body.poll_frame(cx) };
        if let Some(received) = this.received.take() {
            watch.confirm(received);
        }
        let frame = ready!(this.body.poll_frame(cx));
        match &frame {
            Some(Ok(_)) => *this.received = Some(Instant::now()),
            Some(Err(_)) => {}
            None => watch.end(*this.requested),
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
