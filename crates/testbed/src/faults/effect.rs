use std::time::Duration;

use jiff::fmt::serde::unsigned_duration::friendly::compact::required as duration;
use serde::Deserialize;
use serde_json::Value;

use super::missing_group;
use crate::{error::ApiError, request::RequestInfo};

/// What becomes of a request that meets a fault.
///
/// As data it is a name (`conflict`), or an object of a name and parameters (`{"slow": {"by": "5s"}}`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Effect {
    /// 409 `Conflict`: the object has been modified. Nothing is applied; so it is with all that answer themselves.
    Conflict,
    /// 410 `Expired`: the resource version is too old.
    Expired,
    /// 429 `TooManyRequests`, with `Retry-After` if that is given.
    TooManyRequests {
        /// For how many seconds the client should wait.
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
        /// The HTTP status code.
        code: u16,
        /// The reason, such as `AlreadyExists`.
        #[serde(default)]
        reason: String,
        /// The text for a person.
        #[serde(default)]
        message: String,
        /// For how many seconds the client should wait.
        #[serde(default)]
        retry_after_seconds: Option<u32>,
    },
    /// A page of HTML, as proxies have it.
    Html {
        /// The HTTP status code, such as 502 or 200.
        code: u16,
    },
    /// The connection breaks, without an answer.
    Disconnect {
        /// Whether the request is applied first.
        #[serde(default)]
        applied: bool,
    },
    /// The request is applied, but the answer is 504.
    LostAnswer,
    /// The request is answered as usual, but this much later.
    Slow {
        /// The time.
        #[serde(with = "duration")]
        by: Duration,
    },
    /// The request waits until the fault is over, and is handled then. Those that wait go on in the order in which
    /// they came.
    Stall,
    /// A watch ends.
    DropWatch {
        /// After how many events.
        #[serde(default)]
        after: usize,
    },
    /// A watch ends in the middle of an event.
    HalfEvent {
        /// After how many events.
        #[serde(default)]
        after: usize,
    },
    /// A watch stays open but tells nothing more; it ends when the fault is over.
    SilentWatch {
        /// After how many events.
        #[serde(default)]
        after: usize,
    },
    /// Objects that are read have a wrong member: one of another type, or none.
    Malformed {
        /// The name of the object, or of the one that a metric describes; empty for all.
        #[serde(default)]
        object: String,
        /// The member, as a JSON pointer into the object such as `/spec/maxReplicas`.
        pointer: String,
        /// What it is; null: it is left out.
        #[serde(default)]
        value: Value,
    },
    /// The body of the answer ends in its middle (not of watches: see [`Effect::HalfEvent`]).
    HalfBody,
    /// An API group is not there: neither its resources nor what discovery tells of it.
    MissingGroup {
        /// The group, such as `metrics.k8s.io`. It is told here because discovery is not for a group: the fault's
        /// match should name clients at most.
        group: String,
    },
    /// What is read is an earlier state (get and list of stored objects, also of the scale).
    Stale {
        /// How many resource versions earlier; it does not go back beyond what the log of changes holds, nor behind
        /// the version that the request asks for.
        revisions: u64,
    },
}

impl Effect {
    /// The error that it is, if it is one.
    pub(crate) fn error(&self, request: &RequestInfo) -> Option<ApiError> {
        let error = match self {
            Self::Conflict => conflict(request),
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
            Self::InternalError => ApiError::internal("a fault"),
            Self::ServiceUnavailable => ApiError::service_unavailable(),
            Self::Timeout => ApiError::timeout(),
            Self::Status { code, reason, message, retry_after_seconds: retry_after } => ApiError {
                retry_after: *retry_after,
                ..ApiError::new(*code, reason.clone(), message.clone())
            },
            Self::MissingGroup { group } if missing_group::is_of_group(group, request) => {
                ApiError::no_such_path()
            }
            _ => return None,
        };
        Some(error)
    }

    /// Whether it is an answer, so that nothing else can become of the request.
    pub(crate) fn answers(&self, request: &RequestInfo) -> bool {
        let has_no_status =
            matches!(self, Self::Html { .. } | Self::Disconnect { .. } | Self::LostAnswer);
        has_no_status || self.error(request).is_some()
    }

    /// Whether it acts on the events of a watch.
    pub(crate) fn is_of_watch(&self) -> bool {
        matches!(self, Self::DropWatch { .. } | Self::HalfEvent { .. } | Self::SilentWatch { .. })
    }

    /// Whether the request is of a kind that it can act on.
    pub(crate) fn concerns(&self, request: &RequestInfo) -> bool {
        match self {
            Self::DropWatch { .. } | Self::HalfEvent { .. } | Self::SilentWatch { .. } => {
                request.verb == "watch"
            }
            Self::Stale { .. } => request.verb == "get" || request.verb == "list",
            Self::Malformed { .. } => ["get", "list", "watch"].contains(&request.verb.as_str()),
            Self::HalfBody => request.verb != "watch",
            Self::MissingGroup { group } => {
                missing_group::is_of_group(group, request) || missing_group::is_index(request)
            }
            _ => true,
        }
    }
}

fn conflict(request: &RequestInfo) -> ApiError {
    let resource = match request.group.as_str() {
        "" => request.resource.clone(),
        group => format!("{}.{group}", request.resource),
    };
    let name = &request.name;
    let text = format!(
        "Operation cannot be fulfilled on {resource} \"{name}\": the object has been modified; please apply your changes to the latest version and try again"
    );
    ApiError::new(409, "Conflict", text)
}
