use clap::Args;
use jiff::SignedDuration;

use super::{
    kubectl::ImpersonationArguments,
    run::{AutoscalingArguments, ClusterArguments, LogArguments},
    values::{accept_boolean, positive_duration},
};

const EXAMPLES: &str = "\
Examples:
  Compare for ten minutes with the controller of the current kubeconfig
  context:
    hpa shadow-report

  Compare two namespaces for an hour. The other controller has a downscale
  stabilization of ten minutes and the feature gate HPAScaleToZero off (the
  default before Kubernetes 1.37):
    hpa shadow-report --for 1h -n shop,bank --scale-to-zero=false \\
      --horizontal-pod-autoscaler-downscale-stabilization 10m

The peer is the controller that decisions are compared with. Pass its flags,
because decisions depend on them. Its earlier recommendations and scale events
are unknown. A difference therefore counts only after the autoscaler's longest
stabilization window or policy period (five minutes by default). The command
writes nothing to the cluster and needs read access only. Without it, the
command fails at once.

Output: the result in one line; the peer's last status write; then the
differences of each autoscaler, with both explanations. The log is on standard
error; --log-level=warn shortens it.

Exit status: 0 without differences, 1 with differences, 2 if the comparison
failed or is inconclusive: there are no autoscalers, the peer wrote no status,
no decision was compared, or --for is shorter than all windows and periods.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, mut_args(accept_boolean))]
pub(crate) struct ShadowReportArguments {
    /// The duration of the comparison
    #[arg(
        long = "for",
        value_name = "DURATION",
        default_value = "10m",
        value_parser = positive_duration
    )]
    pub(crate) length: SignedDuration,
    #[command(flatten)]
    pub(crate) autoscaling: AutoscalingArguments,
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
    #[command(flatten, next_help_heading = "Cluster")]
    pub(crate) impersonation: ImpersonationArguments,
    #[command(flatten)]
    pub(crate) log: LogArguments,
}
