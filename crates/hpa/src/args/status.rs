use clap::Args;

use super::{
    ControllerArguments, KubectlArguments, explain::ReportFormat, run::AutoscalerApiArgument,
};

/// The arguments of `hpa status`.
#[derive(Args, Debug)]
#[command(
    after_help = include_str!("examples/status.txt").trim_ascii_end(),
    mut_arg("namespace", |namespace| {
        namespace.help("Check only the autoscalers of this namespace [default: all]")
    })
)]
pub(crate) struct StatusArguments {
    /// Output format
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: ReportFormat,
    /// The API of the autoscalers [default: all that are served]
    #[arg(long, value_name = "API")]
    pub(crate) autoscaler_api: Option<AutoscalerApiArgument>,
    #[command(flatten)]
    pub(crate) controller: ControllerArguments,
    #[command(flatten)]
    pub(crate) cluster: KubectlArguments,
}
