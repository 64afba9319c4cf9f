//! Builds responses, and negotiates their media type.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use hyper::body::Bytes;
use serde::Serialize;
use tracing::error;

use crate::metrics_api::{
    MediaType, StatusError, UrlQuery, accept,
    status::{escape_html, truncated},
};

/// A response of this server.
pub(crate) type Reply = Response<Bytes>;

const TEXT: &str = "text/plain; charset=utf-8";

/// The preferences of a request for its response.
#[derive(Clone, Copy)]
pub(crate) struct Preferences<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: &'a UrlQuery,
}

impl Preferences<'_> {
    pub(crate) fn accept(&self) -> &str {
        self.header(header::ACCEPT)
    }

    pub(crate) fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Negotiates the media type of a response that supports these conversions.
    pub(crate) fn negotiate(
        &self,
        conversions: accept::AllowedConversions,
    ) -> Result<MediaType, StatusError> {
        let media_type = accept::negotiate(self.accept(), conversions);
        let media_type = media_type.map_err(StatusError::not_acceptable)?;
        let is_pretty = media_type.is_pretty
            || accept::asks_for_pretty(self.query, self.header(header::USER_AGENT));
        Ok(MediaType { is_pretty, ..media_type })
    }

    /// An error response, in JSON if the client accepts no available media type.
    pub(crate) fn error(&self, error: &StatusError) -> Reply {
        let error = error.clone().truncated();
        let media_type = self.negotiate(accept::AllowedConversions::None);
        let media_type =
            media_type.unwrap_or(MediaType { is_pretty: true, ..MediaType::default() });
        encode(error.code, &media_type, &error)
    }

    /// 429 with `Retry-After`.
    pub(crate) fn too_many_requests(&self) -> Reply {
        with_retry_after(self.error(&StatusError::too_many_requests()))
    }
}

pub(crate) fn encode(code: u16, media_type: &MediaType, body: &impl Serialize) -> Reply {
    match media_type.encode(body) {
        Ok(bytes) => reply(code, media_type.content_type(), bytes),
        Err(error) => {
            error!(error = hpa_metrics::describe(&error), "unable to encode a response");
            text_reply(500, "unable to encode the response\n")
        }
    }
}

/// Indented JSON, for documents without negotiation.
pub(crate) fn json_reply(code: u16, body: &impl Serialize) -> Reply {
    encode(code, &MediaType { is_pretty: true, ..MediaType::default() }, body)
}

pub(crate) fn text_reply(code: u16, text: impl Into<String>) -> Reply {
    reply(code, TEXT, text.into().into_bytes())
}

pub(crate) fn reply(code: u16, content_type: &'static str, body: Vec<u8>) -> Reply {
    let mut response = Response::new(Bytes::from(body));
    let status = StatusCode::from_u16(code);
    *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Returns the bytes of a body. `guard` is dropped with them, once hyper has sent them.
pub(crate) fn hold_until_sent(bytes: Bytes, guard: impl Send + 'static) -> Bytes {
    struct Body<G> {
        bytes: Bytes,
        _guard: G,
    }
    impl<G> AsRef<[u8]> for Body<G> {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    Bytes::from_owner(Body { bytes, _guard: guard })
}

/// 429 without a body, for a client with too many unread bytes or connections.
pub(crate) fn bodiless_too_many_requests() -> Reply {
    with_retry_after(reply(429, TEXT, Vec::new()))
}

/// 431, like hyper's for headers of HTTP/1.1.
pub(crate) fn too_many_headers() -> Reply {
    text_reply(431, "the request has too many headers\n")
}

fn with_retry_after(mut response: Reply) -> Reply {
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// 500 as plain text, like kube-apiserver for requests that it can't classify or authorize.
pub(crate) fn internal_error(path: &str, message: &str) -> Reply {
    let path = hpa_calc::go_text::Quoted(truncated(path));
    let message = format!("Internal Server Error: {path}: {}\n", truncated(message));
    text_reply(500, escape_html(&message))
}

/// A check of `/healthz`, `/livez` or `/readyz`.
pub(crate) struct HealthCheck {
    pub(crate) name: &'static str,
    /// The problems of a failed check.
    pub(crate) outcome: Result<(), Vec<String>>,
}

/// The response of a health endpoint: `ok`, or the list of all checks if one failed or with
/// `?verbose`. A check that `?exclude=NAME` names can't fail.
pub(crate) fn health_reply(path: &str, checks: &[HealthCheck], query: &UrlQuery) -> Reply {
    let endpoint = path.trim_start_matches('/');
    let mut lines = String::new();
    let mut failed = false;
    for HealthCheck { name, outcome } in checks {
        let line = match outcome {
            _ if query.all("exclude").any(|excluded| excluded == *name) => {
                format!("[+]{name} excluded: ok")
            }
            Ok(()) => format!("[+]{name} ok"),
            Err(problems) => {
                failed = true;
                format!("[-]{name} failed: {}", problems.join("; "))
            }
        };
        lines.push_str(&line);
        lines.push('\n');
    }
    if failed {
        text_reply(500, format!("{lines}{endpoint} check failed\n"))
    } else if query.get("verbose").is_some() {
        text_reply(200, format!("{lines}{endpoint} check passed\n"))
    } else {
        text_reply(200, "ok")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excluded_checks_do_not_fail_readiness() {
        let failed = |name| HealthCheck { name, outcome: Err(vec!["broken".to_owned()]) };
        let checks = [failed("discovery"), failed("shutdown")];
        let status = |query| health_reply("/readyz", &checks, &UrlQuery::parse(query)).status();
        assert_eq!(status("exclude=discovery&exclude=shutdown"), 200);
        assert_eq!(status("exclude=shutdown"), 500);
    }
}
