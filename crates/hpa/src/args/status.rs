use clap::Args;

use super::{
    ControllerArguments, KubectlArguments, explain::ReportFormat, run::AutoscalerApiArgument,
};

const EXAMPLES: &str = "\
Examples:
  Check the controller, and list the autoscalers that can't scale:
    hpa status
    kubectl hpa status

  Check only the autoscalers of one namespace:
    hpa status -n shop

  Print JSON, for scripts:
    hpa status -o json

The command reads the controller's lease and pod, its debug API (if that is on
and the user may read it), the availability of the metrics APIs, and the
conditions of all autoscalers. It reports what it can't read, with the reason.

Exit status: 0 without errors, 1 with an error, 2 if the command failed.";

/// The arguments of `hpa status`.
#[derive(Args, Debug)]
#[command(
    after_help = EXAMPLES,
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
