//! Metrics from Prometheus.
//!
//! ```text
//!  hpa run, hpa adapter, explain, lint          hpa rules check, explain
//!        │ request for a metric                        │ queries
//!        ▼                                             ▼
//!     source ── which rule, which query ──► rules ──► promql
//!        │      values of samples              │ templates, regular expressions
//!        ▼                                     ▼
//!     client ── HTTP ──► Prometheus         hpa-go-compat
//! ```
//!
//! - [`rules`]: the rules of prometheus-adapter, without I/O. Start with [`rules::Config`].
//! - [`promql`]: the syntax and the types of queries, without a server
//! - [`client`]: a client of the HTTP API of Prometheus
//! - [`source`]: answers requests for metrics with rules and client; [`source::PrometheusProvider`]

pub mod client;
pub mod promql;
pub mod rules;
pub mod source;
