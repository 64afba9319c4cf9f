//! Metrics from Prometheus.
//!
//! ```text
//!  hpa run, hpa adapter, hpa explain      hpa rules check, hpa lint
//!     │ queries for metrics                  │ rules files
//!     ▼                                      ▼
//!  source ── builds queries with ─────────► rules ── parses queries with ──► promql
//!     │      converts samples with           │ templates, regular expressions
//!     ▼                                      ▼
//!  client ── HTTP ──► Prometheus            hpa-go-compat
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
