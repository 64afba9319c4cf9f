//! An aggregated API server for the Kubernetes metrics APIs, started by `hpa adapter`.
//! kube-apiserver forwards the requests of kube-controller-manager, kubectl and others to it.
//!
//! ```text
//!  kube-apiserver, Prometheus, probes, any other client
//!      │ TCP
//!      ▼
//!  server::Connections    at most 1024, 256 of unknown clients; when full, a new one replaces one
//!      │                  without running requests
//!      │ TLS                  server::ServingCertificate
//!      ▼
//!  Adapter::respond       one request, authenticated before its path is checked
//!      │
//!      ├─► authentication     front proxy, client certificate, token, anonymous
//!      │       └─► reviews::TokenAuthenticator ──► TokenReview, cached, rate-limited
//!      ├─► admission          fair limits, by user or address
//!      ├─► reviews::Authorizer    system:masters, SubjectAccessReview, cached, rate-limited
//!      │
//!      ▼  metrics_api::{RequestInfo, Route}
//!  api                    discovery documents; queries ──► MetricSource
//!      │  metrics_api::{values, usage, table, status}
//!      ▼
//!  response               JSON, YAML or protobuf; counted until the client has read it
//! ```
//!
//! [`api_service`] keeps a serving certificate in a Secret and writes its CA into the `APIService`
//! objects. [`metrics`] exports the server's own metrics. The debug API of `hpa run` uses
//! [`certificates`], [`metrics_api`], [`reviews`] and [`server`].
//!
//! The behavior is that of prometheus-adapter, which is built on the libraries of kube-apiserver.

mod admission;
mod api;
pub mod api_service;
pub mod authentication;
pub mod certificates;
mod error;
pub mod metrics;
pub mod metrics_api;
mod response;
pub mod reviews;
pub mod server;
pub mod service;
#[cfg(test)]
mod test_certificates;

pub use authentication::{Authenticator, Peer, Trust};
pub use error::SetupError;
pub use metrics::Metrics;
pub use reviews::{
    Access, AccessReviews, Authorizer, AuthorizerOptions, ReviewError, TokenAuthenticator, User,
};
pub use service::{Adapter, AdapterOptions, Version};
