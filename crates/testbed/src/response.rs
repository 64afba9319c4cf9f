//! Builds HTTP responses.

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use crate::error::ApiError;

pub(crate) fn json(code: StatusCode, body: &Value) -> Response<Body> {
    json_stream(code, Body::from(body.to_string()))
}

/// A JSON response with this body, which may be a stream.
pub(crate) fn json_stream(code: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(crate) fn error(error: &ApiError) -> Response<Body> {
    let code = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(code, &error.to_status());
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The response for an unknown path, group or version.
pub(crate) fn not_found_page() -> Response<Body> {
    let mut response = plain_text("404 page not found\n");
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

pub(crate) fn plain_text(text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(text.to_owned()));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
