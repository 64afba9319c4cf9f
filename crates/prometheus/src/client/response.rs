//! The status and the body of a response.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::{StreamExt, TryStreamExt, stream};
use http::{Response, Version, header};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::{Instant, timeout_at};
use tokio_util::{bytes::Bytes, io::StreamReader};

use crate::client::{
    error::{QueryFailure, status_hint},
    settings::Settings,
};

/// Whether the body may be JSON of Prometheus. A body with another content type comes from a proxy.
/// A response in HTTP/1.0 without a content type comes from a Go server that requires TLS.
pub(super) fn is_json(response: &Response<Body>) -> bool {
    match response.headers().get(header::CONTENT_TYPE) {
        Some(content_type) => content_type.as_bytes().starts_with(b"application/json"),
        None => response.version() != Version::HTTP_10,
    }
}

/// Accepts a success, and the errors 400, 422 and 503 of Prometheus.
pub(super) fn check_status(
    settings: &Settings,
    response: &Response<Body>,
) -> Result<(), QueryFailure> {
    let status = response.status();
    let is_error_of_prometheus = matches!(status.as_u16(), 400 | 422 | 503);
    if status.is_success() || is_error_of_prometheus && is_json(response) {
        return Ok(());
    }
    let server = settings.origin();
    let location = response.headers().get(header::LOCATION);
    let location = location.and_then(|location| location.to_str().ok());
    let hint = status_hint(status, location, &server);
    let (server, reported) = (server.into(), String::new());
    Err(QueryFailure::Status { server, status: status.as_u16(), reported, hint })
}

/// Converts the body to a reader that fails at the deadline or after too many bytes. `received`
/// counts the bytes.
pub(super) fn limited_reader(
    response: Response<Body>,
    deadline: Instant,
    max_bytes: u64,
    received: Arc<AtomicU64>,
) -> impl tokio::io::AsyncBufRead + Send + Unpin {
    let chunks = response.into_body().into_data_stream();
    let chunks = stream::try_unfold(chunks.boxed(), move |mut chunks| {
        let received = received.clone();
        async move {
            let chunk = timeout_at(deadline, chunks.try_next()).await;
            let chunk = chunk.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
            let chunk = chunk.map_err(io::Error::other)?;
            let len = chunk.as_ref().map_or(0, |chunk: &Bytes| chunk.len() as u64);
            if received.fetch_add(len, Ordering::Relaxed).saturating_add(len) > max_bytes {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            Ok::<_, io::Error>(chunk.map(|chunk| (chunk, chunks)))
        }
    });
    StreamReader::new(chunks.boxed())
}
