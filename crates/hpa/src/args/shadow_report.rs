use clap::Args;
use jiff::SignedDuration;

use super::{
    run::{AutoscalingArguments, ClusterArguments, LogArguments},
    values::{accept_boolean, positive_duration},
};

const EXAMPLES: &str = "\
Examples:
  Compare for ten minutes with the controller of the current kubeconfig
  context:
    hpa shadow-report

  Compare for an hour, in two namespaces, with a controller that has a
  downscale stabilization of ten minutes and the gate HPAScaleToZero off (the
  default before Kubernetes 1.37):
    hpa shadow-report --for 1h -n shop,bank --scale-to-zero=false \\
      --horizontal-pod-autoscaler-downscale-stabilization 10m

Pass the flags of the peer, the controller that decisions are compared with:
they are part of a decision. Its earlier recommendations are unknown, so
differences of an autoscaler count only after its stabilization windows have
passed (five minutes by default). The command writes nothing to the cluster and
needs read access only.

Output: N HPAs, N decisions, N differences; when the peer last wrote a status;
then, for each HPA that differs, what differs and both explanations.

Exit status: 0 without differences, 1 with differences or after an error, 2 if
no difference could be found: the peer wrote no status, or no stabilization
window passed.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, mut_args(accept_boolean))]
pub(crate) struct ShadowReportArguments {
    /// How long to compare decisions
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
    #[command(flatten)]
    pub(crate) log: LogArguments,
}
