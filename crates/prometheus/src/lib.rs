//! Metrics from Prometheus.
//!
//! - [`rules`]: the rules of prometheus-adapter, without I/O
//! - [`client`]: a client of the HTTP API of Prometheus
//! - [`source`]: answers requests for metrics with rules and client

pub mod client;
pub mod promql;
pub mod rules;
pub mod source;
