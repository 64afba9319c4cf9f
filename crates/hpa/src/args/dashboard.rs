use clap::Args;

use super::{
    ControllerArguments, KubectlArguments, SourceArguments, run::AutoscalingArguments,
    values::accept_boolean,
};

const EXAMPLES: &str = "\
Examples:
  Show all autoscalers of the current kubeconfig context in a browser:
    hpa dashboard

  Show one namespace, without opening a browser:
    hpa dashboard -n shop --no-open

  Run it on another machine and forward the port:
    ssh -L 8090:127.0.0.1:8090 there hpa dashboard --port 8090 --no-open

  If the controller reads metrics from Prometheus (hpa run --metrics-config):
    kubectl port-forward -n monitoring svc/prometheus 9090 &
    hpa dashboard --metrics-config rules.yaml \\
      --prometheus-url http://localhost:9090

  If the controller uses collectors and scaling schedules:
    hpa dashboard --collectors --scaling-schedule

The page is served on 127.0.0.1 only. The address that the command prints
contains a token, without which requests are rejected. The command reads the
cluster with your permissions and writes nothing. Past decisions come from the
controller's debug API, if that is on. Otherwise, pass the controller's flags if
they differ from the defaults, because decisions depend on them.
docs/dashboard.md describes the page. Ctrl-C ends the command.";

/// The arguments of `hpa dashboard`.
#[derive(Args, Debug)]
#[command(
    after_help = EXAMPLES,
    mut_args(accept_boolean),
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
