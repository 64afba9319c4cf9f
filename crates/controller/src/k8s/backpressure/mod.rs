//! Holds requests back: after a 429 response (`TooManyRequests`), and while too many requests for
//! the same API group wait for their responses.

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::future::{BoxFuture, Either};
use hpa_metrics::KeyedSemaphores;
use http::{HeaderMap, Request, Response, StatusCode, header};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::{
    sync::Semaphore,
    time::{Instant, Sleep, sleep_until},
};
use tower::{BoxError, Layer, Service, ServiceExt, buffer::Buffer};

use super::page_size::is_page;

/// For a 429 without a usable `Retry-After`.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// The maximum number of requests in the buffer between this layer and the layers below.
const MAX_BUFFERED: usize = 1024;

/// Pages of lists have a limit of their own: an API group's limit divided by this. So they don't
/// queue behind other requests. At the start, thousands of objects may be read one by one until a
/// complete list makes these reads unnecessary.
const PAGE_LIMIT_DIVISOR: usize = 8;

/// After a 429 response, holds requests back for the time in `Retry-After`, but at most for
/// `max_delay`. Otherwise each of hundreds of autoscalers would send a request to an overloaded
/// server. The refused request is not retried here: the next reconcile does that.
///
/// If API Priority and Fairness refused the request, the API server is overloaded, and all requests
/// wait. Any other 429 concerns one API group, for example the metrics adapter behind it: only
/// requests for that group wait.
#[derive(Clone, Copy)]
pub(super) struct BackpressureLayer {
    pub(super) max_delay: Duration,
    /// The maximum number of requests for one API group that wait for their responses. Pages of
    /// lists have a limit of their own, an eighth of it.
    pub(super) group_concurrency: usize,
}

impl<S> Layer<S> for BackpressureLayer
where
    S: Service<Request<Body>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + Send + Sync + 'static,
{
    type Service = Backpressure<S::Future>;

    fn layer(&self, inner: S) -> Self::Service {
        Backpressure {
            // The buffer can be cloned. A waiting request gets a clone, so that it doesn't hold a
            // permit of the limits below.
            inner: Buffer::new(inner, MAX_BUFFERED),
            max_delay: self.max_delay,
            blocked: Arc::default(),
            limit: KeyedSemaphores::new(self.group_concurrency),
            page_limit: KeyedSemaphores::new(self.group_concurrency.div_ceil(PAGE_LIMIT_DIVISOR)),
            wait: None,
        }
    }
}

/// The service of [`BackpressureLayer`].
pub(super) struct Backpressure<F> {
    inner: Buffer<Request<Body>, F>,
    max_delay: Duration,
    blocked: Arc<Mutex<BlockedUntil>>,
    /// The limit of each API group, so that a group whose requests hang leaves connections to the
    /// others.
    limit: KeyedSemaphores,
    /// The limit of each API group for pages of lists.
    page_limit: KeyedSemaphores,
    wait: Option<Pin<Box<Sleep>>>,
}

/// The times until which requests wait.
#[derive(Default)]
struct BlockedUntil {
    all: Option<Instant>,
    groups: HashMap<Box<str>, Instant>,
}

impl BlockedUntil {
    fn all_until(&self) -> Option<Instant> {
        self.all.filter(|until| Instant::now() < *until)
    }

    /// The time until which the requests for an API group wait, if they must.
    fn group_until(&self, group: &str) -> Option<Instant> {
        let until = self.groups.get(group).copied().max(self.all)?;
        (Instant::now() < until).then_some(until)
    }

    fn block_after_429(&mut self, headers: &HeaderMap, group: &str, max_delay: Duration) {
        let delay = retry_after(headers).unwrap_or(DEFAULT_RETRY_AFTER).min(max_delay);
        let until = Instant::now() + delay;
        if is_from_priority_and_fairness(headers) {
            self.all = self.all.max(Some(until));
        } else {
            self.block_group(group, until);
        }
    }

