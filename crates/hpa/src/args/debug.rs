use std::net::IpAddr;

use clap::Args;

use super::values::{HPA_PREFIX, bytes};

/// The debug API, which `hpa explain`, `hpa status` and `hpa dashboard` read.
#[derive(Args, Debug)]
#[command(next_help_heading = "Debug API")]
#[expect(clippy::struct_field_names, reason = "the names of the flags")]
pub(crate) struct DebugArguments {
    /// Port of the debug API, for hpa explain, status and dashboard. It serves the last
    /// decisions, histories, cache ages and the queue as JSON. 0 disables it, and decisions are not
    /// recorded
    #[arg(long, env = HPA_PREFIX, value_name = "PORT", default_value_t = 0)]
    pub(crate) debug_port: u16,
    /// Address of the debug API. On a loopback address it serves plain HTTP without authentication.
    /// On any other address it serves HTTPS with the certificate of --tls-cert-file or a generated
    /// one, and requires a token whose user may get /debug/v1/* [default: --bind-address]
    #[arg(long, env = HPA_PREFIX, value_name = "ADDRESS")]
    pub(crate) debug_bind_address: Option<IpAddr>,
    /// Memory for recorded decisions. Each autoscaler gets an equal share
    #[arg(long, env = HPA_PREFIX, value_name = "BYTES", default_value = "64Mi",
        value_parser = bytes)]
    pub(crate) debug_memory_limit: u64,
}
