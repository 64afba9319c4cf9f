use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Timestamp};

use super::{
    ControllerArguments, KubectlArguments, SourceArguments,
    run::{AutoscalerApiArgument, AutoscalingArguments},
    values::{positive_duration, time},
};

/// The arguments of `hpa explain`.
#[derive(Args, Debug)]
#[command(after_help = include_str!("examples/explain.txt").trim_ascii_end())]
pub(crate) struct ExplainArguments {
    /// The autoscaler. Optional with --filename, if the files have a single one
    #[arg(value_name = "[NAMESPACE/]NAME",
        required_unless_present_any = ["filename", "all_namespaces"])]
    pub(crate) name: Option<String>,
    /// List the autoscalers that fail or can't follow their metrics. Covers all namespaces, or
    /// that of --namespace. Reads the stored statuses, no metrics. Pods that an autoscaler waits
    /// for are no problem within --horizontal-pod-autoscaler-cpu-initialization-period after it
    /// scaled
    #[arg(long, short = 'A', conflicts_with_all = ["name", "filename", "since"])]
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
    /// Explain again whenever the first sentence changes. Reads the cluster once per sync period
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

impl ExplainArguments {
    /// Fails if both `--watch` and `--all-namespaces` are set, with commands that work instead.
    pub(super) fn check_watch(&self) -> Result<(), String> {
        if self.watch && self.all_namespaces {
            return Err("--watch explains one autoscaler, so it can't be used with \
                        --all-namespaces. To follow all autoscalers: hpa dashboard. To repeat the \
                        list: watch hpa explain --all-namespaces"
                .to_owned());
        }
        Ok(())
    }
}

/// The output of `hpa explain`, `hpa status` and `hpa version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For people
    Text,
    /// One JSON object
    Json,
    /// One YAML document
    Yaml,
}
