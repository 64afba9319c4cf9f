//! Adapts the page size of lists to the size of the objects.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures::{TryFutureExt, future::BoxFuture};
use hpa_calc::explain::counted;
use http::{Method, Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use kube::client::Body;
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tokio_util::bytes::Buf;
use tower::{BoxError, Service};

use super::query::{is_watch, query_parameter, with_query_parameter};

/// The maximum number of objects per page. Callers request it, and this layer reduces it.
pub(crate) const MAX_PAGE_SIZE: u32 = 250;

/// The number of objects in the first page. By default, etcd stores objects of up to 1.5 MiB, so
/// the page has at most 12 MiB.
const FIRST_PAGE_SIZE: u32 = 8;

/// The target size of a page in bytes. A page is in memory as a whole before its objects are
/// reduced to what the caches need.
const TARGET_BYTES: usize = 4 << 20;

/// A page that is larger ends with an error, unless a single object was requested.
const MAX_BYTES: usize = 32 << 20;

/// The maximum growth of a page: this many times the objects of the last one.
const MAX_GROWTH: u32 = 4;

/// The number of objects in the next page, by path. There are few paths: one per kind and scope,
/// and one per namespace whose pods a reconcile lists.
type Sizes = Arc<Mutex<HashMap<String, u32>>>;

/// Reduces the `limit` of list requests, so that pages of a path have about [`TARGET_BYTES`].
pub(super) struct PageSize<S> {
    inner: S,
    sizes: Sizes,
}

impl<S> PageSize<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner, sizes: Arc::default() }
    }
}

/// A page is too large. The next request asks for fewer objects.
#[derive(Debug, thiserror::Error)]
#[error(
    "a page of {} is larger than {MAX_BYTES} bytes, the next request asks for fewer objects",
    counted(*.object_limit, "object")
)]
struct PageTooLarge {
    object_limit: u32,
}

impl<S, B> Service<Request<Body>> for PageSize<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<PageBody<B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let page = requested_page_size(&request).and_then(|requested| {
            let path = request.uri().path().to_owned();
            let next = self.sizes.lock().get(&path).copied().unwrap_or(FIRST_PAGE_SIZE);
            let object_limit = requested.min(next);
            *request.uri_mut() = with_query_parameter(request.uri(), "limit", object_limit)?;
            Some(Page { sizes: Arc::clone(&self.sizes), path, object_limit, bytes: 0 })
        });
        Box::pin(self.inner.call(request).map_ok(move |response| {
            let page = page.filter(|_| response.status().is_success());
            response.map(|body| PageBody { body, page })
        }))
    }
}

/// Whether a request is for a page of a list. A page of a single object doesn't count.
pub(super) fn is_page(request: &Request<Body>) -> bool {
    requested_page_size(request).is_some()
}

/// The `limit` of a list request. `None` for other requests, and for `limit=1`, because the size of
/// one object says nothing about the next page.
fn requested_page_size(request: &Request<Body>) -> Option<u32> {
    if *request.method() != Method::GET || is_watch(request) {
        return None;
    }
    let limit = query_parameter(request.uri(), "limit")?.parse().ok();
    limit.filter(|limit| *limit > 1)
}

/// A page that is being received.
struct Page {
    sizes: Sizes,
    path: String,
    /// The `limit` of the request.
    object_limit: u32,
    /// The bytes that were received.
    bytes: usize,
}

impl Page {
    /// Counts received bytes. If the page is too large, fails and reduces the next page.
    fn add_bytes(&mut self, bytes: usize) -> Result<(), PageTooLarge> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_BYTES && self.object_limit > 1 {
            // The page is more than eight times as large as its target.
            self.set_next((self.object_limit / 8).max(1));
            return Err(PageTooLarge { object_limit: self.object_limit });
        }
        Ok(())
    }

    /// Sets the size of the next page by the bytes of this complete one. The objects aren't
    /// counted, so a page with fewer than `object_limit` objects makes the next one too large.
    /// [`MAX_GROWTH`] and [`MAX_BYTES`] limit that.
    fn finish(&self) {
        let fitting = u64::from(self.object_limit) * TARGET_BYTES as u64 / self.bytes.max(1) as u64;
        let largest = self.object_limit.saturating_mul(MAX_GROWTH).min(MAX_PAGE_SIZE);
        self.set_next(u32::try_from(fitting).unwrap_or(largest).clamp(1, largest.max(1)));
    }

    fn set_next(&self, objects: u32) {
        self.sizes.lock().insert(self.path.clone(), objects);
    }
}

