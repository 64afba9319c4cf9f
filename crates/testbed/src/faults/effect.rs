//! The effects of faults on requests and responses.

use std::time::Duration;

use jiff::fmt::serde::unsigned_duration::friendly::compact::required as duration;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    error::{ApiError, ObjectReference},
    json_fields,
    request::RequestInfo,
};

/// The effect of a fault on a request.
///
/// Serialized as a name (`conflict`), or as an object with parameters
/// (`{"slow": {"by": "5s"}}`). Effects that replace the response don't apply the request, unless
/// documented otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Effect {
    /// 409 `Conflict`: the object has been modified.
    Conflict,
    /// 410 `Expired`: the resource version is too old.
    Expired,
    /// 429 `TooManyRequests`.
    TooManyRequests {
        /// `Retry-After` header.
        #[serde(default)]
        retry_after_seconds: Option<u32>,
    },
    /// 500 `InternalError`.
    InternalError,
    /// 503 `ServiceUnavailable`.
    ServiceUnavailable,
    /// 504 `Timeout`.
    Timeout,
    /// Any other status.
    Status {
        code: u16,
        /// Such as `AlreadyExists`.
        #[serde(default)]
        reason: String,
        #[serde(default)]
        message: String,
        /// `Retry-After` header.
        #[serde(default)]
        retry_after_seconds: Option<u32>,
    },
    /// An HTML page, as from a proxy.
    Html {
        /// Such as 502 or 200.
        code: u16,
    },
    /// The connection is closed without a response.
    Disconnect {
        /// Whether the request is applied first.
        #[serde(default)]
        applied: bool,
    },
    /// The request is applied, but the response is 504.
    #[serde(alias = "lostAnswer")]
    LostResponse,
    /// The request is handled after a delay.
    Slow {
        /// In tokio's time, even if the [`Faults`](super::Faults) have another clock.
        #[serde(with = "duration")]
        by: Duration,
    },
    /// The request is handled when the fault ends. Stalled requests are handled in the order in
    /// which they arrived. If 10,000 requests are stalled, further ones get 429.
    Stall,
    /// A watch ends after `after` events.
    DropWatch {
        #[serde(default)]
        after: usize,
    },
    /// A watch ends in the middle of an event, after `after` complete events.
    #[serde(alias = "halfEvent")]
    TruncatedEvent {
        #[serde(default)]
        after: usize,
    },
    /// After `after` events, a watch sends nothing but stays open. It ends with the fault.
    SilentWatch {
        #[serde(default)]
        after: usize,
    },
    /// A field of objects is changed or removed in successful responses to GET, list and watch.
    #[serde(alias = "malformed")]
    ChangedField {
        /// Name of the object, or of the object that a metric describes. If empty, all objects.
        #[serde(default)]
        object: String,
        /// JSON pointer to the field, such as `/spec/maxReplicas`.
        pointer: String,
        /// The value. If null, the field is removed.
        #[serde(default)]
        value: Value,
    },
    /// The response body is truncated. For watches, use [`Effect::TruncatedEvent`].
    #[serde(alias = "halfBody")]
    TruncatedBody,
    /// An API group doesn't exist, neither its resources nor its entries in discovery.
    MissingGroup {
        /// Such as `metrics.k8s.io`. Because discovery requests have no group, the fault must not
        /// match by group or resource.
        group: String,
    },
    /// Reads return an earlier state: GET and list of stored objects, and GET of the scale.
    Stale {
        /// The age of that state, in resource versions. Limited by the watch cache and by the
        /// resource version in the request.
        revisions: u64,
    },
}

impl Effect {
    /// An [`Effect::Status`] without the header `Retry-After`.
    pub fn status(code: u16, reason: &str, message: &str) -> Self {
        let (reason, message) = (reason.to_owned(), message.to_owned());
        Self::Status { code, reason, message, retry_after_seconds: None }
    }

    /// The error that replaces the response, if any.
    pub(crate) fn to_error(&self, request: &RequestInfo) -> Option<ApiError> {
        let error = match self {
            Self::Conflict => ApiError::modified(&ObjectReference {
                group: &request.group,
                plural: &request.resource,
                kind: "",
                name: &request.name,
            }),
            Self::Expired => {
                ApiError::expired("The resourceVersion for the provided watch is too old.")
            }
            Self::TooManyRequests { retry_after_seconds: retry_after } => {
                let text =
                    "the server has received too many requests and has asked us to try again later";
                ApiError {
                    retry_after: *retry_after,
                    ..ApiError::new(429, "TooManyRequests", text)
                }
            }
            Self::InternalError => ApiError::internal("injected fault"),
            Self::ServiceUnavailable => ApiError::service_unavailable(),
            Self::Timeout => ApiError::timeout(),
            Self::Status { code, reason, message, retry_after_seconds: retry_after } => ApiError {
                retry_after: *retry_after,
                ..ApiError::new(*code, reason.clone(), message.clone())
            },
            Self::MissingGroup { group } if is_for_group(group, request) => {
                ApiError::unknown_resource()
            }
            _ => return None,
        };
        Some(error)
    }

    /// Whether the effect determines the response. If it does, later faults are ignored.
    pub(crate) fn is_final(&self, request: &RequestInfo) -> bool {
        let replaces_response =
            matches!(self, Self::Html { .. } | Self::Disconnect { .. } | Self::LostResponse);
        replaces_response || self.to_error(request).is_some()
    }

    /// Whether the effect ends or silences a watch that may have started before the fault.
    pub(crate) fn affects_watch_events(&self) -> bool {
        matches!(
            self,
            Self::DropWatch { .. } | Self::TruncatedEvent { .. } | Self::SilentWatch { .. }
        )
    }

    /// Whether the effect is possible for this request.
    pub(crate) fn applies_to(&self, request: &RequestInfo) -> bool {
        match self {
            _ if self.affects_watch_events() => request.verb == "watch",
            Self::Stale { .. } => request.verb == "get" || request.verb == "list",
            Self::ChangedField { .. } => ["get", "list", "watch"].contains(&request.verb.as_str()),
            Self::TruncatedBody => request.verb != "watch",
            Self::MissingGroup { group } => is_for_group(group, request) || is_group_list(request),
            _ => true,
        }
    }
}

/// Whether the request is for a resource of the group, or for a discovery or OpenAPI document of
/// the group.
fn is_for_group(group: &str, request: &RequestInfo) -> bool {
    if !request.resource.is_empty() {
        return request.group == group;
    }
    let path = request.path.strip_prefix("/openapi/v3").unwrap_or(&request.path);
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    match parts.next() {
        Some("api") => group.is_empty(),
        Some("apis") => parts.next() == Some(group),
        _ => false,
    }
}

/// Whether the response lists all API groups.
fn is_group_list(request: &RequestInfo) -> bool {
    ["/apis", "/openapi/v3"].contains(&request.path.trim_end_matches('/'))
}

/// Removes a group from a list of API groups.
pub(crate) fn remove_group(group: &str, index: &mut Value) {
    if let Some(groups) = index.get_mut("groups").and_then(Value::as_array_mut) {
        groups.retain(|one| json_fields::str_at(one, "/name") != group);
    }
    if let Some(items) = index.get_mut("items").and_then(Value::as_array_mut) {
        items.retain(|one| json_fields::str_at(one, "/metadata/name") != group);
    }
    if let Some(paths) = index.get_mut("paths").and_then(Value::as_object_mut) {
        let prefix = if group.is_empty() { "api/".to_owned() } else { format!("apis/{group}/") };
        paths.retain(|path, _| !path.starts_with(&prefix));
    }
}
