use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Timestamp};

use super::{
    ControllerArguments, KubectlArguments, SourceArguments,
    run::{AutoscalerApiArgument, AutoscalingArguments},
    values::{accept_boolean, positive_duration, time},
};

const EXAMPLES: &str = "\
Examples:
  Explain why the autoscaler web in the namespace shop does or doesn't scale:
    hpa explain shop/web
    kubectl hpa explain web -n shop

  Explain again whenever the answer changes:
    hpa explain shop/web --watch

  Also print the decisions of the last hour:
    hpa explain shop/web --since 1h

  List the autoscalers that fail or can't follow their metrics:
    hpa explain -A

  Print JSON:
    hpa explain shop/web -o json

  If the controller reads metrics from Prometheus (hpa run --metrics-config):
    kubectl port-forward -n monitoring svc/prometheus 9090 &
    hpa explain shop/web --metrics-config rules.yaml \\
      --prometheus-url http://localhost:9090

  If the controller uses collectors or scaling schedules:
    hpa explain shop/web --collectors
    hpa explain shop/web --scaling-schedule

  Explain from files, without a cluster:
    kubectl get hpa web -n shop -o yaml > web.yaml
    kubectl get deployment web --subresource=scale -n shop -o yaml > scale.yaml
    kubectl get pods -l app=web -n shop -o yaml > pods.yaml
    kubectl get pods.metrics.k8s.io -n shop -o yaml > usage.yaml
    hpa explain -f web.yaml -f scale.yaml -f pods.yaml -f usage.yaml

The command reads the autoscaler, its target's scale, pods and metrics, decides
as the controller would, and explains the decision. It writes nothing. Past
recommendations, scale events and decisions come from the debug API of hpa run,
if that is on and the user may read it. Otherwise, the report says so, and says
where the past may prevent scaling. Then pass the controller's flags if they
differ from the defaults, because decisions depend on them. With --collectors,
this machine connects to the servers that annotations name.

For kubectl hpa, link the program as kubectl-hpa in a directory of $PATH.";

/// The arguments of `hpa explain`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, mut_args(accept_boolean))]
pub(crate) struct ExplainHpaArguments {
    /// The autoscaler. Optional with --filename, if the files have a single one
    #[arg(
        value_name = "[NAMESPACE/]NAME",
        required_unless_present_any = ["filename", "all_namespaces"]
    )]
    pub(crate) name: Option<String>,
    /// List the autoscalers that fail or can't follow their metrics. Covers all namespaces, or
    /// that of --namespace. Reads the stored statuses, no metrics
    #[arg(
        long,
        short = 'A',
        conflicts_with_all = ["name", "filename", "watch", "since"]
    )]
    pub(crate) all_namespaces: bool,
    /// Read objects and metrics from a file instead of a cluster. It is YAML or JSON, "-" is
    /// standard input; can be repeated
    #[arg(long, short = 'f', value_name = "FILE")]
    pub(crate) filename: Vec<PathBuf>,
    /// The time of the decision, for --filename [default: the time of the newest sample]
    #[arg(long, value_name = "TIME", value_parser = time, requires = "filename")]
    pub(crate) at: Option<Timestamp>,
    /// Output format
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: ReportFormat,
    /// Explain again whenever the first sentence changes. Reads in each sync period
    #[arg(long, short = 'w', conflicts_with = "filename")]
    pub(crate) watch: bool,
    /// Also print the decisions of this past duration
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    pub(crate) since: Option<SignedDuration>,
    /// The API of the autoscaler [default: core, and with --all-namespaces all that are served]
    #[arg(long, value_name = "API")]
    pub(crate) autoscaler_api: Option<AutoscalerApiArgument>,
    #[command(flatten)]
    pub(crate) cluster: KubectlArguments,
    #[command(flatten)]
    pub(crate) controller: ControllerArguments,
    #[command(flatten)]
    pub(crate) autoscaling: AutoscalingArguments,
    #[command(flatten)]
    pub(crate) sources: SourceArguments,
}

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For people.
    Text,
    /// One JSON object
    Json,
    /// One YAML document
    Yaml,
}
