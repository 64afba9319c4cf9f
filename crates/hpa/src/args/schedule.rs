use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;

use super::{ScheduleDefaults, values::time};

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Draw the value of schedules over the coming week, and list the bounds of autoscalers
    Preview(PreviewArguments),
    /// Print the CustomResourceDefinitions of ScalingSchedule and ClusterScalingSchedule
    Crd,
}

#[derive(Args, Debug)]
#[command(after_help = include_str!("examples/schedule-preview.txt").trim_ascii_end())]
pub(crate) struct PreviewArguments {
    /// Manifest of schedules or autoscalers with the setting bounds. Schedules are ScalingSchedules
    /// and ClusterScalingSchedules; "-" is standard input. Other objects are ignored
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Start of the week, such as 2026-01-31T08:00:00Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) from: Option<Timestamp>,
    #[command(flatten)]
    pub(crate) defaults: ScheduleDefaults,
    /// Behave exactly as this program. In kube-metrics-adapter, windows and ramps end at midnight
    #[arg(long, value_name = "PROGRAM", value_parser = ["kube-metrics-adapter"])]
    pub(crate) compat: Option<String>,
    /// Output format
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: PreviewFormat,
}

/// The output of `hpa schedule preview`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PreviewFormat {
    /// A drawing and the windows
    Text,
    /// A list with the windows and all changes of the value
    Json,
}