pin_project! {
    /// A body whose size determines the next page size.
    pub(super) struct PageBody<B> {
        #[pin]
        body: B,
        page: Option<Page>,
    }
}

impl<B> HttpBody for PageBody<B>
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
        let mut this = self.project();
        let frame = ready!(this.body.as_mut().poll_frame(cx)).transpose().map_err(Into::into);
        let bytes = frame.as_ref().ok().and_then(Option::as_ref).and_then(Frame::data_ref);
        let received = match (this.page.as_mut(), bytes) {
            (Some(page), Some(data)) => page.add_bytes(data.remaining()),
            _ => Ok(()),
        };
        let is_last = matches!(frame, Ok(None)) || this.body.is_end_stream();
        if let Some(page) = this.page.take_if(|_| is_last && received.is_ok()) {
            page.finish();
        }
        Poll::Ready(received.map_err(Into::into).and(frame).transpose())
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

    use kube::client::{Client, ClientBuilder};
    use tower::layer::layer_fn;

    use super::*;

    /// A client of a server whose objects have this size. The server responds with the requested
    /// number of objects and records that number.
    fn client_of_server(object_bytes: &Arc<Mutex<usize>>) -> (Client, Arc<Mutex<Vec<u32>>>) {
        let limits = Arc::new(Mutex::new(Vec::new()));
        let (received, object_bytes) = (limits.clone(), object_bytes.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let limit = requested_page_size(&request).unwrap_or(0);
            received.lock().push(limit);
            let bytes = limit as usize * *object_bytes.lock();
            async move { Ok::<_, Infallible>(Response::new(Body::from(vec![b' '; bytes]))) }
        });
        let layer = layer_fn(PageSize::new);
        let client = ClientBuilder::new(service, "default").with_layer(&layer).build();
        (client, limits)
    }

    async fn list(client: &Client, path: &str) -> Result<String, kube::Error> {
        client.request_text(Request::get(path).body(Vec::new()).unwrap()).await
    }

    const PODS: &str = "/api/v1/pods?a=b&limit=250&c=d";

    #[tokio::test]
    async fn page_size_adapts_to_the_objects() {
        let object_bytes = Arc::new(Mutex::new(1000));
        let (client, limits) = client_of_server(&object_bytes);
        for bytes in [1000, 1000, 1000, 1000, 100_000, 100_000, 500_000, 500_000, 1000] {
            *object_bytes.lock() = bytes;
            list(&client, PODS).await.unwrap();
        }
        assert_eq!(*limits.lock(), [8, 32, 128, 250, 250, 41, 41, 8, 8]);
        list(&client, PODS).await.unwrap();
        assert_eq!(limits.lock().last(), Some(&32), "grows again");
    }

    #[tokio::test]
    async fn page_that_is_too_large_is_repeated_with_fewer_objects() {
        let object_bytes = Arc::new(Mutex::new(1000));
        let (client, limits) = client_of_server(&object_bytes);
        for _ in 0..3 {
            list(&client, PODS).await.unwrap();
        }
        *object_bytes.lock() = 1 << 20;
        let error = list(&client, PODS).await.unwrap_err();
        assert!(
            hpa_metrics::describe(&error).contains("a page of 250 objects is larger"),
            "{error}"
        );
        list(&client, PODS).await.unwrap();
        assert_eq!(limits.lock()[3..], [250, 31]);
    }

    #[tokio::test]
    async fn request_for_one_object_does_not_change_the_page_size() {
        let (client, limits) = client_of_server(&Arc::new(Mutex::new(1000)));
        for path in [PODS, "/api/v1/pods?limit=1", PODS] {
            list(&client, path).await.unwrap();
        }
        assert_eq!(*limits.lock(), [8, 0, 32]);
    }

    #[tokio::test]
    async fn other_paths_and_requests_are_not_affected() {
        let object_bytes = Arc::new(Mutex::new(1 << 20));
        let (client, limits) = client_of_server(&object_bytes);
        for path in [PODS, "/apis/apps/v1/deployments?limit=250", PODS, "/api/v1/pods?limit=3"] {
            list(&client, path).await.unwrap();
        }
        list(&client, "/api/v1/pods?watch=1&limit=7").await.unwrap();
        list(&client, "/api/v1/pods?labelSelector=a").await.unwrap();
        assert_eq!(*limits.lock(), [8, 8, 4, 3, 0, 0]);
    }
}
