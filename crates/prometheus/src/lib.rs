//! Metrics from Prometheus.
//!
//! ```text
//!  hpa run, hpa adapter, explain, lint          hpa rules check, explain
//!        │ request for a metric                        │ queries
//!        ▼                                             ▼
//!     source ── metric ──► query ─────────► rules ──► promql
//!        │      values of samples              │ templates, regular expressions
//!        ▼                                     ▼
//!     client ── HTTP ──► Prometheus         hpa-go-compat
//! ```
//!
//! - [`rules`]: the rules of prometheus-adapter, without I/O. Start with [`rules::Config`].
//! - [`promql`]: a parser and type checker for queries, without a server.
//! - [`client`]: a client of the HTTP API of Prometheus.
//! - [`source`]: reads metrics with rules and client. Start with [`source::PrometheusSource`].

pub mod client;
pub mod promql;
pub mod rules;
pub mod source;
