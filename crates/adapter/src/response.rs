//! Responses.

use crate::metrics_api::{EncodeError, MediaType, Query, StatusError, accept};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use hyper::body::Bytes;
use serde::Serialize;
use tracing::error;

/// A response of this server.
pub(crate) type Reply = Response<Bytes>;

const TEXT: &str = "text/plain; charset=utf-8";

/// What a request says about its response.
#[derive(Clone, Copy)]
pub(crate) struct Preferences<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: &'a Query,
}

impl Preferences<'_> {
    /// The header `Accept`, or an empty text.
    pub(crate) fn accept(&self) -> &str {
        self.header(header::ACCEPT)
    }

    pub(crate) fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The media type of a response, with these conversions.
    pub(crate) fn negotiate(
        &self,
        conversions: accept::Conversions,
    ) -> Result<MediaType, StatusError> {
        let media_type = accept::negotiate(self.accept(), conversions);
        let media_type =
            media_type.map_err(|error| StatusError::not_acceptable(error.to_string()))?;
        let is_pretty = media_type.is_pretty
            || accept::asks_for_pretty(self.query, self.header(header::USER_AGENT));
        Ok(MediaType { is_pretty, ..media_type })
    }

    /// An error. If the client doesn't accept any media type for it, it is JSON.
    pub(crate) fn error(&self, error: &StatusError) -> Reply {
        let media_type = self.negotiate(accept::Conversions::None);
        let media_type =
            media_type.unwrap_or(MediaType { is_pretty: true, ..MediaType::default() });
        encode(error.code, &media_type, error)
    }
}

/// Encodes a body.
pub(crate) fn encode(code: u16, media_type: &MediaType, body: &impl Serialize) -> Reply {
    match media_type.encode(body) {
        Ok(bytes) => reply(code, media_type.content_type(), bytes),
        Err(error) => not_encoded(&error),
    }
}

fn not_encoded(error: &EncodeError) -> Reply {
    error!(error = hpa_metrics::describe(error), "unable to encode a response");
    text(500, "unable to encode the response\n")
}

/// Indented JSON, for documents that are not negotiated.
pub(crate) fn json(code: u16, body: &impl Serialize) -> Reply {
    encode(code, &MediaType { is_pretty: true, ..MediaType::default() }, body)
}

/// A text.
pub(crate) fn text(code: u16, text: impl Into<String>) -> Reply {
    reply(code, TEXT, text.into().into_bytes())
}

/// A response with a body.
pub(crate) fn reply(code: u16, content_type: &'static str, body: Vec<u8>) -> Reply {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The response to a request with this method. That to `HEAD` has no body.
pub(crate) fn for_method(method: &Method, mut response: Reply) -> Reply {
    if *method == Method::HEAD {
        *response.body_mut() = Bytes::new();
    }
    response
}
