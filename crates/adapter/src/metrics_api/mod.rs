//! The protocol of the Kubernetes metrics APIs on the server's side: `custom.metrics.k8s.io`,
//! `external.metrics.k8s.io` and `metrics.k8s.io`. Pure functions, without I/O, clock or async
//! runtime.
//!
//! ```text
//!  method, path, query ──► RequestInfo ──► (authorization)
//!                              │
//!                              ▼
//!  Accept ────────────────► Route::find ──► request: hpa_metrics::Query
//!                              │                          │
//!                              │                          ▼
//!                              │                    (values of metrics)
//!                              ▼                          │
//!                   discovery documents     lists, tables ▼      StatusError
//!                              └────► encode: JSON, YAML, protobuf ◄──┘
//! ```
//!
//! Routes, errors, encodings and the order of checks are those of prometheus-adapter, which is
//! built on the libraries of kube-apiserver. Responses are protobuf only for clients that accept
//! neither JSON nor YAML.

pub mod accept;
pub mod discovery;
pub mod field_selector;
pub mod group;
mod protobuf;
pub mod query;
pub mod request;
pub mod request_info;
pub mod route;
pub mod status;
pub mod table;
pub mod usage;
pub mod values;

pub use accept::{Conversion, EncodeError, MediaType};
pub use query::UrlQuery;
pub use request_info::{RequestInfo, ResourceAttributes};
pub use route::{NoRoute, Route};
pub use status::StatusError;
