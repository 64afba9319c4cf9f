use std::borrow::Cow;

use hpa_calc::validation::{Cause, invalid_message};
use serde_json::{Value, json};

/// An answer of the API that is not a success: a meta/v1 `Status`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason, such as `NotFound`.
    pub reason: Cow<'static, str>,
    /// The text for a person.
    pub message: String,
    /// The `details` of the status.
    pub details: Option<Value>,
    /// For how many seconds a client should wait (`Retry-After`).
    pub retry_after: Option<u32>,
}

/// What an error is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) group: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
}

impl Subject<'_> {
    /// `deployments.apps`, or `pods`.
    fn resource(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    fn kind_and_group(&self) -> String {
        if self.group.is_empty() {
            self.kind.to_owned()
        } else {
            format!("{}.{}", self.kind, self.group)
        }
    }

    fn details(&self) -> Value {
        let mut details = json!({ "kind": self.plural });
        if !self.name.is_empty() {
            crate::json::set(&mut details, &["name"], self.name);
        }
        if !self.group.is_empty() {
            crate::json::set(&mut details, &["group"], self.group);
        }
        details
    }
}

impl ApiError {
    /// An answer with this code, reason and message.
    pub fn new(
        code: u16,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            details: None,
            retry_after: None,
        }
    }

    /// 400: the request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 404 for a resource or subresource that a served group and version does not have.
    pub fn no_such_path() -> Self {
        Self::about_nothing(404, "NotFound", "the server could not find the requested resource")
    }

    /// The answer to a request that leads to no object: its `details` are there, but empty.
    pub(crate) fn about_nothing(code: u16, reason: &'static str, message: &str) -> Self {
        Self { details: Some(json!({})), ..Self::new(code, reason, message) }
    }

    /// 410: the resource version asked for is no longer known.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 500: the server could not do it.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let details = json!({ "causes": [{ "message": message.to_string() }] });
        let text = format!("Internal error occurred: {message}");
        Self { details: Some(details), ..Self::new(500, "InternalError", text) }
    }

    /// 503: nobody answers for this API.
    pub fn service_unavailable() -> Self {
        Self::new(503, "ServiceUnavailable", "the server is currently unable to handle the request")
    }

    /// 504: there is no telling what became of the request.
    pub fn timeout() -> Self {
        let text = "Timeout: request did not complete within the allotted timeout";
        Self::new(504, "Timeout", text)
    }

    /// 415: a body of a kind that is not read.
    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        let text = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::new(415, "UnsupportedMediaType", text)
    }

    /// 405: the resource is not used this way.
    pub(crate) fn method_not_allowed() -> Self {
        let text = "the server does not allow this method on the requested resource";
        Self::about_nothing(405, "MethodNotAllowed", text)
    }

    /// 500 for what the real server refuses without having foreseen it: such an answer has no reason.
    pub(crate) fn unforeseen(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    pub(crate) fn not_found(subject: &Subject<'_>) -> Self {
        let text = format!("{} \"{}\" not found", subject.resource(), subject.name);
        Self { details: Some(subject.details()), ..Self::new(404, "NotFound", text) }
    }

    pub(crate) fn already_exists(subject: &Subject<'_>) -> Self {
        let text = format!("{} \"{}\" already exists", subject.resource(), subject.name);
        Self { details: Some(subject.details()), ..Self::new(409, "AlreadyExists", text) }
    }

    pub(crate) fn conflict(subject: &Subject<'_>, why: &str) -> Self {
        let text = format!(
            "Operation cannot be fulfilled on {} \"{}\": {why}",
            subject.resource(),
            subject.name
        );
        Self { details: Some(subject.details()), ..Self::new(409, "Conflict", text) }
    }

    pub(crate) fn modified(subject: &Subject<'_>) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(subject, why)
    }

    pub(crate) fn invalid(subject: &Subject<'_>, causes: &[Cause]) -> Self {
        let text = invalid_message(&subject.kind_and_group(), subject.name, causes);
        let causes: Vec<Value> = causes
            .iter()
            .map(|cause| {
                json!({ "reason": cause.reason.as_str(), "message": cause.message, "field": cause.field })
            })
            .collect();
        let mut details = Subject { plural: subject.kind, ..*subject }.details();
        crate::json::set(&mut details, &["causes"], causes);
        Self { details: Some(details), ..Self::new(422, "Invalid", text) }
    }

    /// The body of the answer.
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            crate::json::set(&mut status, &["reason"], &*self.reason);
        }
        if let Some(details) = &self.details {
            crate::json::set(&mut status, &["details"], details.clone());
        }
        if let Some(seconds) = self.retry_after {
            crate::json::set(&mut status, &["details", "retryAfterSeconds"], seconds);
        }
        status
    }
}

/// The connection broke: there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection broke")]
pub struct Disconnected;
