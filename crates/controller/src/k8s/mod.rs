//! Access to the API server: the clients with their limits, requests, and decoding of objects.

mod backpressure;
mod client;
mod connection_log;
#[cfg(any(test, fuzzing))]
pub(crate) mod differential;
mod hpa_response;
mod limited_labels;
mod page_size;
mod partial_object;
mod query;
mod rate_limit;
mod request;
mod request_observer;
mod status_write;
mod timeout;
mod watch_throttle;

pub use client::{
    ClientConfig, ClientError, ClientLimits, ClientProblem, ClientSource, Clients, ConnectError,
    KubeconfigOverrides, ProxyError, RejectingServer,
};
pub(crate) use connection_log::ConnectionLost;
pub(crate) use hpa_response::{HpaResponse, StoredHpa};
pub(crate) use limited_labels::CowText;
pub(crate) use page_size::MAX_PAGE_SIZE;
pub(crate) use partial_object::{CachedKind, PartialObject, pod_resource};
pub(crate) use query::{is_watch, query_parameter, with_query_parameter};
pub use rate_limit::RateLimit;
pub use request::ApiRequestError;
pub(crate) use request::{ApiRequest, KubeError};
pub use request_observer::RequestObserver;
pub use status_write::{
    FieldManager, KUBE_CONTROLLER_MANAGER, StatusController, StatusWrite, is_clearly_after,
};
pub use timeout::DeadlineExceeded;
