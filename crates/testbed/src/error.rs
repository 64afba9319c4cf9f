//! Error responses of the API.

use std::borrow::Cow;

use hpa_calc::validation::{Cause, CauseReason, invalid_message};
use serde_json::{Value, json};

use crate::json_fields;

/// An error response: a `metav1.Status` with status `Failure`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason, such as `NotFound`.
    pub reason: Cow<'static, str>,
    pub message: String,
    pub details: Option<Value>,
    /// Value of the `Retry-After` header, in seconds.
    pub retry_after: Option<u32>,
}

pub(crate) fn new_cause(reason: CauseReason, field: &str, message: impl Into<String>) -> Cause {
    Cause { reason, message: message.into(), field: field.to_owned() }
}

/// `name.group`, or `name` for the core group. The name is that of a resource or a kind.
pub fn name_with_group(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

/// The object or resource that an error refers to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectReference<'a> {
    pub(crate) group: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
}

impl ObjectReference<'_> {
    /// `deployments.apps`, or `pods`.
    fn resource(&self) -> String {
        name_with_group(self.plural, self.group)
    }

    /// The `details` of a `Status`.
    pub(crate) fn details(&self) -> Value {
        let mut details = json!({ "kind": self.plural });
        if !self.name.is_empty() {
            json_fields::set(&mut details, &["name"], self.name);
        }
        if !self.group.is_empty() {
            json_fields::set(&mut details, &["group"], self.group);
        }
        details
    }
}

impl ApiError {
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

    /// 400 `BadRequest`.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 400 for a body of this kind and version that can't be read as `expected_kind`.
    pub(crate) fn unreadable_body(
        kind: &str,
        version: &str,
        expected_kind: &str,
        detail: &str,
    ) -> Self {
        Self::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {expected_kind}: {detail}"
        ))
    }

    /// 404 for a resource or subresource that the group and version don't have.
    pub fn unknown_resource() -> Self {
        Self::with_empty_details(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    /// An error with empty `details`, as for requests that don't refer to an object.
    pub(crate) fn with_empty_details(code: u16, reason: &'static str, message: &str) -> Self {
        Self { details: Some(json!({})), ..Self::new(code, reason, message) }
    }

    /// 410 `Expired`: the resource version is no longer available.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 500 `InternalError`.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let details = json!({ "causes": [{ "message": message.to_string() }] });
        let text = format!("Internal error occurred: {message}");
        Self { details: Some(details), ..Self::new(500, "InternalError", text) }
    }

    /// 503 `ServiceUnavailable`, for example because an API service has no endpoints.
    pub fn service_unavailable() -> Self {
        Self::new(503, "ServiceUnavailable", "the server is currently unable to handle the request")
    }

    /// 504 `Timeout`. The request may or may not have been applied.
    pub fn timeout() -> Self {
        let text = "Timeout: request did not complete within the allotted timeout";
        Self::new(504, "Timeout", text)
    }

    /// 415 `UnsupportedMediaType`.
    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        let text = format!(
            "the body of the request was in an unknown format - \
             accepted media types include: {accepted}"
        );
        Self::new(415, "UnsupportedMediaType", text)
    }

    /// 405 `MethodNotAllowed`.
    pub(crate) fn method_not_allowed() -> Self {
        let text = "the server does not allow this method on the requested resource";
        Self::with_empty_details(405, "MethodNotAllowed", text)
    }

    /// 500 without a reason: kube-apiserver returns plain Go errors this way.
    pub(crate) fn without_reason(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    pub(crate) fn not_found(reference: &ObjectReference<'_>) -> Self {
        let text = format!("{} \"{}\" not found", reference.resource(), reference.name);
        Self { details: Some(reference.details()), ..Self::new(404, "NotFound", text) }
    }

    pub(crate) fn already_exists(reference: &ObjectReference<'_>) -> Self {
        let text = format!("{} \"{}\" already exists", reference.resource(), reference.name);
        Self { details: Some(reference.details()), ..Self::new(409, "AlreadyExists", text) }
    }

    pub(crate) fn conflict(reference: &ObjectReference<'_>, detail: &str) -> Self {
        let text = format!(
            "Operation cannot be fulfilled on {} \"{}\": {detail}",
            reference.resource(),
            reference.name
        );
        Self { details: Some(reference.details()), ..Self::new(409, "Conflict", text) }
    }

    pub(crate) fn modified(reference: &ObjectReference<'_>) -> Self {
        let detail = "the object has been modified; please apply your changes to the latest \
            version and try again";
        Self::conflict(reference, detail)
    }

    pub(crate) fn invalid(reference: &ObjectReference<'_>, causes: &[Cause]) -> Self {
        let kind = name_with_group(reference.kind, reference.group);
        let text = invalid_message(&kind, reference.name, causes);
        let causes: Vec<Value> = causes
            .iter()
            .map(|cause| {
                let Cause { reason, message, field } = cause;
                json!({ "reason": reason.as_str(), "message": message, "field": field })
            })
            .collect();
        // Here `details.kind` is the kind. In other errors, it is the plural name.
        let mut details = ObjectReference { plural: reference.kind, ..*reference }.details();
        json_fields::set(&mut details, &["causes"], causes);
        Self { details: Some(details), ..Self::new(422, "Invalid", text) }
    }

    /// The response body.
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            json_fields::set(&mut status, &["reason"], &*self.reason);
        }
        if let Some(details) = &self.details {
            json_fields::set(&mut status, &["details"], details.clone());
        }
        if let Some(seconds) = self.retry_after {
            json_fields::set(&mut status, &["details", "retryAfterSeconds"], seconds);
        }
        status
    }
}

/// The connection was closed without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection was closed without a response")]
pub struct Disconnected;
