//! `prometheus_adapter_http`: the aggregated API server.

mod cluster;
pub(crate) mod http;
mod normalize;
mod prometheus;
