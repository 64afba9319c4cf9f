use clap::Args;

use super::{
    ControllerArguments, KubectlArguments, explain::ReportFormat, run::AutoscalerApiArgument,
};

const EXAMPLES: &str = "\
Examples:
  Is the controller healthy, and which autoscalers can't scale?
    hpa status
    kubectl hpa status

  The autoscalers of one namespace only:
    hpa status -n shop

  For scripts:
    hpa status -o json

The command reads the controller's lease and pod, its debug API if that is on
and the user may, the availability of the metrics APIs, and the conditions of
all autoscalers. What it can't read, it says and why.

Exit status: 0 without errors, 1 with an error, 2 if the command failed.";

/// The arguments of `hpa status`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatusArguments {
    /// Output format
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: ReportFormat,
    /// The API of the autoscalers
    #[arg(long, value_name = "API", default_value = "core")]
    pub(crate) autoscaler_api: AutoscalerApiArgument,
    #[command(flatten)]
    pub(crate) controller: ControllerArguments,
    #[command(flatten)]
    pub(crate) cluster: KubectlArguments,
}
