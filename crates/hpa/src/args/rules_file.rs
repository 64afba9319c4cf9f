use std::path::PathBuf;

use clap::Args;

use super::{PrometheusArguments, boolean::BOOL};

/// Metrics by the rules of `hpa run --metrics-config`.
#[derive(Args, Debug)]
#[command(
    next_help_heading = "Metrics from Prometheus in the controller (hpa run --metrics-config)"
)]
pub(crate) struct RulesFileArguments {
    /// Read metrics by the rules of this file first, and all others from the metrics APIs: the file
    /// of hpa run --metrics-config
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics_config: Option<PathBuf>,
    /// Connect to `servers` of that file. Implied by --prometheus-url
    #[arg(long, value_name = BOOL, default_value_t = false)]
    pub(crate) connect: bool,
    // Last: a group's heading applies to all flags after it.
    #[command(flatten)]
    pub(crate) prometheus: PrometheusArguments,
}
