//! Error responses.

use std::borrow::Cow;

use hpa_calc::go_text::Quoted;
use serde::{Serialize, Serializer, ser::SerializeStruct};

use crate::metrics_api::{RequestInfo, ResourceAttributes};

/// An error response: a `metav1.Status` with the status `Failure`. It serializes to the body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StatusError {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason. May be empty.
    pub reason: &'static str,
    pub message: String,
    pub details: Option<Box<StatusDetails>>,
}

/// The details of a [`StatusError`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatusDetails {
    /// The name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The group of the resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The causes of the error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
}

/// A cause of a [`StatusError`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatusCause {
    pub message: String,
}

/// The maximum length of a string in an error. Most strings come from requests.
const MAX_TEXT_BYTES: usize = 4096;

/// Truncates a string to [`MAX_TEXT_BYTES`].
pub(crate) fn truncated(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or(text)
}

impl StatusDetails {
    /// The details of an error about an object, or about a resource if `name` is empty. `resource`
    /// has its group.
    fn about(resource: &str, name: &str) -> Self {
        let (kind, group) = resource.split_once('.').unwrap_or((resource, ""));
        let [name, group, kind] = [name, group, kind].map(str::to_owned);
        Self { name, group, kind, causes: Vec::new() }
    }
}

impl StatusError {
    /// Truncates each string of the error to [`MAX_TEXT_BYTES`].
    pub(crate) fn truncated(mut self) -> Self {
        let details = self.details.iter_mut().flat_map(|details| {
            let StatusDetails { name, group, kind, causes } = &mut **details;
            [name, group, kind].into_iter().chain(causes.iter_mut().map(|cause| &mut cause.message))
        });
        for text in details.chain([&mut self.message]) {
            text.truncate(truncated(text).len());
        }
        self
    }

    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None }
    }

    fn with_empty_details(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { details: Some(Box::default()), ..Self::new(code, reason, message) }
    }

    /// 400: the request is invalid.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 401: the credentials are invalid.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 403: the user may not send this request. `reason` is from the authorizer and may be empty.
    pub fn forbidden(user: &str, request: &RequestInfo, reason: &str) -> Self {
        let user = Quoted(user);
        let verb = &request.verb;
        let (subject, action, details) = match &request.resource {
            None => {
                let action = format!("User {user} cannot {verb} path {}", Quoted(&request.path));
                ("forbidden".to_owned(), action, StatusDetails::default())
            }
            Some(attributes) => {
                let resource = match attributes.subresource.as_str() {
                    "" => Cow::from(&attributes.resource),
                    subresource => format!("{}/{subresource}", attributes.resource).into(),
                };
                let scope = match attributes.namespace.as_str() {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {}", Quoted(namespace)),
                };
                let group = Quoted(&attributes.group);
                let resource = Quoted(&resource);
                let action = format!(
                    "User {user} cannot {verb} resource {resource} in API group {group} {scope}"
                );
                let details = StatusDetails {
                    name: attributes.name.clone(),
                    group: attributes.group.clone(),
                    kind: attributes.resource.clone(),
                    causes: Vec::new(),
                };
                (forbidden_subject(attributes), action, details)
            }
        };
        let action = escape_html(&action);
        let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        let message = format!("{subject}: {action}{reason}");
        Self { details: Some(Box::new(details)), ..Self::new(403, "Forbidden", message) }
    }

    /// 404: the API has no such resource.
    pub fn unknown_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::with_empty_details(404, "NotFound", message)
    }

    /// 404: there is no such object. `resource` has its group, as in `podmetrics.metrics.k8s.io`.
    pub fn not_found(resource: &str, name: &str) -> Self {
        let details = Some(Box::new(StatusDetails::about(resource, name)));
        let message = format!("{resource} {} not found", Quoted(name));
        Self { details, ..Self::new(404, "NotFound", message) }
    }

    /// 404: there is no such metric, or it has no value. `objects` is the resource of the objects,
    /// or one object: `pods web-0`.
    pub fn metric_not_found(metric: &str, objects: &str) -> Self {
        let message = format!("the server could not find the metric {metric} for {objects}");
        Self::new(404, "NotFound", message)
    }

    /// 405: the path can only be read.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::with_empty_details(405, "MethodNotAllowed", message)
    }

    /// 405: metrics can't be watched. `resource` has its group.
    pub fn watch_not_supported(resource: &str) -> Self {
        let details = Some(Box::new(StatusDetails::about(resource, "")));
        let message = format!("watch is not supported on resources of kind {}", Quoted(resource));
        Self { details, ..Self::new(405, "MethodNotAllowed", message) }
    }

    /// 406: the client accepts no media type of the route.
    pub fn no_representation(available: &[&str]) -> Self {
        let available = available.join(", ");
        let message = format!("406: Not Acceptable\n\nAvailable representations: {available}");
        Self::with_empty_details(406, "NotAcceptable", message)
    }

    /// 406: the client accepts no media type of the response, or an unsupported conversion.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    /// 500 with the reason `InternalError`.
    pub fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        let text = format!("Internal error occurred: {message}");
        let details =
            StatusDetails { causes: vec![StatusCause { message }], ..StatusDetails::default() };
        Self { details: Some(Box::new(details)), ..Self::new(500, "InternalError", text) }
    }

    /// 500 without a reason, prometheus-adapter's status for unclassified errors.
    pub fn unclassified(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// 503: the server is temporarily unavailable.
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    /// 504: the request took too long.
    pub fn timeout() -> Self {
        let message = "Timeout: request did not complete within the allotted timeout";
        Self::new(504, "Timeout", message)
    }

    /// 429: too many requests.
    pub fn too_many_requests() -> Self {
        let message = "Too many requests, please try again later.";
        Self::new(429, "TooManyRequests", message)
    }
}

