//! `prometheus_adapter_http` and `prometheus_adapter_start`: the aggregated API server.

mod cluster;
pub(crate) mod http;
mod normalize;
mod prometheus;
pub(crate) mod start;
