//! The HTTP routes of the page: files, and streams of events (SSE).

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Query, Request, State},
    middleware::{self, Next},
    response::{
        Html, IntoResponse, Redirect, Response, Sse,
        sse::{Event, KeepAlive},
    },
    routing::get,
};
use futures::stream;
use hpa_calc::explain::one_line;
use hpa_controller::{Clock, HpaKey};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use serde::Deserialize;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::sleep,
};

use crate::{
    access::{Access, is_loopback},
    assets,
    cluster::Cluster,
    detail::Detail,
    json::to_json,
    model::Board,
    scales,
};

/// The maximum number of concurrent event streams. A visible tab has one for the list, and another
/// one if it shows an autoscaler.
const MAX_STREAMS: usize = 64;
/// After a change, wait for this time before the list is sent. This also limits how often the list
/// is sent.
const LIST_INTERVAL: Duration = Duration::from_secs(1);

/// The security headers of every response. The page must not load from or send to other sites, and
/// other sites must not frame or read it.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// The state that all requests share.
pub(crate) struct Site {
    pub(crate) access: Access,
    pub(crate) board: Arc<Board>,
    pub(crate) cluster: Arc<Cluster>,
    /// A permit for each event stream.
    streams: Arc<Semaphore>,
}

impl Site {
    pub(crate) fn new(access: Access, board: Arc<Board>, cluster: Arc<Cluster>) -> Self {
        Self { access, board, cluster, streams: Arc::new(Semaphore::new(MAX_STREAMS)) }
    }
}

pub(crate) fn router(site: Arc<Site>) -> Router {
    Router::new()
        .route("/", get(|| async { Html(assets::PAGE) }))
        .route("/api/about", get(about))
        .route("/api/autoscalers", get(stream_list))
        .route("/api/autoscaler", get(stream_autoscaler))
        .merge(assets::routes())
        .layer(middleware::from_fn_with_state(site.clone(), guard))
        .with_state(site)
}

/// Rejects requests that [`Access`] doesn't permit, and adds [`HEADERS`] to every response.
async fn guard(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let mut response = match admit(&site.access, &request) {
        Ok(()) => next.run(request).await,
        Err(response) => *response,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Checks a request. The error is the response to send instead: a refusal, or, if the request has a
/// valid token, a redirect that sets the cookie.
fn admit(access: &Access, request: &Request) -> Result<(), Box<Response>> {
    let refuse = |status, text| Err(Box::new(assets::refusal(status, text)));
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if !is_loopback(host.unwrap_or_default()) {
        return refuse(
            StatusCode::MISDIRECTED_REQUEST,
            "This server answers only requests to 127.0.0.1, [::1] and localhost.",
        );
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "The dashboard is read-only.");
    }
    let uri = request.uri();
    let parameters = || uri.query().unwrap_or_default().split('&');
    let token = parameters().find_map(|parameter| parameter.strip_prefix("token="));
    if let Some(cookie) = token.filter(|_| uri.path() == "/").and_then(|one| access.cookie_for(one))
    {
        // Redirect to the address without the token, to keep the token out of the browser's
        // history.
        let others = parameters().filter(|parameter| !parameter.starts_with("token="));
        let others: Vec<_> = others.collect();
        let query =
            if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
        let mut response = Redirect::to(&format!("/{query}")).into_response();
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        return Err(Box::new(response));
    }
    let mut cookies = request.headers().get_all(header::COOKIE).iter();
    if cookies.any(|cookies| cookies.to_str().is_ok_and(|cookies| access.has_valid_cookie(cookies)))
    {
        return Ok(());
    }
    refuse(StatusCode::FORBIDDEN, "Open the address that the command has printed: it has a token.")
}

async fn about(State(site): State<Arc<Site>>) -> impl IntoResponse {
    axum::Json(serde_json::json!({
        "cluster": one_line(&site.cluster.options.title),
        "namespace": site.cluster.options.namespace.as_deref().map(one_line),
        "version": env!("CARGO_PKG_VERSION"),
    }))
}

async fn stream_list(State(site): State<Arc<Site>>) -> Response {
    let Ok(permit) = site.streams.clone().try_acquire_owned() else { return too_many_streams() };
    let (sender, receiver) = mpsc::channel(1);
    let clock = site.cluster.options.clock.clone();
    tokio::spawn(send_list(site.board.clone(), clock, sender));
    event_stream(receiver, permit)
}

/// Sends all rows of the list, then the changed ones, until the receiver is dropped.
async fn send_list(board: Arc<Board>, clock: Arc<dyn Clock>, sender: mpsc::Sender<String>) {
    let now = clock.now();
    let oldest = now.checked_sub(scales::MAX_AGE).unwrap_or_default();
    let (mut updates, _viewer) = (board.subscribe(), board.add_viewer(oldest, now));
    let mut version = 0;
    loop {
        updates.borrow_and_update();
        let changes = board.changes_since(version, clock.now());
        version = changes.version;
        let Ok(message) = to_json(&changes) else { return };
        if sender.send(message).await.is_err() {
            return;
        }
        tokio::select! {
            result = updates.changed() => if result.is_err() { return },
            () = sender.closed() => return,
        }
        sleep(LIST_INTERVAL).await;
    }
}

#[derive(Deserialize)]
struct AutoscalerQuery {
    id: String,
}

/// Streams the page of one autoscaler, as [`Detail::run`] sends it.
async fn stream_autoscaler(
    State(site): State<Arc<Site>>,
    Query(AutoscalerQuery { id }): Query<AutoscalerQuery>,
) -> Response {
    let Some(id) = HpaKey::parse_id(&id) else {
        let text = "id must be core/NAMESPACE/NAME or custom/NAMESPACE/NAME\n";
        return (StatusCode::BAD_REQUEST, text).into_response();
    };
    let Ok(permit) = site.streams.clone().try_acquire_owned() else { return too_many_streams() };
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(Detail::new(id, site.cluster.clone(), site.board.clone()).run(sender));
    event_stream(receiver, permit)
}

fn too_many_streams() -> Response {
    (StatusCode::TOO_MANY_REQUESTS, "too many pages are open\n").into_response()
}

/// Sends the messages as server-sent events. The stream holds its permit.
fn event_stream(receiver: mpsc::Receiver<String>, permit: OwnedSemaphorePermit) -> Response {
    let events = stream::unfold((receiver, permit), |(mut receiver, permit)| async move {
        let event = Event::default().data(receiver.recv().await?);
        Some((Ok::<_, Infallible>(event), (receiver, permit)))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}
