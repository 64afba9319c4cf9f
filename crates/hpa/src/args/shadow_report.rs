use clap::Args;
use jiff::SignedDuration;

use super::{
    kubectl::ImpersonationArguments,
    run::{AutoscalingArguments, ClusterArguments, LogArguments},
    values::positive_duration,
};

#[derive(Args, Debug)]
#[command(after_help = include_str!("examples/shadow-report.txt").trim_ascii_end())]
pub(crate) struct ShadowReportArguments {
    /// The duration of the comparison
    #[arg(long = "for", value_name = "DURATION", default_value = "10m",
        value_parser = positive_duration)]
    pub(crate) duration: SignedDuration,
    #[command(flatten)]
    pub(crate) autoscaling: AutoscalingArguments,
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
    #[command(flatten, next_help_heading = "Cluster")]
    pub(crate) impersonation: ImpersonationArguments,
    #[command(flatten)]
    pub(crate) log: LogArguments,
}