/// `pods.custom.metrics.k8s.io "web-0" is forbidden`
fn forbidden_subject(attributes: &ResourceAttributes) -> String {
    let resource = match attributes.group.as_str() {
        "" => attributes.resource.clone(),
        group => format!("{}.{group}", attributes.resource),
    };
    match attributes.name.as_str() {
        "" => format!("{resource} is forbidden"),
        name => format!("{resource} {} is forbidden", Quoted(name)),
    }
}

/// Escapes characters that browsers would read as HTML.
pub(crate) fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

impl Serialize for StatusError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Metadata {}
        let mut status = serializer.serialize_struct("Status", 8)?;
        status.serialize_field("kind", "Status")?;
        status.serialize_field("apiVersion", "v1")?;
        status.serialize_field("metadata", &Metadata {})?;
        status.serialize_field("status", "Failure")?;
        status.serialize_field("message", &self.message)?;
        if !self.reason.is_empty() {
            status.serialize_field("reason", self.reason)?;
        }
        if let Some(details) = &self.details {
            status.serialize_field("details", details)?;
        }
        status.serialize_field("code", &self.code)?;
        status.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;
    use crate::metrics_api::UrlQuery;

    #[test]
    fn errors_have_the_shape_of_a_status() {
        let error = StatusError::not_found("podmetrics.metrics.k8s.io", "shop/web-0");
        let expected = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "podmetrics.metrics.k8s.io \"shop/web-0\" not found",
            "reason": "NotFound", "code": 404,
            "details": { "name": "shop/web-0", "group": "metrics.k8s.io", "kind": "podmetrics" },
        });
        assert_eq!(to_value(error).unwrap(), expected);
        let error = to_value(StatusError::unclassified("x")).unwrap();
        assert_eq!((error.get("reason"), error.get("details")), (None, None));
        let error = to_value(StatusError::unknown_resource()).unwrap();
        assert_eq!(error["details"], json!({}));
    }

    fn forbidden(path: &str) -> String {
        let request = RequestInfo::new("GET", path, &UrlQuery::default()).unwrap();
        StatusError::forbidden("<eve>", &request, "").message
    }

    #[test]
    fn forbidden_error_names_user_and_request() {
        assert_eq!(
            forbidden("/metrics"),
            "forbidden: User \"&lt;eve&gt;\" cannot get path \"/metrics\""
        );
        assert_eq!(
            forbidden("/apis/g/v/namespaces/shop/pods/*/m"),
            "pods.g \"*\" is forbidden: User \"&lt;eve&gt;\" cannot get resource \"pods/m\" in API \
             group \"g\" in the namespace \"shop\""
        );
        assert_eq!(
            forbidden("/apis/g/v/nodes"),
            "nodes.g is forbidden: User \"&lt;eve&gt;\" cannot list resource \"nodes\" in API \
             group \"g\" at the cluster scope"
        );
    }
}
