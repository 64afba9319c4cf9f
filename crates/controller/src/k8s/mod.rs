//! Access to the API server: the clients with their limits, requests, and decoding of objects.

mod autoscaler_kind;
mod backpressure;
mod client;
mod hpa_response;
mod limits;
mod partial_object;
mod request;
mod request_observer;
#[cfg(test)]
mod tests;
mod watch_throttle;

pub(crate) use autoscaler_kind::{AutoscalerKind, CustomAutoscaler};
pub use client::{ClientConfig, ClientError, ClientLimits, ClientSource, Clients};
pub(crate) use hpa_response::{HpaResponse, StoredHpa};
pub use limits::RateLimit;
pub(crate) use partial_object::{CachedKind, PartialMeta, PartialObject};
pub use request::RequestError;
pub(crate) use request::{ApiRequest, path_segment};
pub use request_observer::RequestObserver;
