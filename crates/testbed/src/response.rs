//! Builds HTTP responses.

use axum::{body::Body, response::IntoResponse};
use http::{
    HeaderValue, Response, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use serde_json::Value;

use crate::error::ApiError;

pub(crate) fn json(code: StatusCode, body: &Value) -> Response<Body> {
    json_stream(code, Body::from(body.to_string()))
}

/// A JSON response with this body, which may be a stream.
pub(crate) fn json_stream(code: StatusCode, body: Body) -> Response<Body> {
    (code, [(CONTENT_TYPE, "application/json")], body).into_response()
}

pub(crate) fn error(error: &ApiError) -> Response<Body> {
    let code = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(code, &error.to_status());
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The response for an unknown path, group or version.
pub(crate) fn not_found_page() -> Response<Body> {
    (StatusCode::NOT_FOUND, "404 page not found\n").into_response()
}
