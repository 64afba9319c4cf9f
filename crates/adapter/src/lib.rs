//! An aggregated API server for the Kubernetes metrics APIs: authentication and authorization as
//! kube-apiserver delegates them, and routes to a [`MetricSource`](hpa_metrics::MetricSource).
//!
//! ```text
//!  connection ──► TLS, certificate of the client
//!      │
//!      ▼ request
//!  authentication   front proxy, client certificate, token, anonymous
//!      │ user
//!      ▼
//!  authorization    system:masters, paths that are always allowed, SubjectAccessReview
//!      │
//!      ▼
//!  routes           discovery, metrics ──► Provider
//! ```
//!
//! The behavior is that of prometheus-adapter ("the reference" here), which is built on the
//! libraries of kube-apiserver.

mod admission;
mod api;
pub mod api_service;
pub mod authentication;
pub mod certificates;
pub mod metrics;
pub mod metrics_api;
mod request_labels;
mod response;
pub mod reviews;
pub mod server;
pub mod service;
#[cfg(test)]
mod test_certificates;

pub use authentication::{Authenticator, Peer, Trust};
pub use metrics::Metrics;
pub use reviews::{
    Access, AccessReviews, Authorizer, AuthorizerOptions, ReviewError, TokenAuthenticator, User,
};
pub use server::Server;
pub use service::{Adapter, AdapterOptions, Version};