    fn block_group(&mut self, group: &str, until: Instant) {
        let now = Instant::now();
        self.groups.retain(|_, until| now < *until);
        let blocked = self.groups.entry(group.into()).or_insert(until);
        *blocked = until.max(*blocked);
    }
}

impl<F, C, E> Service<Request<Body>> for Backpressure<F>
where
    F: Future<Output = Result<Response<C>, E>> + Send + 'static,
    E: Into<BoxError> + 'static,
    C: 'static,
{
    type Response = Response<C>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<C>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        loop {
            if let Some(wait) = &mut self.wait {
                ready!(wait.as_mut().poll(cx));
                self.wait = None;
            }
            let Some(until) = self.blocked.lock().all_until() else { break };
            self.wait = Some(Box::pin(sleep_until(until)));
        }
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let group: Box<str> = api_group(request.uri().path()).into();
        let blocked = self.blocked.clone();
        let is_blocked = blocked.lock().group_until(&group).is_some();
        let limits = if is_page(&request) { &self.page_limit } else { &self.limit };
        let limit = limits.semaphore(&group);
        let permit = limit.clone().try_acquire_owned().ok().filter(|_| !is_blocked);
        let response = if permit.is_some() {
            Either::Left(self.inner.call(request))
        } else {
            let (inner, group) = (self.inner.clone(), Box::clone(&group));
            Either::Right(send_later(inner, blocked, limit, group, request))
        };
        let (blocked, max_delay) = (self.blocked.clone(), self.max_delay);
        Box::pin(async move {
            let response = response.await;
            // The permit is held until the response arrives.
            drop(permit);
            let response = response?;
            if response.status() == StatusCode::TOO_MANY_REQUESTS {
                blocked.lock().block_after_429(response.headers(), &group, max_delay);
            }
            Ok::<_, BoxError>(response)
        })
    }
}

/// Sends a request when its group is neither blocked nor at its limit.
async fn send_later<F, C, E>(
    inner: Buffer<Request<Body>, F>,
    blocked: Arc<Mutex<BlockedUntil>>,
    limit: Arc<Semaphore>,
    group: Box<str>,
    request: Request<Body>,
) -> Result<Response<C>, BoxError>
where
    F: Future<Output = Result<Response<C>, E>> + Send + 'static,
    E: Into<BoxError> + 'static,
{
    loop {
        let permit = limit.acquire().await;
        let until = blocked.lock().group_until(&group);
        match until {
            Some(until) => {
                drop(permit);
                sleep_until(until).await;
            }
            None => return inner.oneshot(request).await,
        }
    }
}

/// The API group in a path. Empty for the core group, and for a path without a group.
fn api_group(path: &str) -> &str {
    let group = path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next());
    group.unwrap_or_default()
}

/// The delay in `Retry-After`. The API server sends seconds, never a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    Some(Duration::from_secs(value.trim().parse().ok()?))
}

/// Whether a 429 comes from the API server's Priority and Fairness, and not from its handlers or
/// from an aggregated API.
///
/// A rejection is a fixed text, while handlers send a Status object. The headers of flow schemas
/// alone say nothing: the API server adds them to every response. If an aggregated API server
/// rejects a request, kube-apiserver adds its own headers to that response, so at least one of
/// these appears twice: the flow schema, `audit-id`, `cache-control`.
fn is_from_priority_and_fairness(headers: &HeaderMap) -> bool {
    const TEXT: &str = "Too many requests, please try again later.\n";
    let header_is = |name: header::HeaderName, expected: &str| {
        headers.get(name).is_some_and(|value| value.as_bytes() == expected.as_bytes())
    };
    let count = |name: &str| headers.get_all(name).iter().count();
    count("x-kubernetes-pf-flowschema-uid") == 1
        && count("audit-id") <= 1
        && count("cache-control") <= 1
        && header_is(header::CONTENT_TYPE, "text/plain; charset=utf-8")
        && header_is(header::CONTENT_LENGTH, &TEXT.len().to_string())
}
