use clap::Args;

use super::{ControllerArguments, KubectlArguments, SourceArguments, run::AutoscalingArguments};

/// The arguments of `hpa dashboard`.
#[derive(Args, Debug)]
#[command(
    after_help = include_str!("examples/dashboard.txt").trim_ascii_end(),
    mut_arg("namespace", |namespace| namespace.help("Show only this namespace [default: all]"))
)]
pub(crate) struct DashboardArguments {
    /// Port on 127.0.0.1; 0 for any free port
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,
    /// Don't open a browser
    #[arg(long)]
    pub(crate) no_open: bool,
    #[command(flatten)]
    pub(crate) controller: ControllerArguments,
    #[command(flatten)]
    pub(crate) cluster: KubectlArguments,
    #[command(flatten)]
    pub(crate) autoscaling: AutoscalingArguments,
    #[command(flatten)]
    pub(crate) sources: SourceArguments,
}
