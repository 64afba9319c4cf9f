//! Sends one request on a connection and reads the response.

use std::pin::{Pin, pin};

use futures::{FutureExt, future::FusedFuture};
use hpa_metrics::{FairPermit, FairSemaphore};
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use http_body::Body as _;
use http_body_util::{BodyExt, Full};
use hyper::{
    body::{Bytes, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout_at};

use super::{
    connect::{Connection, Route},
    request::HttpRequest,
};
use crate::error::HttpError;

/// The size of a connection's buffer, which limits the head of a response.
const BUFFER_BYTES: usize = 64 << 10;

/// The maximum length of a body that can be read without a permit for large responses.
const SMALL_RESPONSE_BYTES: usize = 64 << 10;

/// A response with its body.
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// Held while the body is in memory, if it is large.
    _large_response: Option<FairPermit>,
}

impl Reply {
    /// Fails unless the status is 200.
    pub(crate) fn ok(self) -> Result<Self, HttpError> {
        if self.status == StatusCode::OK { Ok(self) } else { Err(HttpError::Status(self.status)) }
    }
}

/// Sends a request and reads the whole response. `deadline` is the end of the request's timeout.
pub(super) async fn exchange(
    connection: Connection,
    request: &HttpRequest,
    deadline: Instant,
    max_bytes: usize,
    large_responses: &FairSemaphore,
) -> Result<Reply, HttpError> {
    let message = hyper_request(&connection.route, request)?;
    let handshake = http1::Builder::new()
        .max_buf_size(BUFFER_BYTES)
        .handshake::<_, Full<Bytes>>(TokioIo::new(connection.io))
        .await;
    let (mut sender, driver) = handshake.map_err(HttpError::Connection)?;
    let mut driver = pin!(driver.fuse());
    let response = drive(driver.as_mut(), sender.send_request(message));
    let response = timeout_at(deadline, response).await;
    let response = response.map_err(|_| HttpError::Timeout(request.timeout))?;
    let (head, body) = response.map_err(HttpError::Connection)?.into_parts();
    let is_encoded = |value: &HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"identity");
    if head.headers.get(header::CONTENT_ENCODING).is_some_and(is_encoded) {
        return Err(HttpError::Encoding);
    }
    let body = read_body(body, max_bytes, request, deadline, large_responses);
    let body = timeout_at(deadline, drive(driver, body)).await;
    let (body, permit) = body.map_err(|_| HttpError::SlowResponse(request.timeout))??;
    Ok(Reply { status: head.status, headers: head.headers, body, _large_response: permit })
}

/// Runs the connection until `work` is done. The connection has no task of its own, so it ends if
/// the caller drops the request.
async fn drive<T>(
    mut driver: Pin<&mut (impl FusedFuture<Output = hyper::Result<()>> + ?Sized)>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    if driver.is_terminated() {
        return work.await;
    }
    tokio::select! {
        biased;
        result = &mut work => result,
        // The connection has ended. `work` then returns an error or its result.
        _ = &mut driver => work.await,
    }
}

fn hyper_request(route: &Route, request: &HttpRequest) -> Result<Request<Full<Bytes>>, HttpError> {
    let host = request.uri.authority().map_or("", |authority| authority.as_str());
    let host = host.rsplit('@').next().unwrap_or_default();
    let host = HeaderValue::try_from(host).map_err(|_| HttpError::Url("is invalid"))?;
    let mut message = Request::new(Full::new(request.body.clone()));
    *message.method_mut() = request.method.clone();
    let headers = message.headers_mut();
    headers.insert(header::HOST, host);
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static("hpa"));
    for (name, value) in &request.headers {
        headers.insert(name, value.clone());
    }
    match route {
        Route::Server => {
            let path = request.uri.path_and_query().map_or("/", |path| path.as_str());
            let path = path.parse().map_err(|_| HttpError::Url("is invalid"))?;
            *message.uri_mut() = path;
        }
        Route::Proxy(authorization) => {
            let authorization = authorization.clone();
            headers.extend(authorization.map(|value| (header::PROXY_AUTHORIZATION, value)));
            *message.uri_mut() = request.uri.clone();
        }
    }
    Ok(message)
}

/// Reads a body. Waits for a permit before it becomes longer than [`SMALL_RESPONSE_BYTES`].
async fn read_body(
    mut body: Incoming,
    max_bytes: usize,
    request: &HttpRequest,
    deadline: Instant,
    large_responses: &FairSemaphore,
) -> Result<(Vec<u8>, Option<FairPermit>), HttpError> {
    let expected = body.size_hint().lower();
    if usize::try_from(expected).is_ok_and(|expected| expected > max_bytes) {
        return Err(HttpError::TooLong(max_bytes));
    }
    let (mut bytes, mut permit) = (Vec::new(), None);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(HttpError::Connection)?;
        let Ok(data) = frame.into_data() else { continue };
        let len = bytes.len() + data.len();
        if len > max_bytes {
            return Err(HttpError::TooLong(max_bytes));
        }
        if len > SMALL_RESPONSE_BYTES && permit.is_none() {
            let acquired = timeout_at(deadline, large_responses.acquire(&request.namespace)).await;
            permit = acquired.map_err(|_| HttpError::BusyReading(request.timeout))?;
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes, permit))
}
