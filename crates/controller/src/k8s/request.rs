//! Requests for a path, with a timeout and client-go's error texts.

use std::{fmt, sync::Arc, time::Duration};

use hpa_metrics::{DecodeError, describe, generic_message, innermost};
use http::{Method, Request, StatusCode, header, response};
use http_body_util::{BodyExt, Limited};
use kube::{Client, client::Body, core::Status};
use serde::de::DeserializeOwned;

use super::timeout::{RequestTimeLimit, no_response_within};

/// The error of an `ApiRequest`. It prints as in client-go, with the path for the URL, because the
/// text is shown in conditions and events. For that reason, the cause is part of the text and not a
/// source.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ApiRequestError {
    /// The API server refused the request. If its response has no Status object, this one is made
    /// from the HTTP status.
    #[error("{}", .0.message)]
    Status(Box<Status>),
    /// The request could not be sent, or got no complete response within its limits of time and
    /// size.
    #[error("{verb} {path:?}: {cause}")]
    Transport {
        /// The HTTP method in Go's spelling: `Get`, `Put`.
        verb: &'static str,
        path: String,
        cause: String,
    },
    /// The response is no JSON of the expected type. The text is not client-go's.
    #[error("unable to decode the response: {0}")]
    Decode(Arc<serde_json::Error>),
}

impl ApiRequestError {
    /// The Status, if the API server refused the request.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) => Some(status),
            Self::Transport { .. } | Self::Decode(_) => None,
        }
    }

    /// Whether the object or its type doesn't exist.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(Status::is_not_found)
    }
}

/// The largest response body that is read. The resources of an API group take less than a tenth of
/// it.
const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// A request for one path.
pub(crate) struct ApiRequest<'a> {
    pub(crate) client: &'a Client,
    /// The time until the response must be complete, from when the request is sent.
    pub(crate) timeout: Duration,
    /// The time for which the limits of the client may hold the request back.
    pub(crate) max_wait: Duration,
    /// `GET` or `PUT`.
    pub(crate) method: Method,
    pub(crate) path: String,
    /// Resource and object name, which client-go appends to the message of a response without a
    /// Status object.
    pub(crate) subject: Option<(&'a str, &'a str)>,
    /// Whether to ask for the object's metadata only.
    pub(crate) metadata_only: bool,
    pub(crate) body: Vec<u8>,
}

const ACCEPT_METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json";
const ACCEPT_OBJECT: &str = "application/json";

impl<'a> ApiRequest<'a> {
    /// A GET of a whole object. The limits of the client may hold it back for another `timeout`.
    pub(crate) fn get(client: &'a Client, timeout: Duration, path: String) -> Self {
        Self {
            client,
            timeout,
            max_wait: timeout,
            method: Method::GET,
            path,
            subject: None,
            metadata_only: false,
            body: Vec::new(),
        }
    }

    /// Sends the request and decodes the response. Ends after `max_wait` plus `timeout` at the
    /// latest.
    ///
    /// The limits of a client of [`Clients`](super::Clients) may hold the request back. Only
    /// afterwards do `timeout` and the reported duration start.
    pub(crate) async fn send<T: DeserializeOwned>(mut self) -> Result<T, ApiRequestError> {
        let limit = self.max_wait.saturating_add(self.timeout);
        let body = Body::from(std::mem::take(&mut self.body));
        let Ok(body) = tokio::time::timeout(limit, self.response_body(body)).await else {
            return Err(self.transport_error(no_response_within(limit)));
        };
        serde_json::from_slice(&body?).map_err(|error| ApiRequestError::Decode(Arc::new(error)))
    }

    async fn response_body(&self, body: Body) -> Result<Vec<u8>, ApiRequestError> {
        let request = Request::builder()
            .method(&self.method)
            .uri(&self.path)
            .extension(RequestTimeLimit(self.timeout))
            .header(
                header::ACCEPT,
                if self.metadata_only { ACCEPT_METADATA } else { ACCEPT_OBJECT },
            )
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|error| self.transport_error(error))?;
        let response = self
            .client
            .send(request)
            .await
            .map_err(|error| self.transport_error(innermost(&error)))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
        let body = body.map_err(|error| self.transport_error(innermost(&*error)))?;
        let body = body.to_bytes();
        if head.status.is_success() {
            return Ok(body.to_vec());
        }
        let status =
            serde_json::from_slice(&body).ok().filter(|status: &Status| status.is_failure());
        let status = status.unwrap_or_else(|| self.generic_status(&head, &body));
        Err(ApiRequestError::Status(status.boxed()))
    }

    fn transport_error(&self, cause: impl fmt::Display) -> ApiRequestError {
        let verb = if self.method == Method::PUT { "Put" } else { "Get" };
        ApiRequestError::Transport { verb, path: self.path.clone(), cause: cause.to_string() }
    }

    /// The Status that client-go makes from a response without a Status object.
    fn generic_status(&self, head: &response::Parts, body: &[u8]) -> Status {
        let (code, content_type) = (head.status, head.headers.get(header::CONTENT_TYPE));
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let mut message = generic_message(code, content_type, body);
        if let Some((resource, name)) = self.subject {
            let verb = self.method.as_str().to_ascii_lowercase();
            message = format!("{message} ({verb} {resource} {name})");
        }
        Status::failure(&message, status_reason(code)).with_code(code.as_u16())
    }
}

/// The API's reason for an HTTP status.
fn status_reason(code: StatusCode) -> &'static str {
    match code {
        StatusCode::BAD_REQUEST => "BadRequest",
        StatusCode::UNAUTHORIZED => "Unauthorized",
        StatusCode::FORBIDDEN => "Forbidden",
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowed",
        StatusCode::NOT_ACCEPTABLE => "NotAcceptable",
        StatusCode::CONFLICT => "Conflict",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "UnsupportedMediaType",
        StatusCode::UNPROCESSABLE_ENTITY => "Invalid",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
        StatusCode::GATEWAY_TIMEOUT => "Timeout",
        code if code.is_server_error() => "InternalError",
        _ => "",
    }
}

/// The error of a request through kube. The text is shown in conditions, events and logs, so it
/// includes the causes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KubeError {
    /// The API server responded with an error. Prints its message.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    #[error("{}", describe(.0))]
    Failed(kube::Error),
    /// The object in the response can't be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The timeout is the caller's.
    #[error("timed out")]
    TimedOut,
}

impl From<kube::Error> for KubeError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            error => Self::Failed(error),
        }
    }
}

impl KubeError {
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused(status) if status.is_not_found())
    }

    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused(status) if status.is_conflict())
    }
}
