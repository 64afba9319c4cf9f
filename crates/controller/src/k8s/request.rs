use std::{error::Error, fmt, time::Duration};

use hpa_metrics_client::{generic_message, percent_encode};
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use kube::{Client, client::Body, core::Status};
use serde::de::DeserializeOwned;

/// Why a request to the API gave no result. Prints as client-go does, for the text ends up in conditions and events;
/// that is why the cause of a [`RequestError::Transport`] is part of the text and not a source of its own.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RequestError {
    /// The API server refused it. Where its answer was no Status object, this one was made from the HTTP status.
    #[error("{}", .0.message)]
    Status(Box<Status>),
    /// It did not get through, or no answer came back.
    #[error("{verb} {path:?}: {cause}")]
    Transport {
        /// The HTTP method, as Go writes it: `Get`, `Put`.
        verb: &'static str,
        /// The path asked for.
        path: String,
        /// What went wrong.
        cause: String,
    },
    /// The answer could not be understood.
    #[error("unable to decode the answer: {0}")]
    Decode(String),
}

impl RequestError {
    /// The Status, if the API server refused the request.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) => Some(status),
            Self::Transport { .. } | Self::Decode(_) => None,
        }
    }

    /// Whether what was asked for does not exist: the object, or its whole type.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(Status::is_not_found)
    }
}

/// The longest answer that is read, in bytes: what an API group serves takes less than a tenth of it, a scale nothing.
const LONGEST_ANSWER: usize = 16 << 20;

/// A request for one path.
pub(crate) struct ApiRequest<'a> {
    pub(crate) client: &'a Client,
    pub(crate) timeout: Duration,
    /// `GET` or `PUT`.
    pub(crate) method: Method,
    pub(crate) path: String,
    /// Resource and object that client-go would name where the server does not say itself what is wrong.
    pub(crate) about: Option<(&'a str, &'a str)>,
}

impl ApiRequest<'_> {
    /// Sends it and reads the answer. Everything together has to be done within the timeout.
    pub(crate) async fn send<T: DeserializeOwned>(self, body: Vec<u8>) -> Result<T, RequestError> {
        let timeout = self.timeout;
        match tokio::time::timeout(timeout, self.answer(body)).await {
            Ok(answer) => {
                let answer = answer?;
                serde_json::from_slice(&answer)
                    .map_err(|error| RequestError::Decode(error.to_string()))
            }
            Err(_) => Err(self.transport("context deadline exceeded")),
        }
    }

    async fn answer(&self, body: Vec<u8>) -> Result<Vec<u8>, RequestError> {
        let request = Request::builder()
            .method(&self.method)
            .uri(&self.path)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body))
            .map_err(|error| self.transport(error))?;
        let response =
            self.client.send(request).await.map_err(|error| self.transport(innermost(&error)))?;
        let code = response.status();
        let is_text = response
            .headers()
            .get(header::CONTENT_TYPE)
            .is_none_or(|content| content.as_bytes().to_ascii_lowercase().starts_with(b"text/"));
        let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
        let body = body.map_err(|error| self.transport(innermost(&*error)))?;
        let body = body.to_bytes();
        if code.is_success() {
            return Ok(body.to_vec());
        }
        let status =
            serde_json::from_slice(&body).ok().filter(|status: &Status| status.is_failure());
        let status = status.unwrap_or_else(|| self.generic_status(code, is_text.then_some(&body)));
        Err(RequestError::Status(status.boxed()))
    }

    fn transport(&self, cause: impl fmt::Display) -> RequestError {
        let verb = if self.method == Method::PUT { "Put" } else { "Get" };
        RequestError::Transport { verb, path: self.path.clone(), cause: cause.to_string() }
    }

    /// What client-go makes of an answer that is no Status object.
    fn generic_status(&self, code: StatusCode, text: Option<&[u8]>) -> Status {
        const LONGEST_TEXT: usize = 2048;
        let text = text.map_or_else(
            || "unknown".to_owned(),
            |text| {
                String::from_utf8_lossy(text.get(..LONGEST_TEXT).unwrap_or(text)).trim().to_owned()
            },
        );
        let mut message = generic_message(code, &text);
        if let Some((resource, name)) = self.about {
            let verb = self.method.as_str().to_ascii_lowercase();
            message = format!("{message} ({verb} {resource} {name})");
        }
        Status::failure(&message, reason(code)).with_code(code.as_u16())
    }
}

/// The reason of a Status with this code.
fn reason(code: StatusCode) -> &'static str {
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

/// The cause at the end of the chain, such as `Connection refused`.
fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}

/// Makes a name fit to stand between two slashes of a path.
pub(crate) fn path_segment(name: &str) -> String {
    let mut segment = String::with_capacity(name.len());
    percent_encode(&mut segment, name, |byte| byte == b':');
    segment
}
