//! `prometheus_adapter_http` and `prometheus_adapter_start`: the aggregated API server.

pub(crate) mod cluster;
pub(crate) mod http;
pub(crate) mod normalize;
pub(crate) mod prometheus;
pub(crate) mod start;
