use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Timestamp};

use super::{
    ControllerArguments, KubectlArguments, SourceArguments,
    convert::TargetApi,
    run::AutoscalingArguments,
    values::{accept_boolean, positive_duration},
};

const EXAMPLES: &str = "\
Examples:
  Why does the autoscaler web of the namespace shop (not) scale?
    hpa explain shop/web
    kubectl hpa explain web -n shop

  Again whenever the answer changes:
    hpa explain shop/web --watch

  How did it come to this?
    hpa explain shop/web --since 1h

  Which autoscalers fail, or can't do what their metrics ask for?
    hpa explain -A

  As data:
    hpa explain shop/web -o json

  If the controller reads metrics from Prometheus (hpa run --metrics-config):
    kubectl port-forward -n monitoring svc/prometheus 9090 &
    hpa explain shop/web --metrics-config rules.yaml \\
      --prometheus-url http://localhost:9090

  If it reads what annotations of autoscalers ask for, or scaling schedules:
    hpa explain shop/web --collectors
    hpa explain shop/web --scaling-schedule

  From files, without a cluster:
    kubectl get hpa web -n shop -o yaml > web.yaml
    kubectl get deployment web --subresource=scale -n shop -o yaml > scale.yaml
    kubectl get pods -l app=web -n shop -o yaml > pods.yaml
    kubectl get pods.metrics.k8s.io -n shop -o yaml > usage.yaml
    hpa explain -f web.yaml -f scale.yaml -f pods.yaml -f usage.yaml

The command reads the autoscaler, its target's scale, pods and metrics, decides
as the controller would, and explains the decision. It writes nothing. Past
recommendations, scalings and decisions come from the debug API of hpa run, if
that is on and the user may read it. If not, the report says so, and where the
past may hold the replicas. Then pass the controller's flags that are not the
defaults: they are part of a decision. With --collectors, this machine connects
to what the annotations name.

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
    /// One line for each autoscaler that fails or can't do what its metrics ask for, of all
    /// namespaces or that of --namespace. Reads the stored statuses only
    #[arg(
        long,
        short = 'A',
        conflicts_with_all = ["name", "filename", "watch", "since"]
    )]
    pub(crate) all_namespaces: bool,
    /// Read objects and metrics from this file (YAML or JSON, - for standard input) instead of a
    /// cluster; can be repeated
    #[arg(long, short = 'f', value_name = "FILE")]
    pub(crate) filename: Vec<PathBuf>,
    /// The time of the decision, for --filename [default: that of the newest sample]
    #[arg(long, value_name = "TIME", requires = "filename")]
    pub(crate) at: Option<Timestamp>,
    /// Output format
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: ReportFormat,
    /// Explain again in each sync period, and print when the first sentence changes
    #[arg(long, short = 'w', conflicts_with = "filename")]
    pub(crate) watch: bool,
    /// Also print the decisions of this time until now
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    pub(crate) since: Option<SignedDuration>,
    /// The API of the autoscaler
    #[arg(long, value_name = "API", default_value = "core")]
    pub(crate) autoscaler_api: TargetApi,
    #[command(flatten)]
    pub(crate) cluster: KubectlArguments,
    #[command(flatten)]
    pub(crate) controller: ControllerArguments,
    #[command(flatten)]
    pub(crate) autoscaling: AutoscalingArguments,
    #[command(flatten)]
    pub(crate) sources: SourceArguments,
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For people.
    Text,
    /// One JSON object
    Json,
    /// One YAML document
    Yaml,
}
