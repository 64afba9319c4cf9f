//! A client that reports which watches start, and when they confirm the cache.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use http::Request;
use http_body::{Body as HttpBody, Frame, SizeHint};
use kube::{Client, client::Body};
use pin_project_lite::pin_project;
use tokio::{sync::Notify, time::Instant};
use tower::service_fn;

use crate::{cache::WatchAge, k8s::is_watch};

/// What is known about the running watch request of an informer. kube's watcher reports neither
/// bookmarks nor the end of a watch.
#[derive(Debug)]
pub(super) struct WatchRequest {
    /// The API server accepted a watch request. A watch that resumes delivers no event by itself.
    pub(super) started: Notify,
    /// The age that the watch confirms.
    pub(super) age: Arc<WatchAge>,
    has_failed: AtomicBool,
}

impl WatchRequest {
    pub(super) fn new(age: Arc<WatchAge>) -> Arc<Self> {
        Arc::new(Self { started: Notify::new(), age, has_failed: AtomicBool::new(false) })
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

    /// A client that reports its watches to `self`.
    pub(super) fn observe(self: &Arc<Self>, client: &Client) -> Client {
        let (client, namespace) = (client.clone(), client.default_namespace().to_owned());
        let this = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let (client, this) = (client.clone(), this.clone());
            async move {
                let is_watch = is_watch(&request);
                let response = client.send(request).await?;
                let watch = (is_watch && response.status().is_success()).then_some(this);
                if let Some(watch) = &watch {
                    watch.start();
                }
                Ok::<_, kube::Error>(response.map(|body| WatchBody { body, watch, received: None }))
            }
        });
        Client::new(service, namespace)
    }
}

pin_project! {
    /// A response body. That of a watch confirms the cache with everything that the API server
    /// sends, and with its end.
    struct WatchBody {
        #[pin]
        body: Body,
        watch: Option<Arc<WatchRequest>>,
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
            None => watch.confirm(Instant::now()),
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
