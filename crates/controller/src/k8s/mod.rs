//! Access to the API server: clients, rate limits, deadlines, backpressure, raw requests, and the
//! objects as they arrive.

pub mod autoscaler_kind;
mod backpressure;
pub mod client;
#[cfg(test)]
mod client_tests;
pub(crate) mod hpa_response;
mod limits;
pub mod partial_object;
/// Raw requests with a deadline.
pub mod request;
mod watch_throttle;
